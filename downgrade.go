package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlock/pawl/driver"
)

// Downgrade turns the lease into one of to, a smaller share of the same key,
// with no moment in between at which another could take all of it: a writer
// becomes a reader, and what he wrote is what he then reads.
//
//	lease, err := client.WriteLock("catalogue").Acquire(ctx)
//	...
//	err = lease.Downgrade(ctx, client.ReadLock("catalogue"))
//
// The token stays, and those who wait for what has become free get it at once.
// There is no way back: to acquire more while holding some would wait for
// others who do the same.
//
// A to that is of another key, that is no smaller, or that wants all of the key,
// is [ErrInvalid]; a lease of a [Client.Mutex], which has one unit, has nothing
// smaller. If the lease was lost the error says so, and nothing brings it back.
// On any other error the lease goes on, and has to count on the others being
// there already; Downgrade may be called again.
func (l *Lease) Downgrade(ctx context.Context, to *Lock) error {
	if err := l.Check(0); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return l.client.fail("downgrade", l.key, ended(ctx))
	}
	claim, err := l.smaller(to)
	if err != nil {
		return l.client.fail("downgrade", l.key, err)
	}
	l.mu.Lock()
	timeout := min(l.term.Patience(l.client.now()), attemptTimeout)
	l.mu.Unlock()
	if d, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(d))
	}
	attempt, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	answers := make(chan error, 1)
	l.client.detach(func() {
		defer cancel()
		answers <- l.downgrade(attempt, claim, timeout)
	})
	select {
	case err := <-answers:
		return err
	case <-attempt.Done():
	case <-ctx.Done():
	}
	select {
	case err := <-answers: // both were ready
		return err
	default:
		return l.client.fail("downgrade", l.key, errNoAnswer)
	}
}

// smaller returns the claim of l as to has it.
func (l *Lease) smaller(to *Lock) (driver.Claim, error) {
	l.mu.Lock()
	claim, err := l.claim, l.whole()
	l.mu.Unlock()
	switch {
	case err != nil:
		return claim, err
	case to.client != l.client || to.key != l.key:
		return claim, &FieldError{Field: "Lock", Why: fmt.Sprintf("is of %q: a lease stays on its key and with its client", to.key)}
	case to.weight == to.capacity:
		return claim, &FieldError{Field: "Lock", Why: "wants all of the key: a downgrade leaves something to others"}
	case to.weight >= claim.Weight:
		return claim, &FieldError{Field: "Lock", Why: fmt.Sprintf("has a weight of %d: it must be below that of the lease, %d", to.weight, claim.Weight)}
	}
	claim.Weight, claim.Capacity = to.weight, to.capacity
	claim.Queue = false
	return claim, claim.Validate(l.client.traits)
}

// downgrade sends claim, and makes what it must of the answer. As long as there
// is none the request may still be on its way, and take the key again after a
// release: late says until when.
func (l *Lease) downgrade(ctx context.Context, claim driver.Claim, timeout time.Duration) error {
	c := l.client
	sent := c.now()
	deadline := sent.At + timeout
	l.mu.Lock()
	before := l.late
	l.late = max(l.late, deadline)
	l.mu.Unlock()

	grant, err := c.backend.Acquire(ctx, claim)

	l.mu.Lock()
	if !unknown(err) && l.late == deadline {
		l.late = before
	}
	switch {
	case err == nil && grant.Token != l.claim.Grant.Token:
		// The store had ended the claim, and took this one for new.
		claim.Grant = grant
		c.detach(func() { c.withdraw(claim, 0) })
		err = &LostError{Reason: driver.Expired}
	case errors.Is(err, driver.ErrHeld):
		err = &LostError{Reason: driver.Stolen}
	case err == nil && claim.Weight < l.claim.Weight:
		l.claim.Weight, l.claim.Capacity = claim.Weight, claim.Capacity
		l.exclusive.Store(false)
		l.nextLeads() // a share is not handed over
	}
	l.mu.Unlock()
	tell, err := l.settle("downgrade", grant, err, sent)
	tell()
	return err
}
