package pawl

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawlock/pawl/driver"
)

// An acquisition is one call of Acquire: a claim, and the attempts to have it
// granted. Each attempt runs on a goroutine of its own, because no backend is
// trusted to come back when its context ends.
type acquisition struct {
	client   *Client
	lock     *Lock
	relay    *relay // of those who want the same key here, nil if it does not hand over
	claim    driver.Claim
	began    time.Duration
	inside   bool // its caller runs under a lease of the same key
	attempts int
	told     bool          // the observer knows that we wait
	held     *HeldError    // the last answer, nil if it was another
	trouble  error         // the last failure of the store, nil if it answered since
	since    time.Duration // when the trouble began
	fails    int           // failures in a row
	spins    int           // waits in a row that were over at once
	sent     time.Duration // when the last attempt was made
	deadline time.Duration // of the last attempt: the store grants nothing after it
	late     time.Duration // the last deadline of the attempts with an unknown outcome
}

func (l *Lock) acquire(ctx context.Context, queue bool) (*Lease, error) {
	c := l.client
	if err := l.checkPeriod(); err != nil {
		return nil, c.fail("acquire", l.key, err)
	}
	if lease, err := l.reenter(ctx); lease != nil || err != nil {
		return lease, c.fail("acquire", l.key, err)
	}
	if queue && l.nested(ctx) {
		return nil, c.fail("acquire", l.key, ErrDeadlock)
	}
	c.begin()
	defer c.end()
	a := &acquisition{client: c, lock: l, claim: l.claim(queue), began: c.now().At, inside: l.isWithin(ctx)}
	run := a.run
	if queue && l.handsOver() {
		run = a.inTurn
	}
	lease, err := run(ctx)
	return lease, c.fail("acquire", l.key, err)
}

// run makes attempts until one is granted or there is reason to stop. Whenever
// it returns without a lease, what the store may hold of the claim is being
// withdrawn.
func (a *acquisition) run(ctx context.Context) (*Lease, error) {
	for {
		if err := a.stopped(ctx); err != nil {
			return nil, a.giveUp(err)
		}
		ans, pending := a.try(ctx)
		if pending != nil {
			if err := a.stopped(ctx); err != nil {
				a.withdrawAfter(pending)
				return nil, a.why(err)
			}
		}
		if unknown(ans.err) {
			a.late = max(a.late, a.deadline)
		}
		switch err := ans.err; {
		case err == nil:
			if lease := newLease(ctx, a, ans); lease != nil {
				if c := a.client; c.closed.Err() != nil {
					_ = lease.endClosed() // Close may not have seen it
					return nil, ErrClosed
				}
				return lease, nil
			}
			a.claim.Grant = ans.grant
			if err := a.again(ctx, errTooLate); err != nil {
				return nil, err
			}
		case errors.Is(err, driver.ErrHeld):
			a.held, a.trouble, a.fails = asHeld(err), nil, 0
			a.note()
			if !a.claim.Queue {
				return nil, a.held // it left no trace
			}
			if a.inside {
				return nil, a.wouldWait()
			}
			if err := a.wait(ctx); err != nil {
				return nil, a.giveUp(err)
			}
		case errors.Is(err, driver.ErrUnsupported), errors.Is(err, driver.ErrInvalid):
			if a.attempts > 1 {
				a.withdraw() // the store has changed its mind
			}
			return nil, err
		case !a.claim.Queue:
			if !errors.Is(err, driver.ErrRefused) {
				a.withdraw()
			}
			return nil, err
		default:
			if err := a.again(ctx, err); err != nil {
				return nil, err
			}
		}
	}
}

// again decides what to do about trouble with the store: nil to go on, after a
// pause, or an error when it has lasted for too long. The same claim is tried
// again, so that a grant whose answer was lost is found; it is a new one if the
// store says that this one has ended.
func (a *acquisition) again(ctx context.Context, err error) error {
	c := a.client
	if a.trouble == nil {
		a.since = a.sent
	}
	a.trouble, a.held = err, nil
	a.fails++
	a.note()
	if c.now().At-a.since >= c.opts.TTL || !a.claim.Queue {
		a.withdraw()
		return err
	}
	c.opts.Observer.trouble("acquire", a.claim.Key, err)
	if errors.Is(err, driver.ErrLost) || errors.Is(err, errTooLate) {
		a.withdraw()
		a.claim = a.lock.claim(a.claim.Queue)
	}
	pause := min(time.Second, 20*time.Millisecond<<min(a.fails-1, 6))
	if err := a.sleep(ctx, pause/2+rand.N(pause)); err != nil {
		return a.giveUp(err)
	}
	return nil
}

// wait returns when another attempt may succeed. It is bounded by a third of
// the TTL, since a place in line lasts no longer than that without an attempt.
func (a *acquisition) wait(ctx context.Context) error {
	c, held := a.client, a.held
	if !a.told {
		a.told = true
		c.opts.Observer.waiting(a.claim.Key, held)
	}
	bounded, cancel := context.WithTimeout(ctx, c.opts.TTL/3)
	defer cancel()
	claim, began := a.claim, c.now().At
	woken := make(chan error, 1)
	c.ask(func() { woken <- c.backend.Wait(bounded, claim, held) })
	select {
	case err := <-woken:
		switch {
		case bounded.Err() != nil:
			return nil
		case err != nil:
			// A backend that can't wait must not make us spin,
			return a.sleep(ctx, 50*time.Millisecond+rand.N(100*time.Millisecond))
		case c.now().At-began >= time.Millisecond:
			a.spins = 0
			return nil
		}
		// nor one that is always woken too early. Once or twice is no sign of
		// that: we may have been beaten to it.
		if a.spins++; a.spins > 5 {
			return a.sleep(ctx, 5*time.Millisecond+rand.N(10*time.Millisecond))
		}
		return nil
	case <-bounded.Done():
		return a.stopped(ctx)
	case <-c.closed.Done():
		return ErrClosed
	}
}

func (a *acquisition) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	case <-a.client.closed.Done():
		return ErrClosed
	}
}

// stopped returns why nobody wants the lease any more, nil if somebody does.
func (a *acquisition) stopped(ctx context.Context) error {
	if a.client.closed.Err() != nil {
		return ErrClosed
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	if d, ok := ctx.Deadline(); ok && time.Until(d) <= 0 {
		return context.DeadlineExceeded // its timer is late
	}
	return nil
}

// ended returns why ctx has: both its error, which callers test for, and its
// cause if that is another.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// giveUp withdraws the claim and returns err with what it was waiting out.
func (a *acquisition) giveUp(err error) error {
	if a.attempts > 0 {
		a.withdraw()
	}
	return a.why(err)
}

func (a *acquisition) why(err error) error {
	switch {
	case a.held != nil:
		return fmt.Errorf("%w while waiting: %w", err, a.held)
	case a.trouble != nil && !errors.Is(a.trouble, errNoAnswer):
		return fmt.Errorf("%w while the store was in trouble: %w", err, a.trouble)
	case a.attempts > 0:
		return fmt.Errorf("%w: %w", err, errNoAnswer)
	}
	return err
}
