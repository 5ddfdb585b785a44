package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawlock/pawl/driver"
)

// A waiter acquires in the background, waiting as the core does.
type waiter struct {
	stage  *stage
	claim  driver.Claim
	served chan hold
}

// wait starts a waiter, and returns when it is likely to be asleep.
func (p *process) wait(c driver.Claim) *waiter {
	p.stage.Helper()
	w := p.start(c)
	p.stage.store.Sleep(min(p.stage.ttl/10, 20*time.Millisecond))
	return w
}

// start starts a waiter, and returns once its first attempt was refused.
func (p *process) start(c driver.Claim) *waiter {
	p.stage.Helper()
	return p.follow(c, p.refuse(c))
}

// refusedUntil makes one attempt, which must find no room before the claim in
// the way ends, at end. It returns false if that was over too soon to tell.
func (p *process) refusedUntil(end time.Time, c driver.Claim) (*driver.HeldError, bool) {
	p.stage.Helper()
	h, err := p.try(c)
	if err == nil {
		p.stage.notBefore(h.answered, end, p.stage.ttl, "grant of a key that is held")
		return nil, false
	}
	var held *driver.HeldError
	if !errors.As(err, &held) {
		p.stage.Fatalf("Acquire of %q: got %v, want a grant or a *HeldError", c.Key, err)
	}
	return held, true
}

// follow starts a waiter for c, which was refused with held.
func (p *process) follow(c driver.Claim, held *driver.HeldError) *waiter {
	s := p.stage
	w := &waiter{stage: s, claim: c, served: make(chan hold, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		defer close(w.served)
		if h, ok := p.waitAndTry(ctx, c, held); ok {
			w.served <- h
		}
	})
	s.Cleanup(func() {
		cancel()
		done.Wait()
	})
	return w
}

// waitAndTry is the loop of the core: wait, attempt, until there is a grant.
func (p *process) waitAndTry(ctx context.Context, c driver.Claim, held *driver.HeldError) (hold, bool) {
	const many = 2000 // attempts that got nothing: Wait does not wait
	for range many {
		p.Wait(ctx, c, held)
		if ctx.Err() != nil {
			return hold{}, false
		}
		h, err := p.try(c)
		if err == nil {
			return h, true
		}
		if !errors.As(err, &held) {
			p.stage.Errorf("Acquire of %q after Wait: got %v, want a grant or a *HeldError", c.Key, err)
			return hold{}, false
		}
	}
	p.stage.Errorf("Wait for %q returned %d times while there was no room", c.Key, many)
	return hold{}, false
}

// by returns the waiter's hold, which must come by the deadline.
func (w *waiter) by(deadline time.Time) hold {
	w.stage.Helper()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case h, ok := <-w.served:
		if !ok {
			w.stage.FailNow() // it has said why
		}
		return h
	case <-timer.C:
		w.stage.Fatalf("a waiter for %q, %d of %d, was not served in time", w.claim.Key, w.claim.Weight, w.claim.Capacity)
		return hold{}
	}
}

// waits checks that the waiter was not served yet.
func (w *waiter) waits() {
	w.stage.Helper()
	select {
	case h, ok := <-w.served:
		if !ok {
			w.stage.FailNow() // it has said why
		}
		w.stage.Fatalf("a waiter for %q, %d of %d, got %+v where there was no room", w.claim.Key, w.claim.Weight, w.claim.Capacity, h.Grant)
	default:
	}
}
