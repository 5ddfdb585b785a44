package pawl

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/term"
)

// An acquisition is one call of Acquire: a claim, and the attempts to have it
// granted. Each attempt runs on a goroutine of its own, because no backend is
// trusted to come back when its context ends.
type acquisition struct {
	client   *Client
	lock     *Lock
	claim    driver.Claim
	began    time.Duration
	attempts int
	told     bool          // the observer knows that we wait
	held     *HeldError    // the last answer, nil if it was another
	trouble  error         // the last failure of the store, nil if it answered since
	since    time.Duration // when the trouble began
	fails    int           // failures in a row
	late     time.Duration // until when an attempt that nobody answered may reach the store
}

// An answer is what became of an attempt.
type answer struct {
	grant driver.Grant
	err   error
	sent  term.Instant // before the request was sent
	came  term.Instant
}

// errNoAnswer: the outcome is unknown.
var errNoAnswer = errors.New("the store did not answer in time")

// errTooLate: granted, but so slowly that the lease was over before it began.
var errTooLate = errors.New("the store answered so late that nothing was left of the lease; a longer TTL may help")

func (l *Lock) acquire(ctx context.Context, queue bool) (*Lease, error) {
	c := l.client
	a := &acquisition{client: c, lock: l, claim: l.claim(queue), began: c.now().At}
	lease, err := a.run(ctx)
	if err != nil {
		return nil, c.fail("acquire", l.key, err)
	}
	c.opts.Observer.acquired(lease, c.now().At-a.began, a.attempts)
	return lease, nil
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
		var held *HeldError
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
		case errors.As(err, &held):
			a.held, a.trouble, a.fails = held, nil, 0
			if !a.claim.Queue {
				return nil, err // it left no trace
			}
			if err := a.wait(ctx, held); err != nil {
				return nil, a.giveUp(err)
			}
		case errors.Is(err, driver.ErrUnsupported), errors.Is(err, driver.ErrInvalid):
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

// try makes one attempt. If it was not answered in time the answer is an
// error, and comes later on the channel.
func (a *acquisition) try(ctx context.Context) (answer, <-chan answer) {
	c := a.client
	a.attempts++
	timeout := c.opts.TTL / 3
	attempt, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	if d, ok := ctx.Deadline(); ok && time.Until(d) < timeout {
		cancel()
		attempt, cancel = context.WithDeadline(context.WithoutCancel(ctx), d)
	}
	deadline, _ := attempt.Deadline()
	late := c.now().At + time.Until(deadline)
	claim := a.claim
	answers := make(chan answer, 1)
	go func() {
		defer cancel()
		sent := c.now()
		grant, err := c.backend.Acquire(attempt, claim)
		answers <- answer{grant, err, sent, c.now()}
	}()
	select {
	case ans := <-answers:
		if unknown(ans.err) {
			a.late = max(a.late, late)
		}
		return ans, nil
	case <-attempt.Done():
	case <-ctx.Done():
	case <-c.closed.Done():
	}
	select {
	case ans := <-answers: // both were ready
		return ans, nil
	default:
	}
	a.late = max(a.late, late)
	return answer{err: errNoAnswer}, answers
}

// again decides what to do about trouble with the store: nil to go on, after a
// pause, or an error when it has lasted for too long. The same claim is tried
// again, so that a grant whose answer was lost is found; it is a new one if the
// store says that this one has ended.
func (a *acquisition) again(ctx context.Context, err error) error {
	c := a.client
	now := c.now().At
	if a.trouble == nil {
		a.since = now
	}
	a.trouble, a.held = err, nil
	a.fails++
	if now-a.since >= c.opts.TTL || !a.claim.Queue {
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
func (a *acquisition) wait(ctx context.Context, held *HeldError) error {
	c := a.client
	if !a.told {
		a.told = true
		c.opts.Observer.waiting(a.claim.Key, held)
	}
	bounded, cancel := context.WithTimeout(ctx, c.opts.TTL/3)
	defer cancel()
	claim := a.claim
	woken := make(chan error, 1)
	go func() { woken <- c.backend.Wait(bounded, claim, held) }()
	select {
	case err := <-woken:
		if err != nil && bounded.Err() == nil {
			// A backend that can't wait must not make us spin.
			return a.sleep(ctx, 50*time.Millisecond+rand.N(100*time.Millisecond))
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
		return context.Cause(ctx)
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
		return context.Cause(ctx)
	}
	return nil
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

// withdraw takes the claim back in the background.
func (a *acquisition) withdraw() {
	claim, late := a.claim, a.late
	a.client.detach(func() { a.client.withdraw(claim, late) })
}

// withdrawAfter takes the claim back once the attempt that is under way has
// been answered: a release that overtakes the acquire it is to undo would leave
// a lock that nobody holds. If no answer comes by the deadline of the attempt
// the store won't grant it any more.
func (a *acquisition) withdrawAfter(pending <-chan answer) {
	c, claim, late := a.client, a.claim, a.late
	c.detach(func() {
		timer := time.NewTimer(late - c.now().At)
		defer timer.Stop()
		select {
		case ans := <-pending:
			if errors.Is(ans.err, driver.ErrRefused) || errors.Is(ans.err, driver.ErrHeld) && !claim.Queue {
				return // it left no trace
			}
			if ans.err == nil {
				claim.Grant = ans.grant
			}
			if !unknown(ans.err) {
				late = 0
			}
		case <-timer.C:
		}
		c.withdraw(claim, late)
	})
}

// unknown reports whether err leaves open what the store has done.
func unknown(err error) bool {
	return err != nil &&
		!errors.Is(err, driver.ErrHeld) && !errors.Is(err, driver.ErrLost) && !errors.Is(err, driver.ErrRefused) &&
		!errors.Is(err, driver.ErrUnsupported) && !errors.Is(err, driver.ErrInvalid)
}
