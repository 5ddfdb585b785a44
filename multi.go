package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Multi is several locks that are held all or not at all: the two accounts of
// a transfer, a table to read and one to write. Like a [Lock] it has no state.
type Multi struct {
	client *Client
	locks  []*Lock // by key, the same in every process
}

// Multi returns the locks as one. They may be of any kind, and each must be of
// another key and of this client; what is not is [ErrInvalid] when they are
// acquired.
func (c *Client) Multi(locks ...*Lock) *Multi {
	sorted := slices.Clone(locks)
	slices.SortStableFunc(sorted, func(a, b *Lock) int { return strings.Compare(a.key, b.key) })
	return &Multi{client: c, locks: sorted}
}

// Acquire waits until all of the locks are granted, or ctx is done, which bounds
// the wait for all of them together and not the hold.
//
// They are acquired one after the other in the order of their keys, whatever
// order they were given in. Since everybody does so, no two can wait for each
// other, unless one acquires more inside of what it holds: name in one Multi all
// that is needed. While it waits for one, Acquire keeps those before it; if one
// of them is lost meanwhile it begins anew.
//
// On failure nothing is held, and the error names the key that could not be
// had, as [Lock.Acquire] would have told it.
func (m *Multi) Acquire(ctx context.Context) (*MultiLease, error) {
	if err := m.validate(); err != nil {
		return nil, err
	}
	for {
		held, err := m.acquire(ctx, true)
		switch {
		case err == nil:
			return newMultiLease(held), nil
		case !errors.Is(err, errMemberLost) || ctx.Err() != nil:
			return nil, err
		}
	}
}

// TryAcquire makes one attempt for each of the locks. If there is no room for
// one it returns the [*HeldError] of that, and holds none of them.
func (m *Multi) TryAcquire(ctx context.Context) (*MultiLease, error) {
	if err := m.validate(); err != nil {
		return nil, err
	}
	held, err := m.acquire(ctx, false)
	if err != nil {
		return nil, err
	}
	return newMultiLease(held), nil
}

// Do acquires all of the locks, calls f and releases them, as [Lock.Do] does
// with one.
func (m *Multi) Do(ctx context.Context, f func(ctx context.Context, lease *MultiLease) error) (err error) {
	lease, err := m.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release(ctx)) }() // also when f panics
	inner, cancel := within(lease.ctx, ctx)
	defer cancel()
	return f(inner, lease)
}

func (m *Multi) validate() error {
	if len(m.locks) == 0 {
		return m.client.fail("acquire", "", &FieldError{Field: "Multi", Why: "is of no locks: name one at least"})
	}
	for i, l := range m.locks {
		switch {
		case l.client != m.client:
			return m.client.fail("acquire", l.key, &FieldError{Field: "Multi", Why: fmt.Sprintf("has the lock of %q from another client: all or none takes one store", l.key)})
		case i > 0 && l.key == m.locks[i-1].key:
			return m.client.fail("acquire", l.key, &FieldError{Field: "Multi", Why: fmt.Sprintf("names %q twice, and would wait for itself", l.key)})
		}
	}
	return nil
}

// errMemberLost: what was held already was lost before the rest was granted.
var errMemberLost = errors.New("lost while waiting for the others")

// acquire makes one pass over the locks. What it holds when it can't go on it
// releases.
func (m *Multi) acquire(ctx context.Context, queue bool) (held []*Lease, err error) {
	wait, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, l := range m.locks {
		if queue && l.nested(ctx) {
			return nil, m.client.fail("acquire", l.key, ErrDeadlock) // before anything is held
		}
	}
	for _, l := range m.locks {
		lease, err := l.acquire(wait, queue)
		if lost := firstEnded(held, 0); lost != nil && (err == nil || ctx.Err() == nil) {
			err = fmt.Errorf("%w: %w", errMemberLost, lost)
		}
		if lease != nil {
			held = append(held, lease)
		}
		if err != nil {
			m.abandon(ctx, held)
			return nil, err
		}
		// What comes later is acquired within the lease, and no longer than it
		// lasts.
		stop := context.AfterFunc(lease.ctx, func() { cancel(context.Cause(lease.ctx)) })
		defer stop()
		wait = carry(wait, lease)
	}
	return held, nil
}

// abandon releases the leases of an attempt that failed, before anyone hears of
// the failure, so that he finds nothing of his own in the way; but a caller who
// is gone does not wait for it. They were of no use: MinHold does not keep them.
func (m *Multi) abandon(ctx context.Context, held []*Lease) {
	done := make(chan struct{})
	m.client.detach(func() {
		defer close(done)
		var releases sync.WaitGroup
		for _, l := range held {
			l.mu.Lock()
			l.unused = true
			l.mu.Unlock()
			releases.Go(func() { _ = l.Release(ctx) }) // it goes on by itself until it is confirmed
		}
		releases.Wait()
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// A MultiLease is one hold of a [Multi]. Each of its leases is renewed by itself
// until all are released. Its methods may be called concurrently.
type MultiLease struct {
	leases []*Lease // in the order of their keys
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func newMultiLease(leases []*Lease) *MultiLease {
	m := &MultiLease{leases: leases}
	last := leases[len(leases)-1]
	m.ctx, m.cancel = context.WithCancelCause(last.ctx)
	for _, l := range leases[:len(leases)-1] {
		context.AfterFunc(l.ctx, func() { m.cancel(context.Cause(l.ctx)) })
	}
	return m
}

// Context ends as soon as one of the leases does. Its [context.Cause] is
// [ErrReleased], or the error of the lease that was lost, which names its key.
// The others are held until [MultiLease.Release], so that nobody comes in before
// the work has stopped.
//
// The token that it carries, see [TokenFromContext], is of the last key. To have
// the guard of another resource find the right one, use [ContextWithToken] with
// the [TokenOf] its lease.
func (m *MultiLease) Context() context.Context { return m.ctx }

// Leases returns the lease of each key, in the order of the keys. To release one
// of them ends the whole.
func (m *MultiLease) Leases() []*Lease { return slices.Clone(m.leases) }

// Lease returns the lease of key, nil if there is none.
func (m *MultiLease) Lease(key string) *Lease {
	for _, l := range m.leases {
		if l.key == key {
			return l
		}
	}
	return nil
}

// Token returns the fencing token of key, 0 if it is none of those held.
func (m *MultiLease) Token(key string) uint64 {
	if l := m.Lease(key); l != nil {
		return l.token
	}
	return 0
}

// Deadline returns when the first of the leases ends unless it is renewed. See
// [Lease.Deadline].
func (m *MultiLease) Deadline() time.Time {
	first := m.leases[0].Deadline()
	for _, l := range m.leases[1:] {
		if d := l.Deadline(); d.Before(first) {
			first = d
		}
	}
	return first
}

// Valid reports whether none of the leases has ended. See [Lease.Valid].
func (m *MultiLease) Valid() bool { return m.Check(0) == nil }

// Check returns nil if each of the leases lasts for at least d more, and
// otherwise the error of the first that does not. See [Lease.Check].
func (m *MultiLease) Check(d time.Duration) error { return firstEnded(m.leases, d) }

func firstEnded(leases []*Lease, d time.Duration) error {
	for _, l := range leases {
		if err := l.Check(d); err != nil {
			return err
		}
	}
	return nil
}

// Release gives all keys back, at the same time, each as [Lease.Release] does,
// and joins their errors. One that was lost makes it an error that wraps a
// [*LostError]; the others are released nevertheless.
func (m *MultiLease) Release(ctx context.Context) error {
	m.cancel(ErrReleased)
	failed := make([]error, len(m.leases))
	var releases sync.WaitGroup
	for i, l := range m.leases {
		releases.Go(func() { failed[i] = l.Release(ctx) })
	}
	releases.Wait()
	return errors.Join(failed...)
}
