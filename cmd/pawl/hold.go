package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
)

// A hold is what was acquired: a lock, or several of which the loss of one is the
// loss of all.
type hold struct {
	whole
	client *pawl.Client
	store  *store
	leases []*pawl.Lease // in the order of the command line: the first is that of LOCK
}

// A whole is what a lease, and a lease of several locks, have in common.
type whole interface {
	Context() context.Context
	Deadline() time.Time
	Check(time.Duration) error
	Release(context.Context) error
}

// take acquires the locks that r asks for, all of them or none.
func take(ctx context.Context, c *pawl.Client, r request) (whole, []*pawl.Lease, error) {
	if len(r.keys) == 1 {
		lock, acquire := lockOf(c, r, r.keys[0]), (*pawl.Lock).Acquire
		if r.wait == 0 {
			acquire = (*pawl.Lock).TryAcquire
		}
		lease, err := acquire(lock, ctx)
		return lease, []*pawl.Lease{lease}, err
	}
	locks := make([]*pawl.Lock, len(r.keys))
	for i, key := range r.keys {
		locks[i] = lockOf(c, r, key)
	}
	acquire := (*pawl.Multi).Acquire
	if r.wait == 0 {
		acquire = (*pawl.Multi).TryAcquire
	}
	all, err := acquire(c.Multi(locks...), ctx)
	if err != nil {
		return nil, nil, err
	}
	leases := make([]*pawl.Lease, len(r.keys))
	for i, key := range r.keys {
		leases[i] = all.Lease(key)
	}
	return all, leases, nil
}

func lockOf(c *pawl.Client, r request, key string) *pawl.Lock {
	switch {
	case r.every > 0:
		return c.Once(key, r.every).Lock()
	case r.shared:
		return c.ReadLock(key)
	case r.slots > 1:
		return c.Semaphore(key, r.slots)
	}
	return c.Mutex(key)
}

// first returns the lease of LOCK itself.
func (h *hold) first() *pawl.Lease { return h.leases[0] }

// weakest returns the lease that was lost, or else that which ends first.
func (h *hold) weakest() *pawl.Lease {
	weakest := h.first()
	for _, l := range h.leases {
		switch {
		case lostReason(l) != nil:
			return l
		case l.Deadline().Before(weakest.Deadline()):
			weakest = l
		}
	}
	return weakest
}

// Renew restarts the TTL of all that is held, at the same time. Its error wraps
// pawl.ErrLost if one of them is lost.
func (h *hold) Renew(ctx context.Context) error {
	failed := make([]error, len(h.leases))
	var renewals sync.WaitGroup
	for i, l := range h.leases {
		renewals.Go(func() { failed[i] = l.Renew(ctx) })
	}
	renewals.Wait()
	return errors.Join(failed...)
}

// ttl returns for how long the store keeps the locks without a renewal.
func (h *hold) ttl() time.Duration { return h.store.seen().claim.TTL }

// outer returns the locks as PAWL_LOCKS has them.
func (h *hold) outer() []outerLock {
	locks := make([]outerLock, len(h.leases))
	for i, l := range h.leases {
		locks[i] = outerLock{l.Key(), mode(l), l.Holder(), l.Token(), h.store.name}
	}
	return locks
}

// fences returns the tokens of the locks, in their order.
func (h *hold) fences() []uint64 {
	tokens := make([]uint64, len(h.leases))
	for i, l := range h.leases {
		tokens[i] = l.Token()
	}
	return tokens
}

// quoted returns the names of locks to print: "a", "b" and "c".
func quoted(keys []string) string {
	text := ""
	for i, key := range keys {
		switch {
		case i == 0:
		case i == len(keys)-1:
			text += " and "
		default:
			text += ", "
		}
		text += plain.Quote(key)
	}
	return text
}
