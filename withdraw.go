package pawl

import (
	"context"
	"errors"
	"time"

	"github.com/pawlock/pawl/driver"
)

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
	c, claim, late, deadline, first := a.client, a.claim, a.late, a.deadline, a.attempts == 1
	c.detach(func() {
		timer := time.NewTimer(deadline + lateSlack - c.now().At)
		defer timer.Stop()
		select {
		case ans := <-pending:
			switch {
			case ans.err == nil:
				claim.Grant = ans.grant
			case unknown(ans.err):
				late = max(late, deadline)
			case first && (errors.Is(ans.err, driver.ErrRefused) || errors.Is(ans.err, driver.ErrHeld) && !claim.Queue):
				return // it left no trace, and no attempt before it is in line
			}
		case <-timer.C:
		}
		c.withdraw(claim, late)
	})
}

// withdraw releases a claim that nobody wants: of an acquire that was
// cancelled, or whose outcome is unknown. It tries until the store confirms, or
// the claim has ended by itself. If an attempt may still reach the store until
// late it releases once more after that.
func (c *Client) withdraw(claim driver.Claim, late time.Duration) {
	end := max(c.now().At, late) + claim.TTL
	c.withdrawOnce(claim, end)
	if last := late + lateSlack; late > 0 && last > c.now().At {
		c.until(last)
		c.withdrawOnce(claim, end)
	}
}

func (c *Client) withdrawOnce(claim driver.Claim, end time.Duration) {
	err := c.release(context.Background(), claim, end)
	if err != nil && !errors.Is(err, driver.ErrLost) { // what has ended needs no withdrawal
		c.opts.Observer.trouble("withdraw", claim.Key, err)
	}
}

// until waits for a moment on the client's clock.
func (c *Client) until(at time.Duration) { pause(at - c.now().At) }

// pause waits for d. Unlike the pauses of an acquisition nothing cuts it short:
// what is to be cleaned up is so also after Close.
func pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// lateSlack is for the difference between our deadline and the store's idea of
// it.
const lateSlack = 10 * time.Millisecond

// release sends the release of claim until it is confirmed, but not beyond end
// on the client's clock, and at least once. It returns nil or ErrLost when the
// store has decided, and else the last failure.
func (c *Client) release(ctx context.Context, claim driver.Claim, end time.Duration) error {
	ctx = context.WithoutCancel(ctx)
	doubt := false
	for next := 10 * time.Millisecond; ; next = min(2*next, time.Second) {
		err := c.releaseOnce(ctx, claim, end)
		if doubt {
			err = afterDoubt(err)
		}
		if err == nil || errors.Is(err, driver.ErrLost) || c.now().At+next >= end {
			return err
		}
		doubt = doubt || unknown(err)
		pause(next)
	}
}

// afterDoubt is for the answer to a release that was sent before with an
// unknown outcome. If the claim has gone by now, that is what was wanted, unless
// the store knows that someone forced it.
func afterDoubt(err error) error {
	if errors.Is(err, driver.ErrLost) && asLost(err).Reason != driver.Forced {
		return nil
	}
	return err
}

// releaseOnce sends one release, and returns after its time-out whether or not
// the backend has come back. The time-out does not reach beyond end, save for
// what an attempt needs at least, nor does it grow with long TTLs: a request may
// be lost with any.
func (c *Client) releaseOnce(ctx context.Context, claim driver.Claim, end time.Duration) error {
	timeout := min(c.opts.TTL/6, 2*time.Second, end-c.now().At)
	ctx, cancel := context.WithTimeout(ctx, max(timeout, 50*time.Millisecond))
	answers := make(chan error, 1)
	c.ask(func() {
		defer cancel()
		answers <- c.backend.Release(ctx, claim)
	})
	select {
	case err := <-answers:
		return err
	case <-ctx.Done():
		select {
		case err := <-answers:
			return err
		default:
			return errNoAnswer
		}
	}
}
