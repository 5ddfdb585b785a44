package pawl

import (
	"context"
	"errors"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/term"
)

// An answer is what became of an attempt.
type answer struct {
	grant driver.Grant
	err   error
	sent  term.Instant // before the request was sent
}

// errNoAnswer: the outcome is unknown.
var errNoAnswer = errors.New("the store did not answer in time")

// errTooLate: granted, but so slowly that the lease was over before it began.
var errTooLate = errors.New("the store answered so late that nothing was left of the lease; a longer TTL may help")

// attemptTimeout bounds an attempt where a third of the TTL is longer.
const attemptTimeout = 5 * time.Second

// try makes one attempt. If it was not answered in time the answer is an
// error, and comes later on the channel.
func (a *acquisition) try(ctx context.Context) (answer, <-chan answer) {
	c := a.client
	a.attempts++
	timeout := min(c.opts.TTL/3, attemptTimeout)
	attempt, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	if d, ok := ctx.Deadline(); ok && time.Until(d) < timeout {
		cancel()
		attempt, cancel = context.WithDeadline(context.WithoutCancel(ctx), d)
	}
	deadline, _ := attempt.Deadline()
	a.sent = c.now().At
	a.deadline = a.sent + time.Until(deadline)
	claim := a.claim
	claim.Block = a.block()
	answers := make(chan answer, 1)
	c.ask(func() {
		defer cancel()
		sent := c.now()
		grant, err := c.backend.Acquire(attempt, claim)
		answers <- answer{grant, err, sent}
	})
	select {
	case ans := <-answers:
		return ans, nil
	case <-attempt.Done():
	case <-ctx.Done():
	case <-c.closed.Done():
	}
	select {
	case ans := <-answers: // both were ready
		return ans, nil
	default:
		return answer{err: errNoAnswer}, answers
	}
}

// asHeld returns what a backend that said ErrHeld has told about it.
func asHeld(err error) *HeldError {
	var held *HeldError
	if errors.As(err, &held) {
		return held
	}
	return &HeldError{Left: -1}
}

// unknown reports whether err leaves open what the store has done.
func unknown(err error) bool {
	return err != nil &&
		!errors.Is(err, driver.ErrHeld) && !errors.Is(err, driver.ErrLost) && !errors.Is(err, driver.ErrRefused) &&
		!errors.Is(err, driver.ErrUnsupported) && !errors.Is(err, driver.ErrInvalid)
}
