package pawl

import (
	"context"
	"errors"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/term"
)

// releaseTimeout bounds how long Release waits for the store.
const releaseTimeout = 5 * time.Second

// Release gives the key back. Renewals stop before anything is sent, and the
// context of the lease ends with [ErrReleased].
//
// It works on a cancelled ctx, of which only the values are used: a lease must
// be released also when the work was called off. It waits for the store for up
// to 5 seconds, but not beyond the end of the claim.
//
// If another goroutine of the client waits for the key the claim may go to it
// without asking the store ([Options.Handover]); a loss that the client has not heard
// of by then is told to that goroutine.
//
// It returns an error that wraps a [*LostError] if the lease had ended before:
// the work may have overlapped another's. On any other error the store has not
// confirmed; the release is then repeated in the background until the claim has
// ended by itself, and Release may be called again. Releasing twice is
// otherwise no error.
func (l *Lease) Release(ctx context.Context) error {
	if l.root != nil {
		return l.leave()
	}
	for {
		l.mu.Lock()
		if wait := l.releasing; wait != nil {
			l.mu.Unlock()
			<-wait // bounded by releaseTimeout
			continue
		}
		if l.confirmed || l.lost != nil {
			defer l.mu.Unlock()
			return l.ended()
		}
		if tell, ok := l.handOver(l.client.now()); ok {
			l.mu.Unlock()
			tell()
			return nil
		}
		claim, end, ok := l.beginRelease()
		l.mu.Unlock()
		if !ok {
			continue // it was lost by the clock just now
		}
		err := l.client.release(ctx, claim, end)
		return l.endRelease(claim, err)
	}
}

// beginRelease stops the renewals and returns what to send, until when. It
// reports false if the lease was lost. It is called with mu held.
func (l *Lease) beginRelease() (claim driver.Claim, end time.Duration, ok bool) {
	c := l.client
	now := c.now()
	if !l.term.Release(now) {
		l.lose(&LostError{Reason: l.term.Reason()})
		return claim, 0, false
	}
	l.cancel(ErrReleased)
	c.keeper.remove(l)
	l.releasing = make(chan struct{})
	return l.kept(now), min(now.At+releaseTimeout, l.term.Deadline()+c.opts.Grace), true
}

// endRelease notes what became of a release.
func (l *Lease) endRelease(claim driver.Claim, err error) error {
	c := l.client
	now := c.now().At
	decided := err == nil || errors.Is(err, driver.ErrLost)
	l.mu.Lock()
	close(l.releasing)
	l.releasing = nil
	if l.doubt {
		err = afterDoubt(err)
	}
	err = c.fail("release", claim.Key, err)
	l.doubt = !decided
	if decided {
		l.confirmed, l.released = true, err
	}
	end, late := l.term.Deadline()+c.opts.Grace, l.late
	l.nextLeads()
	l.mu.Unlock()
	switch {
	case !decided:
		c.detach(func() { c.withdrawKept(claim, end) })
	case late > now && claim.Keep == 0:
		c.detach(func() { c.withdraw(claim, late) }) // an attempt may still arrive
	}
	c.opts.Observer.released(l, now-l.sent, err)
	return err
}

// withdrawKept goes on with a release that was not confirmed, until end.
func (c *Client) withdrawKept(claim driver.Claim, end time.Duration) {
	if end > c.now().At {
		_ = c.release(context.Background(), claim, end) // the caller knows that it is unknown
	}
}

// ended returns what a release of a lease that has ended returns. One that was
// lost by the clock may still be in the store: it is withdrawn, since its
// holder says that the work has stopped. It is called with mu held.
func (l *Lease) ended() error {
	if l.lost == nil {
		return l.released
	}
	if !l.confirmed {
		l.confirmed = true
		claim, late := l.kept(l.client.now()), l.late
		l.client.detach(func() { l.client.withdraw(claim, late) })
	}
	return l.client.fail("release", l.claim.Key, l.lost)
}

// endClosed ends a lease because its client is being closed.
func (l *Lease) endClosed() error {
	l.mu.Lock()
	now := l.client.now()
	if action, _ := l.term.Due(now); action == term.Lose {
		l.lose(&LostError{Reason: l.term.Reason()})
	}
	if l.term.State() != term.Live {
		l.mu.Unlock()
		return nil
	}
	l.term.Deny(driver.Closed)
	l.confirmed = true
	l.lose(&LostError{Reason: driver.Closed})
	claim := l.kept(now)
	end := min(now.At+closeTimeout-time.Second, l.term.Deadline())
	l.mu.Unlock()
	err := l.client.release(context.Background(), claim, end)
	if errors.Is(err, driver.ErrLost) {
		err = nil
	}
	return l.client.fail("release", claim.Key, err)
}
