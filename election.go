package pawl

import (
	"context"
	"errors"
	"iter"
	"time"
)

// An Election decides who of many leads: the mutex of its key, with what leaders
// need around it. Like a [Lock] it has no state, and any number of goroutines may
// use it.
type Election struct{ lock *Lock }

// Election returns the election of key. Candidates are told apart by their ID; what
// they are called is the [Options].Label of their client, an address say.
func (c *Client) Election(key string) *Election {
	l := c.Mutex(key)
	l.alone = true // all who ask have to be told the same term
	return &Election{l}
}

// Campaign waits until this candidate leads, or ctx is done, which bounds the wait
// and not the term. It fails as [Lock.Acquire] does.
func (e *Election) Campaign(ctx context.Context) (*Leadership, error) {
	lease, err := e.lock.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &Leadership{lease}, nil
}

// A Leadership is one term of a leader. It lasts until it is resigned or lost: its
// context ends before another candidate can win.
type Leadership struct{ lease *Lease }

// Context ends with the leadership, see [Lease.Context].
func (l *Leadership) Context() context.Context { return l.lease.Context() }

// Term returns the number of the term: greater than that of every leader before,
// which is what makes it a fencing token for all that the leader writes. It is 0
// if the store has none.
func (l *Leadership) Term() uint64 { return l.lease.Token() }

// Check returns nil if the leadership lasts for at least d more. To be called
// right before a side effect that takes d. See [Lease.Check].
func (l *Leadership) Check(d time.Duration) error { return l.lease.Check(d) }

// Lease returns the lease that the leadership is.
func (l *Leadership) Lease() *Lease { return l.lease }

// Resign ends the leadership, and the next candidate wins at once. Its error is
// that of [Lease.Release]: ErrLost if somebody may have led already.
func (l *Leadership) Resign(ctx context.Context) error { return l.lease.Release(ctx) }

// A Leader is who leads, seen from outside.
type Leader struct {
	ID    string        // of its claim, for [Client.ForceRelease]; empty if nobody leads
	Label string        // of its client
	Term  uint64        // see [Leadership.Term]
	Age   time.Duration // since it was elected, negative if that is unknown
}

// Leader returns who leads, an empty one if nobody does. It was so when the store
// answered, and may be over: who depends on it checks terms.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	c := e.lock.client
	s, err := c.Inspect(ctx, e.lock.key)
	if err != nil {
		return Leader{}, err
	}
	for _, h := range s.Holders {
		if h.Held {
			return Leader{ID: h.ID, Label: h.Label, Term: h.Grant.Token, Age: h.Age}, nil
		}
	}
	return Leader{}, nil
}

// lookEvery is how often an observer looks who leads, or a third of the TTL where
// that is less: any store can be asked, and few tell by themselves.
const lookEvery = time.Second

// Observe yields who leads, an empty Leader while nobody does, and again whenever
// that has changed. It looks once in a second, or each third of the TTL if that is
// less: of a leader who came and went in between it learns nothing, but the terms
// it yields only rise. A store that can't be asked is yielded as an error each
// time; whoever goes on after it hears of the next leader when it is back. It ends
// with ctx, or when the client is closed, without an error.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		c := e.lock.client
		timer := time.NewTimer(0)
		defer timer.Stop()
		var last Leader
		for known := false; ; {
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			case <-c.closed.Done():
				return
			}
			switch now, err := e.Leader(ctx); {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !yield(Leader{}, err) {
					return
				}
			case !known || now.ID != last.ID || now.Term != last.Term:
				known, last = true, now
				if !yield(now, nil) {
					return
				}
			}
			timer.Reset(min(lookEvery, c.opts.TTL/3))
		}
	}
}

// Callbacks are what a candidate does when it leads. See [Election.Run].
type Callbacks struct {
	// Started is called each time the election is won, and leads for as long as
	// it runs. Its ctx ends with that of Run, or when the leadership is lost:
	// it must return then, since another is about to win.
	Started func(ctx context.Context, l *Leadership) error

	// Stopped is called after each Started has returned, and never without:
	// once the leadership is resigned, with the error of Started joined with
	// that of the resignation. May be nil.
	Stopped func(l *Leadership, err error)
}

// Run campaigns, leads, and campaigns again when the leadership was lost, until
// ctx is done. It also returns when Started has returned although it still led:
// then the work is over, and the leadership is resigned. An outage of the store it
// waits out, however long that takes; the [Observer] hears of it.
//
// It returns the error of the campaign that ended with ctx or can't ever succeed,
// or that of the last Started joined with what its resignation said.
func (e *Election) Run(ctx context.Context, cb Callbacks) error {
	for {
		l, err := e.Campaign(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil, errors.Is(err, ErrClosed), errors.Is(err, ErrInvalid), errors.Is(err, ErrUnsupported), errors.Is(err, ErrDeadlock):
			return err
		default:
			continue // Acquire has tried for a TTL, with pauses
		}
		lost, err := e.lead(ctx, l, cb)
		if !lost || ctx.Err() != nil {
			return err
		}
	}
}

// lead is one term, and reports whether it ended because it was lost.
func (e *Election) lead(ctx context.Context, l *Leadership, cb Callbacks) (lost bool, err error) {
	defer func() { // also when Started panics
		resigned := l.Resign(ctx)
		lost, err = errors.Is(resigned, ErrLost), errors.Join(err, resigned)
		if cb.Stopped != nil {
			cb.Stopped(l, err)
		}
	}()
	inner, cancel := within(l.Context(), ctx)
	defer cancel()
	return false, cb.Started(inner, l)
}
