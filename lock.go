package pawl

import (
	"context"
	"errors"
	"time"

	"github.com/pawlock/pawl/driver"
)

// A Lock is a name to be held, and how much of it. It has no state: any number
// of goroutines may acquire it, and each [Lease] is a hold of its own.
type Lock struct {
	client           *Client
	key              string
	weight, capacity int
	every            time.Duration // the period of a Once
	periodic         bool          // it is of a Once
	reentrant        bool          // it may be acquired again within itself
	alone            bool          // each hold is a claim of its own: its token is the one that Inspect shows
}

// Key returns the name of the lock.
func (l *Lock) Key() string { return l.key }

// Acquire waits until l is granted or ctx is done. The context bounds the wait
// and not the hold: the lease lives on until it is released or lost.
//
// On failure nothing is held, and what the store may have kept of the attempt
// is withdrawn in the background. If ctx ends first the error is ctx's, joined
// with the [*HeldError] or the trouble that it was waiting out. While the store
// is in trouble Acquire goes on trying; when that has lasted for a TTL without
// one answer it returns the trouble. Inside a lease of the same key, by its
// context, it never waits: what is not granted at once is [ErrDeadlock]. See
// [Lock.Reentrant].
//
// Goroutines of one client that want the same key exclusively are served in the
// order in which they came, and share a claim of the store for up to
// [Options.Handover] holds, where the store can do that.
func (l *Lock) Acquire(ctx context.Context) (*Lease, error) {
	return l.acquire(ctx, true)
}

// TryAcquire makes one attempt, and returns a [*HeldError] if there is no room,
// which leaves no trace in the store.
func (l *Lock) TryAcquire(ctx context.Context) (*Lease, error) {
	return l.acquire(ctx, false)
}

// Do acquires l, calls f and releases l. The context that f gets ends with ctx
// or with the lease, whichever is first; [context.Cause] tells which. Do
// returns the error of f joined with that of the release, so that a lock lost
// on the way is never taken for success. If l can't be acquired f is not
// called.
func (l *Lock) Do(ctx context.Context, f func(ctx context.Context, lease *Lease) error) error {
	lease, err := l.Acquire(ctx)
	if err != nil {
		return err
	}
	return lease.do(ctx, f)
}

// do calls f within l, and releases l.
func (l *Lease) do(ctx context.Context, f func(ctx context.Context, lease *Lease) error) (err error) {
	defer func() { err = errors.Join(err, l.Release(ctx)) }() // also when f panics
	inner, cancel := within(l.ctx, ctx)
	defer cancel()
	return f(inner, l)
}

// claim returns a claim on l with an ID of its own.
func (l *Lock) claim(queue bool) driver.Claim {
	o := &l.client.opts
	return driver.Claim{
		Key:      l.key,
		ID:       l.client.identity.Next(),
		Label:    o.Label,
		Weight:   l.weight,
		Capacity: l.capacity,
		TTL:      l.ttl(0),
		Queue:    queue,
		Block:    1,
	}
}

// nested reports whether code under ctx would wait for itself: it runs inside a
// live lease of the same key, one of the two wants all of it, and l can't be had
// again within what is held.
func (l *Lock) nested(ctx context.Context) bool {
	exclusive := l.weight == l.capacity
	for lease := leaseOf(ctx); lease != nil; lease = lease.outer {
		if lease.client != l.client || lease.key != l.key || !lease.Valid() {
			continue
		}
		if held := lease.exclusive.Load(); (exclusive || held) && !(l.reentrant && held) {
			return true
		}
	}
	return false
}
