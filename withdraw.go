package pawl

import (
	"context"
	"errors"
	"time"

	"github.com/pawlock/pawl/driver"
)

// withdraw releases a claim that nobody wants: of an acquire that was
// cancelled, or whose outcome is unknown. It tries until the store confirms, or
// the claim has ended by itself. If an attempt may still reach the store until
// late it releases once more after that.
func (c *Client) withdraw(claim driver.Claim, late time.Duration) {
	end := max(c.now().At, late) + claim.TTL
	if err := c.release(context.Background(), claim, end); err != nil {
		c.opts.Observer.trouble("withdraw", claim.Key, err)
	}
	if left := late - c.now().At; left > 0 {
		time.Sleep(left + lateSlack)
		if err := c.release(context.Background(), claim, end); err != nil {
			c.opts.Observer.trouble("withdraw", claim.Key, err)
		}
	}
}

// lateSlack is for the difference between our deadline and the store's idea of
// it.
const lateSlack = 10 * time.Millisecond

// release sends the release of claim until it is confirmed, but not beyond end
// on the client's clock, and at least once. It returns nil or ErrLost when the
// store has decided, and else the last failure.
func (c *Client) release(ctx context.Context, claim driver.Claim, end time.Duration) error {
	ctx = context.WithoutCancel(ctx)
	pause := 10 * time.Millisecond
	for {
		err := c.releaseOnce(ctx, claim)
		if err == nil || errors.Is(err, driver.ErrLost) {
			return err
		}
		if c.now().At+pause >= end {
			return err
		}
		time.Sleep(pause)
		pause = min(2*pause, time.Second)
	}
}

// releaseOnce sends one release, and returns after its time-out whether or not
// the backend has come back.
func (c *Client) releaseOnce(ctx context.Context, claim driver.Claim) error {
	ctx, cancel := context.WithTimeout(ctx, max(c.opts.TTL/6, 50*time.Millisecond))
	answers := make(chan error, 1)
	go func() {
		defer cancel()
		answers <- c.backend.Release(ctx, claim)
	}()
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
