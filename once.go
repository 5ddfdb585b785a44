package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Once has something done at most once in a period, by whichever of many
// machines comes first: the nightly report, the hourly bill. Like a [Lock] it has
// no state.
//
// It is the mutex of its key, which the store keeps for the whole period, counted
// from the grant, whether it was released, or its process has crashed. What the
// clocks of the machines say does not matter: the period is a time to live in the
// store. Its end is not exact to the millisecond: a job that is started by the
// clock each hour has to name a period that is somewhat shorter than an hour, or
// to wait a little for its turn ([Once.Lock]).
type Once struct {
	lock  *Lock
	every time.Duration
}

// Once returns the key for one run in each period of every.
func (c *Client) Once(key string, every time.Duration) *Once {
	l := c.Mutex(key)
	l.every, l.periodic = every, true
	return &Once{l, every}
}

// Do calls f if nobody has in this period, and reports whether it did. There is one
// attempt, and ctx bounds it; the context that f gets ends with ctx, or when the
// lease is lost. It is no error that somebody else was first.
//
// The period is used up as soon as f is called: also if it fails, and if its
// process crashes. A run that takes longer than the period keeps the key until it
// ends. Do returns the error of f joined with that of the release, which is ErrLost
// if somebody may have run it meanwhile. [Client.ForceRelease] ends a period early.
//
// A period that is not positive, or longer than the store can keep, is ErrInvalid.
func (o *Once) Do(ctx context.Context, f func(ctx context.Context, lease *Lease) error) (ran bool, err error) {
	lease, err := o.lock.TryAcquire(ctx)
	switch {
	case errors.Is(err, ErrHeld):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, lease.do(ctx, f)
}

// Lock returns the lock that is kept for the period, for those who want to hold it
// themselves, to wait for the next period, or to learn from a [*HeldError] who was
// first and when it ends.
func (o *Once) Lock() *Lock { return o.lock }

// minHold returns how long the key of l stays taken after a grant, released or
// not.
func (l *Lock) minHold() time.Duration { return max(l.client.opts.MinHold, l.every) }

// ttl returns how long a claim on l outlives its last renewal, with passed since
// its grant: in a period not less than what is left of it.
func (l *Lock) ttl(passed time.Duration) time.Duration {
	o := &l.client.opts
	return max(o.TTL, l.every-passed) + o.Grace
}

// checkPeriod returns a [*FieldError] for a period that can't be kept.
func (l *Lock) checkPeriod() error {
	if !l.periodic {
		return nil
	}
	grace, longest := l.client.opts.Grace, longestTTL(l.client.traits)
	switch {
	case l.every <= 0:
		return &FieldError{Field: "Every", Why: fmt.Sprintf("is %v: a period must be positive", l.every)}
	case l.every > longest-grace:
		return &FieldError{Field: "Every", Why: fmt.Sprintf("is %v: with the Grace of %v it is more than can be kept, %v", l.every, grace, longest)}
	}
	return nil
}
