package pawl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/term"
)

// A Lease is one hold of a [Lock]. It is renewed in the background until it is
// released or lost. Its methods may be called concurrently.
type Lease struct {
	client    *Client
	lock      *Lock
	root      *Lease      // of which this is a part, nil if it is a hold of its own
	stop      func() bool // for a part: stops to watch the root
	outer     *Lease      // of the context that it was acquired under, nil if none
	ctx       context.Context
	cancel    context.CancelCauseFunc
	key, id   string
	exclusive atomic.Bool   // it was granted all of the key, and was not downgraded since
	nth       int           // of the holds that its claim was handed to, from 0
	token     uint64        // the nth of the grant's block
	sent      time.Duration // when the request that was granted was sent
	asked     chan struct{} // closed when somebody has asked for the lease

	mu        sync.Mutex    // never held across I/O
	claim     driver.Claim  // guarded by mu: with the last grant
	term      term.Term     // guarded by mu
	lost      *LostError    // guarded by mu: why, if it was
	releasing chan struct{} // guarded by mu: closed when the release under way has ended
	confirmed bool          // guarded by mu: nothing is left to be released
	released  error         // guarded by mu: what the release that was confirmed returned
	doubt     bool          // guarded by mu: a release was sent, and its outcome is unknown
	late      time.Duration // guarded by mu: until when an unanswered attempt may reach the store
	within    int           // guarded by mu: parts of it that are not released
	unused    bool          // guarded by mu: whoever acquired it had no use for it
	notice    *Notice       // guarded by mu: the last request for the lease
	relay     *relay        // guarded by mu: where the next waits, nil once they were told
	heir      *Lease        // guarded by mu: who the claim was handed to

	due   time.Duration // guarded by keeper.mu
	index int           // guarded by keeper.mu: in its queue, -1 if removed
}

type leaseKey struct{}

// leaseOf returns the innermost lease that ctx belongs to, nil if none.
func leaseOf(ctx context.Context) *Lease {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// carry returns a context of what is done within l.
func carry(ctx context.Context, l *Lease) context.Context {
	return context.WithValue(context.WithValue(ctx, leaseKey{}, l), tokenKey{}, l)
}

// newLease starts the lease of a grant, or returns nil if nothing useful is
// left of it.
func newLease(ctx context.Context, a *acquisition, ans answer) *Lease {
	c := a.client
	t, ok := term.Start(c.opts.term(), ans.grant.TTL, ans.sent, c.now())
	if !ok {
		return nil
	}
	l := &Lease{
		client: c,
		lock:   a.lock,
		outer:  leaseOf(ctx),
		key:    a.claim.Key,
		id:     a.claim.ID,
		token:  ans.grant.Token,
		sent:   ans.sent.At,
		asked:  make(chan struct{}),
		late:   a.late,
		relay:  a.relay,
		claim:  a.claim,
		term:   t,
		index:  -1,
	}
	l.claim.Grant = ans.grant
	l.exclusive.Store(a.claim.Exclusive())
	l.scope(ctx)
	c.relays.holds(a.relay, l)
	a.relay = nil // the lead is the lease's
	// Before anything can end the lease: its loss is told after its grant.
	c.opts.Observer.acquired(l, c.now().At-a.began, a.attempts)
	c.keeper.add(l, t.Next())
	return l
}

// scope gives l its context, with the values of ctx.
func (l *Lease) scope(ctx context.Context) {
	l.ctx, l.cancel = context.WithCancelCause(carry(context.WithoutCancel(ctx), l))
}

// Context ends with the lease. It has the values of the context that the lock
// was acquired with, but neither its deadline nor its cancellation. Its
// [context.Cause] is [ErrReleased], or an error that wraps a [*LostError].
func (l *Lease) Context() context.Context { return l.ctx }

// Token returns the fencing token: greater than that of every grant on the key
// before. It is 0 if the store has none. [TokenOf] returns it along with the key,
// as guards want it.
func (l *Lease) Token() uint64 { return l.token }

// Key returns the name of the lock.
func (l *Lease) Key() string { return l.key }

// Holder returns the ID of the claim that this hold has, as [Client.Inspect] shows
// it. Holds that were handed over one to the next have the same; see
// [Options.Handover].
func (l *Lease) Holder() string { return l.id }

// Deadline returns when the lease ends unless it is renewed. It is a margin
// earlier than the moment from which the store may give the key to another. The
// deadline of a lease that has ended is in the past.
func (l *Lease) Deadline() time.Time {
	if l.root != nil {
		return l.root.Deadline()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client.time(l.term.End())
}

// Valid reports whether the lease has not ended. It reads the clock, and so is
// right also where the timer that ends [Lease.Context] is late, as after a
// pause of the process. It says nothing about the time after it returns.
func (l *Lease) Valid() bool { return l.Check(0) == nil }

// Check returns nil if the lease lasts for at least d more, even if it is not
// renewed. To be called right before a side effect that takes d. If it has
// ended the error wraps a [*LostError] or is [ErrReleased].
func (l *Lease) Check(d time.Duration) error {
	if l.root != nil {
		return l.checkWithin(d)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.client.now()
	if action, _ := l.term.Due(now); action == term.Lose {
		l.lose(&LostError{Reason: l.term.Reason()})
	}
	switch left := l.term.Left(now); {
	case l.term.State() != term.Live:
		return context.Cause(l.ctx)
	case left < d:
		return l.client.fail("check", l.key, fmt.Errorf("%v left of the lease, less than %v", left, d))
	}
	return nil
}

// lose ends the lease; after the first time it does nothing. It is called with
// mu held.
func (l *Lease) lose(err *LostError) {
	if l.lost != nil {
		return
	}
	l.lost = err
	l.cancel(l.client.fail("hold", l.key, err))
	l.client.keeper.remove(l)
	l.nextLeads()
	l.client.detach(func() { l.client.opts.Observer.lost(l, err) })
}

// nextLeads lets the next in line go to the store, once. It is called with mu
// held.
func (l *Lease) nextLeads() {
	l.client.relays.end(l.relay, l)
	l.relay = nil
}

// kept returns the claim as it is to be released: its key stays taken until
// MinHold, or the period of a Once, has passed since the grant, if anything was
// done with it. It is called with mu held.
func (l *Lease) kept(now term.Instant) driver.Claim {
	claim := l.claim
	if !l.unused {
		claim.Keep = max(0, l.lock.minHold()-(now.At-l.sent))
	}
	return claim
}

// asLost returns what a backend that said ErrLost has told about it.
func asLost(err error) *LostError {
	var lost *LostError
	if errors.As(err, &lost) {
		return lost
	}
	return &LostError{Reason: driver.Expired}
}

// within returns a context that ends with that of a lease or with ctx.
func within(lease, ctx context.Context) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(lease)
	deadline, timed := ctx.Deadline()
	stop := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if timed && cause == context.DeadlineExceeded && time.Until(deadline) <= 0 {
			return // ends by the same deadline, and then Err says so too
		}
		cancel(cause)
	})
	end := func() {
		stop()
		cancel(context.Canceled)
	}
	if !timed {
		return inner, end
	}
	bounded, free := context.WithDeadline(inner, deadline)
	return bounded, func() { free(); end() }
}
