package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Reentrant returns l as a lock that code within a lease of the same key may
// acquire again: a function that takes the lock it needs, called by one that holds
// it already. What tells them from strangers is the context, which has to come from
// [Lease.Context] or [Lock.Do] of the outer one, and not the goroutine.
//
// The inner lease is the outer hold: nothing is sent, and the token is the same. To
// release it ends its own context, and no more; the key is given back when the
// outermost lease is released, which ends all within it. It takes an outer lease of
// the same client that holds as much: a reader within a writer, a mutex within a
// mutex. A writer within a reader remains [ErrDeadlock]. The same lock within itself
// may be nested 100 deep; more is taken for a runaway, and is [ErrInvalid].
func (l *Lock) Reentrant() *Lock {
	again := *l
	again.reentrant = true
	return &again
}

// maxDepth is how deep a re-entrant lock may be nested.
const maxDepth = 100

// reenter returns a lease within one that ctx belongs to and that holds what l
// wants, nil if there is none.
func (l *Lock) reenter(ctx context.Context) (*Lease, error) {
	if !l.reentrant {
		return nil, nil
	}
	depth := 1
	for at := leaseOf(ctx); at != nil; at = at.outer {
		if at.client != l.client || at.key != l.key {
			continue
		}
		if at.root != nil {
			depth++
			continue
		}
		if depth > maxDepth {
			return nil, &FieldError{Field: "Reentrant", Why: fmt.Sprintf("is nested more than %d deep: does it call itself without end?", maxDepth)}
		}
		if lease := at.enter(ctx, l); lease != nil {
			return lease, nil
		}
		depth = 1
	}
	return nil, nil
}

// enter returns a lease within l, nil if l has ended or holds less than what is
// wanted.
func (l *Lease) enter(ctx context.Context, want *Lock) *Lease {
	if !l.Valid() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.claim.Exclusive() && (l.claim.Capacity != want.capacity || l.claim.Weight < want.weight || want.weight == want.capacity) {
		return nil
	}
	l.within++
	inner := &Lease{
		client: l.client,
		lock:   want,
		root:   l,
		outer:  leaseOf(ctx),
		key:    l.key,
		id:     l.id,
		token:  l.token,
		sent:   l.sent,
		asked:  l.asked,
		index:  -1,
	}
	inner.exclusive.Store(l.exclusive.Load())
	inner.scope(ctx)
	inner.stop = context.AfterFunc(l.ctx, func() { inner.cancel(context.Cause(l.ctx)) })
	return inner
}

// leave releases l, which is within another.
func (l *Lease) leave() error {
	err := l.root.Check(0)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.confirmed {
		return l.released
	}
	l.confirmed = true
	l.stop()
	l.cancel(ErrReleased)
	l.root.mu.Lock()
	l.root.within--
	l.root.mu.Unlock()
	if lost := new(LostError); errors.As(err, &lost) {
		l.released = l.client.fail("release", l.key, lost)
	}
	return l.released
}

// checkWithin is Check of l, which is within another.
func (l *Lease) checkWithin(d time.Duration) error {
	l.mu.Lock()
	left := l.confirmed
	l.mu.Unlock()
	if left {
		return context.Cause(l.ctx)
	}
	return l.root.Check(d)
}

// whole returns a [*FieldError] if l can't be made smaller because of what is
// within it, or because it is within another. It is called with mu held.
func (l *Lease) whole() error {
	switch {
	case l.root != nil:
		return &FieldError{Field: "Lease", Why: "is within another of the same hold: downgrade the outermost"}
	case l.within > 0:
		return &FieldError{Field: "Lease", Why: fmt.Sprintf("is held again by code within it (%d times): downgrade it when that is done", l.within)}
	}
	return nil
}

// wouldWait is the answer to a claim for a share within a lease of the same key,
// when there is no room: whoever is ahead may wait for that lease.
func (a *acquisition) wouldWait() error {
	a.withdraw()
	return fmt.Errorf("%w: %w", ErrDeadlock, a.held)
}

// isWithin reports whether ctx belongs to a live lease of l's key.
func (l *Lock) isWithin(ctx context.Context) bool {
	for at := leaseOf(ctx); at != nil; at = at.outer {
		if at.client == l.client && at.key == l.key && at.Valid() {
			return true
		}
	}
	return false
}
