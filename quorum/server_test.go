package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

// A server is a store in this process that can be made to fail.
type server struct {
	name  string
	store *memory.Store
	delay time.Duration // half of it on the way there, half on the way back; see jitter

	breakRenew   bool        // loses the answers to renewals
	breakRelease atomic.Bool // carries out no release

	busy sync.WaitGroup // requests under way

	mu     sync.Mutex
	health health        // guarded by mu
	thawed chan struct{} // closed when it is frozen no more; guarded by mu
	shift  time.Duration // of its clock; guarded by mu
	calls  map[string]int
}

type health int

const (
	alive  health = iota
	dead          // breaks connections
	away          // takes none, so that nothing can have been sent
	frozen        // takes requests, and carries them out when it is thawed
	losing        // carries them out, and loses the answers
)

func newServer(name string) *server {
	return &server{name: name, store: new(memory.Store), thawed: make(chan struct{}), calls: make(map[string]int)}
}

func (s *server) set(h health) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.health == frozen && h != frozen {
		close(s.thawed)
		s.thawed = make(chan struct{})
	}
	s.health = h
}

// step sets the server's clock ahead by d.
func (s *server) step(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shift += d
}

// jitter sets the delay of requests from now on.
func (s *server) jitter(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

func (s *server) clock(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.Add(s.shift)
}

func (s *server) called(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[op]
}

var (
	errDead = errors.New("connection refused")
	errAway = fmt.Errorf("%w: no such host", driver.ErrRefused)
	errLost = errors.New("connection reset")
)

// A line is a client's way to a server.
type line struct {
	driver.Backend
	server *server

	mu      sync.Mutex
	stalled time.Time // requests arrive then, at the earliest; guarded by mu
}

func (l *line) stall(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stalled = time.Now().Add(d)
}

// carry brings a request to the server and its answer back. The caller hears of
// nothing that comes after the end of ctx, but what has been sent arrives.
func carry[T any](ctx context.Context, l *line, op string, f func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	s := l.server
	s.mu.Lock()
	health, thawed, delay := s.health, s.thawed, s.delay
	s.calls[op]++
	s.mu.Unlock()
	l.mu.Lock()
	stall := time.Until(l.stalled)
	l.mu.Unlock()
	switch {
	case health == dead || op == "release" && s.breakRelease.Load():
		return answer{}.value, errDead
	case health == away:
		return answer{}.value, errAway
	}
	s.busy.Go(func() {
		if health == frozen {
			<-thawed
		}
		time.Sleep(max(stall, 0) + delay/2)
		arrived := context.WithoutCancel(ctx) // a request can't be called back
		if d, ok := ctx.Deadline(); ok {
			var cancel context.CancelFunc
			arrived, cancel = context.WithDeadline(arrived, d)
			defer cancel()
		}
		value, err := f(arrived)
		time.Sleep(delay / 2)
		if health == losing || op == "renew" && s.breakRenew {
			err = errLost
		}
		answers <- answer{value, err}
	})
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		return answer{}.value, context.Cause(ctx)
	}
}

func (l *line) Acquire(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	g, err := carry(ctx, l, "acquire", func(ctx context.Context) (driver.Grant, error) { return l.Backend.Acquire(ctx, c) })
	return l.told(g), l.toldHeld(err)
}

func (l *line) Renew(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	g, err := carry(ctx, l, "renew", func(ctx context.Context) (driver.Grant, error) { return l.Backend.Renew(ctx, c) })
	return l.told(g), err
}

func (l *line) told(g driver.Grant) driver.Grant {
	g.Now = l.server.clock(g.Now)
	return g
}

func (l *line) toldHeld(err error) error {
	if held := (*driver.HeldError)(nil); errors.As(err, &held) {
		held.Now = l.server.clock(held.Now)
	}
	return err
}

func (l *line) Release(ctx context.Context, c driver.Claim) error {
	_, err := carry(ctx, l, "release", func(ctx context.Context) (struct{}, error) { return struct{}{}, l.Backend.Release(ctx, c) })
	return err
}

func (l *line) Wait(ctx context.Context, c driver.Claim, h *driver.HeldError) error {
	_, err := carry(ctx, l, "wait", func(arrived context.Context) (struct{}, error) {
		return struct{}{}, l.Backend.Wait(ctx, c, h)
	})
	return err
}

func (l *line) Revoke(ctx context.Context, key, id string, n driver.Notice) error {
	_, err := carry(ctx, l, "revoke", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, l.Backend.Revoke(ctx, key, id, n)
	})
	return err
}

func (l *line) Inspect(ctx context.Context, key string, limit int) (driver.State, error) {
	return carry(ctx, l, "inspect", func(ctx context.Context) (driver.State, error) { return l.Backend.Inspect(ctx, key, limit) })
}

func (l *line) List(ctx context.Context, prefix string) iter.Seq2[driver.Holder, error] {
	return func(yield func(driver.Holder, error) bool) {
		all, err := carry(ctx, l, "list", func(ctx context.Context) (all []driver.Holder, err error) {
			for h, err := range l.Backend.List(ctx, prefix) {
				if err != nil {
					return nil, err
				}
				all = append(all, h)
			}
			return all, nil
		})
		for _, h := range all {
			if !yield(h, nil) {
				return
			}
		}
		if err != nil {
			yield(driver.Holder{}, err)
		}
	}
}
