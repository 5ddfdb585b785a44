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

// Renew restarts the lease now rather than when it is due. If the store says
// that it is lost the lease ends; on any other error it goes on for as long as
// before.
//
// Renewals in the background go on at their own pace: calling Renew with a ctx
// that is too short for the store does not put them off.
func (l *Lease) Renew(ctx context.Context) error {
	if err := l.Check(0); err != nil {
		return err
	}
	if l.root != nil {
		return l.root.Renew(ctx)
	}
	if ctx.Err() != nil {
		return l.client.fail("renew", l.key, ended(ctx))
	}
	l.mu.Lock()
	timeout := l.term.Patience(l.client.now())
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	answers := make(chan error, 1)
	l.client.ask(func() {
		defer cancel()
		answers <- l.renew(ctx)
	})
	select {
	case err := <-answers:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-answers: // both were ready
		return err
	default:
		return l.client.fail("renew", l.key, fmt.Errorf("%w: %w", ended(ctx), errNoAnswer))
	}
}

// renew sends one renewal and makes what it must of the answer. The lease's
// end does not depend on its return, nor does anything else.
func (l *Lease) renew(ctx context.Context) error {
	c := l.client
	l.mu.Lock()
	claim := l.claim
	l.mu.Unlock()
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx) // released since it was due
	}
	sent := c.now()
	claim.TTL = l.lock.ttl(sent.At - l.sent)
	grant, err := c.backend.Renew(ctx, claim)
	tell, err := l.settle("renew", grant, err, sent)
	tell()
	return err
}

// settle takes the answer to a renewal, or what counts as one, that was sent at
// sent as op. There are four:
// renewed, lost, refused and unknown; the last two change nothing. The observer
// is told by the func that settle returns, without mu: one that is slow, or asks
// the lease something, must not keep the others from their turn.
func (l *Lease) settle(op string, grant driver.Grant, err error, sent term.Instant) (tell func(), _ error) {
	c := l.client
	l.mu.Lock()
	if heir := l.heir; heir != nil {
		l.mu.Unlock()
		return heir.inherited(grant, err, sent), context.Cause(l.ctx)
	}
	defer l.mu.Unlock()
	now := c.now()
	switch {
	case err == nil:
		before := l.term.Left(now)
		jitter := time.Duration((rand.Float64() - 0.5) * 0.2 * float64(c.opts.RenewEvery))
		if !l.term.Renewed(grant.TTL, sent, now, jitter) {
			return quiet, l.tooLate(now)
		}
		grant.Token, grant.Block = l.claim.Grant.Token, l.claim.Grant.Block // a renewal never changes them
		l.claim.Grant = grant
		c.keeper.move(l, l.term.Next())
		news := l.hear(grant.Notice)
		return func() {
			c.opts.Observer.renewed(l, now.At-sent.At, before)
			if news {
				c.opts.Observer.asked(l, *grant.Notice)
			}
		}, nil
	case errors.Is(err, driver.ErrLost):
		if l.term.State() == term.Live {
			lost := asLost(err)
			l.term.Deny(lost.Reason)
			l.confirmed = true // nothing of ours is left
			l.lose(lost)
		}
		return quiet, context.Cause(l.ctx)
	}
	if l.term.State() != term.Live {
		return quiet, context.Cause(l.ctx)
	}
	l.term.Failed(now)
	c.keeper.move(l, l.term.Next())
	err = c.fail(op, l.key, err)
	left := l.term.Left(now)
	return func() { c.opts.Observer.renewFailed(l, err, left) }, err
}

func quiet() {}

// tooLate is for a renewal that succeeded after the lease had ended. Nothing
// revives a lease, so the store is told; but not before the moment at which it
// would have given the key away without the renewal, grace included.
func (l *Lease) tooLate(now term.Instant) error {
	if l.term.State() != term.Lost {
		return context.Cause(l.ctx) // it was released
	}
	l.lose(&LostError{Reason: l.term.Reason()})
	if !l.confirmed {
		end, claim := l.term.Deadline()+l.client.opts.Grace, l.kept(now)
		l.client.detach(func() {
			l.client.until(end)
			l.client.withdraw(claim, 0)
		})
	}
	return context.Cause(l.ctx)
}
