package quorum

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/ballot"
)

// A hold is one attempt of a claim and what becomes of it: the state machine,
// and what it needs to talk to the nodes.
type hold struct {
	quorum *Backend
	nonce  string // the attempt's ID at the nodes: the claim's, ~, number
	number uint64

	mu       sync.Mutex // never held across I/O
	attempt  *ballot.Attempt
	claim    driver.Claim   // as last asked for; guarded by mu
	until    time.Duration  // when whatever the nodes have of it has ended by itself; guarded by mu
	kept     time.Duration  // when what was released with a Keep ends; guarded by mu
	errs     []error        // what each node said last, nil for yes; guarded by mu
	notice   *driver.Notice // guarded by mu
	watches  []*watch       // guarded by mu
	overdue  *time.Timer    // tells the attempt that it is overdue; guarded by mu
	lastSeen uint64         // the last token that a node told; guarded by mu
	nodeTime time.Time      // the time that a node told last; guarded by mu
	owing    bool           // a release, and the crew knows; guarded by mu
}

// A call is what requests have in common that are sent for one caller.
type call struct {
	ctx      context.Context // the caller's values, and nothing else of his
	deadline time.Time       // of the requests that it begins with
	limit    time.Time       // of all, zero for none: the caller's own
}

// newCall returns a call for ctx about a claim of this TTL.
func (b *Backend) newCall(ctx context.Context, ttl time.Duration) call {
	l := call{ctx: context.WithoutCancel(ctx), deadline: time.Now().Add(b.timeout(ttl))}
	if d, ok := ctx.Deadline(); ok {
		l.limit = d
		if d.Before(l.deadline) {
			l.deadline = d
		}
	}
	return l
}

// send sends requests, each on a goroutine of its own: no node waits for
// another, and nobody waits for a node longer than he likes.
func (h *hold) send(l call, requests []ballot.Request) {
	for _, r := range requests {
		if r.Op == ballot.Release && r.At > h.quorum.now() {
			h.quorum.seats[r.Node].release(h, r.At) // the node may still grant it
			continue
		}
		h.quorum.crew.Start(func() { h.exchange(l, r) })
	}
}

// exchange carries out r and goes on with what follows from the answer.
func (h *hold) exchange(l call, r ballot.Request) {
	b := h.quorum
	s := b.seats[r.Node]
	h.mu.Lock()
	c := h.nodeClaim(r)
	h.mu.Unlock()
	deadline := l.deadline
	if r.Op == ballot.Confirm || r.Op == ballot.Release {
		deadline = time.Now().Add(b.timeout(c.TTL))
		if r.Op == ballot.Confirm && !l.limit.IsZero() && l.limit.Before(deadline) {
			deadline = l.limit
		}
	}
	ctx, cancel := context.WithDeadline(l.ctx, deadline)
	ans, grant, err := s.carryOut(ctx, r.Op, c)
	cancel()

	h.mu.Lock()
	h.note(r, ans, grant, err)
	next := h.step(r, ans, b.now())
	h.wake()
	h.mu.Unlock()
	if r.Op == ballot.Release && ans.Verdict != ballot.Yes && ans.Verdict != ballot.Gone {
		s.release(h, b.now()+sweepPause)
	}
	h.send(l, next)
}

// feed tells the attempt something that is not an answer.
func (h *hold) feed(l call, event func(*ballot.Attempt, time.Duration) []ballot.Request) {
	h.mu.Lock()
	next := event(h.attempt, h.quorum.now())
	h.wake()
	h.mu.Unlock()
	h.send(l, next)
}

// carryOut asks the node to do op on c.
func (s *seat) carryOut(ctx context.Context, op ballot.Op, c driver.Claim) (ans ballot.Answer, g driver.Grant, err error) {
	ans, err = s.ask(op, func() (time.Time, error) {
		switch op {
		case ballot.Acquire:
			if err := s.fit(ctx); err != nil {
				return time.Time{}, err
			}
			g, err = s.Backend.Acquire(ctx, c)
		case ballot.Confirm, ballot.Renew:
			g, err = s.Backend.Renew(ctx, c)
		case ballot.Find:
			g, err = s.find(ctx, c)
		case ballot.Release:
			err = s.Backend.Release(ctx, c)
		}
		return g.Now, err
	})
	if ans.Verdict == ballot.Yes && (op == ballot.Acquire || op == ballot.Renew) {
		s.refresh()
	}
	ans.Value = g.Token
	return ans, g, err
}

// find looks whether the node has c, and with which value.
func (s *seat) find(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	st, err := s.Backend.Inspect(ctx, c.Key, 1)
	if err != nil {
		return driver.Grant{}, err
	}
	for _, o := range st.Holders {
		if o.Held && o.ID == c.ID {
			return o.Grant, nil
		}
	}
	return driver.Grant{}, &driver.LostError{Reason: driver.Expired}
}

// nodeClaim is the claim as the node of r knows it. mu is held.
func (h *hold) nodeClaim(r ballot.Request) driver.Claim {
	c := h.claim
	c.ID = h.nonce
	c.Queue, c.Block = false, 1
	c.Grant = driver.Grant{Token: r.Value, Holder: h.nonce}
	switch r.Op {
	case ballot.Confirm, ballot.Renew:
		c.Floor = r.Floor
	case ballot.Release:
		if c.Keep > 0 {
			// Retried later it ends when it should have: right away if that is over.
			c.Keep = max(0, h.kept-h.quorum.now())
		}
	}
	return c
}

// note remembers what the answer says beside yes and no. mu is held.
func (h *hold) note(r ballot.Request, ans ballot.Answer, g driver.Grant, err error) {
	h.errs[r.Node] = err
	if err == nil && ans.Barred {
		h.errs[r.Node] = errBarred
	}
	var held *driver.HeldError
	var lost *driver.LostError
	switch {
	case errors.As(err, &held):
		h.lastSeen, h.nodeTime = max(h.lastSeen, held.Last), held.Now
	case errors.As(err, &lost):
		if lost.Notice != nil {
			h.notice = lost.Notice
		}
	case err == nil && (r.Op == ballot.Acquire || r.Op == ballot.Renew || r.Op == ballot.Confirm):
		h.lastSeen, h.nodeTime = max(h.lastSeen, g.Token), g.Now
		if g.Notice != nil {
			h.notice = g.Notice
		}
	}
}

// step feeds the answer to the state machine. mu is held.
func (h *hold) step(r ballot.Request, ans ballot.Answer, now time.Duration) []ballot.Request {
	switch r.Op {
	case ballot.Acquire:
		next := h.attempt.Acquired(r.Node, ans, now)
		if !h.attempt.Waiting() && h.overdue != nil {
			h.overdue.Stop()
		}
		return next
	case ballot.Confirm:
		return h.attempt.Confirmed(r.Node, ans, now)
	case ballot.Renew:
		return r.Round.Renewed(r.Node, ans, now)
	case ballot.Find:
		return r.Round.Found(r.Node, ans, r, now)
	default:
		h.attempt.Released(r.Node, ans)
		return nil
	}
}

// wake tells those who wait for what has come about, and the crew whether a
// release is owed. mu is held.
func (h *hold) wake() {
	switch owing := h.attempt.Owing(); {
	case owing && !h.owing:
		h.quorum.crew.owe(1)
		h.owing = true
	case !owing && h.owing:
		h.quorum.crew.owe(-1)
		h.owing = false
	}
	for _, w := range h.watches {
		w.look()
	}
}

// A watch tells when something has come about, once for each time that it was
// looked at and was so. Nobody is woken for an answer that changes nothing.
type watch struct {
	hold   *hold
	enough func() bool   // called with hold.mu held
	met    chan struct{} // holds one
}

// watch returns a watch that is to be stopped.
func (h *hold) watch(enough func() bool) *watch {
	w := &watch{h, enough, make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watches = append(h.watches, w)
	w.look()
	return w
}

// look is called with mu held.
func (w *watch) look() {
	if w.enough() {
		select {
		case w.met <- struct{}{}:
		default:
		}
	}
}

func (w *watch) stop() {
	h := w.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watches = slices.DeleteFunc(h.watches, func(o *watch) bool { return o == w })
}

// wait waits until enough reports true, for d at most. enough is called with mu
// held.
func (h *hold) wait(ctx context.Context, d time.Duration, enough func() bool) error {
	h.mu.Lock()
	done := enough()
	h.mu.Unlock()
	if done {
		return nil
	}
	w := h.watch(enough)
	defer w.stop()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.met:
		return nil
	case <-timer.C:
		return context.DeadlineExceeded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// clear reports whether what the nodes may still have of an ended hold can't
// keep others from a majority. mu is held.
func (h *hold) clear() bool {
	return h.attempt.Phase() == ballot.Ended && h.attempt.Left() <= len(h.quorum.seats)-h.quorum.majority()
}

// tell reports a decision to the observer.
func (h *hold) tell(op, outcome string, votes []ballot.Verdict, rounds int, took time.Duration) {
	o := h.quorum.opts.Observer
	if o.Decided == nil {
		return
	}
	h.mu.Lock()
	d := Decision{Op: op, Key: h.claim.Key, Outcome: outcome, Rounds: rounds, Took: took, Votes: h.quorum.votes(votes, h.errs)}
	h.mu.Unlock()
	o.Decided(d)
}

// noMajority is the error for votes that decide nothing.
func (h *hold) noMajority(op, why string, votes []ballot.Verdict) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.quorum.noMajority(op, why, votes, h.errs)
}

// settled reports whether no node has, or will have, anything of h.
func (h *hold) settled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.attempt.Settled()
}

func (h *hold) ttl() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.claim.TTL
}
