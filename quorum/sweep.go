package quorum

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlock/pawl/internal/ballot"
)

// A sweep is what has to be released at a node that could not be told at once:
// a grant that may yet come, a release that was not confirmed. It is one
// goroutine while there is something to do. What has expired by itself is
// dropped.
type sweep struct {
	due     sweepQueue    // guarded by seat.mu
	running bool          // guarded by seat.mu
	pause   time.Duration // until the node is tried again, after a failure; guarded by seat.mu
	earlier chan struct{} // wakes the goroutine
}

// A sweepItem is a hold to be released at the node.
type sweepItem struct {
	hold *hold
	at   time.Duration // not before
}

const (
	sweepPause    = 10 * time.Millisecond
	maxSweepPause = time.Second
	maxSweepBatch = 32
)

// release has the node's part of h released, not before at.
func (s *seat) release(h *hold, at time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.sweep
	if w.earlier == nil {
		w.earlier = make(chan struct{}, 1)
	}
	heap.Push(&w.due, sweepItem{h, at})
	if !w.running {
		w.running, w.pause = true, sweepPause
		go s.sweepUp()
		return
	}
	select {
	case w.earlier <- struct{}{}:
	default:
	}
}

// sweepUp releases what is due until nothing is left: one after the other while
// the node does not answer, and more and more at once when it does.
func (s *seat) sweepUp() {
	batch := 1
	for {
		due, wait := s.due(batch)
		switch {
		case len(due) > 0:
			var pause time.Duration
			if s.sweepAll(due) {
				batch = min(2*batch, maxSweepBatch)
			} else {
				batch, pause = 1, s.backOff()
			}
			if !s.rest(pause) {
				return
			}
		case wait > 0:
			if !s.rest(wait) {
				return
			}
		default:
			return
		}
	}
}

// due takes up to n of what is due, or returns how long it is until something is.
// If nothing is left it ends the sweep.
func (s *seat) due(n int) (due []*hold, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.sweep
	now := s.quorum.now()
	for len(w.due) > 0 && len(due) < n && w.due[0].at <= now {
		due = append(due, heap.Pop(&w.due).(sweepItem).hold)
	}
	switch {
	case len(due) > 0:
	case len(w.due) > 0:
		wait = w.due[0].at - now
	default:
		w.running = false
	}
	return due, wait
}

// sweepAll releases the holds at the node, all at once, and reports whether it
// has confirmed one at least.
func (s *seat) sweepAll(due []*hold) bool {
	if len(due) == 1 {
		return s.sweepOne(due[0])
	}
	var all sync.WaitGroup
	var did atomic.Bool
	for _, h := range due {
		all.Go(func() {
			if s.sweepOne(h) {
				did.Store(true)
			}
		})
	}
	all.Wait()
	return did.Load()
}

// sweepOne releases h at the node, and reports whether it need not come back.
func (s *seat) sweepOne(h *hold) bool {
	b := s.quorum
	h.mu.Lock()
	if b.now() > h.until {
		h.attempt.Expire(s.index)
		h.wake()
		h.mu.Unlock()
		return true
	}
	_, value := h.attempt.Seat(s.index)
	c := h.nodeClaim(ballot.Request{Node: s.index, Op: ballot.Release, Value: value})
	h.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), b.timeout(c.TTL))
	defer cancel()
	ans, _, err := s.carryOut(ctx, ballot.Release, c)

	h.mu.Lock()
	h.errs[s.index] = err
	h.attempt.Released(s.index, ans)
	h.wake()
	h.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if ans.Verdict == ballot.Yes || ans.Verdict == ballot.Gone {
		s.sweep.pause = sweepPause
		return true
	}
	heap.Push(&s.sweep.due, sweepItem{h, b.now()})
	return false
}

// backOff returns how long to leave the node in peace.
func (s *seat) backOff() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.sweep.pause
	s.sweep.pause = min(2*d, maxSweepPause)
	return d
}

// rest sleeps for d, or until something is due that was not, and reports false
// when the backend has been closed.
func (s *seat) rest(d time.Duration) bool {
	stopped := s.quorum.crew.stopped
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.sweep.earlier:
		case <-stopped:
		}
	}
	select {
	case <-stopped:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sweep.running, s.sweep.due = false, nil
		return false
	default:
		return true
	}
}

// A sweepQueue is a heap, what is due first on top.
type sweepQueue []sweepItem

func (q sweepQueue) Len() int           { return len(q) }
func (q sweepQueue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q sweepQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *sweepQueue) Push(x any)        { *q = append(*q, x.(sweepItem)) }

func (q *sweepQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
