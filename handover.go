package pawl

import (
	"context"
	"errors"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/term"
)

// Goroutines of one client that want the same key exclusively line up here, and
// one of them at a time, the leader, has a claim in the store. When its lease is
// released the next in line gets what is left of it: the same claim, the next
// token of the block that the store reserved with the grant, and no round trip.
// After Options.Handover holds the claim is released in the store, so that other
// processes have their turn.
//
// What a hold is does not change: each is a Lease of its own, with a larger
// token, its own context and its own MaxHold.

// handsOver reports whether l waits with the others of its client for the key.
// With a MinHold it does not: a released key stays taken, for this client too. A
// store without blocks has no token for a second hold, and is asked by each.
func (l *Lock) handsOver() bool {
	c := l.client
	return l.weight == l.capacity && c.traits.Blocks && c.opts.Handover > 1 && l.minHold() == 0 && !l.alone
}

// inTurn runs a when it leads its key, or returns the lease that is handed to it
// before.
func (a *acquisition) inTurn(ctx context.Context) (*Lease, error) {
	c := a.client
	f := c.relays.join(ctx, a)
	if f != nil {
		t, err := a.follow(ctx, f)
		switch {
		case err != nil:
			return nil, err
		case t.err != nil:
			return nil, t.err
		case t.lease != nil && c.closed.Err() != nil:
			_ = t.lease.endClosed() // Close may not have seen it
			return nil, ErrClosed
		case t.lease != nil:
			return t.lease, nil
		}
		a.inherit()
	}
	lease, err := a.run(ctx)
	if err != nil {
		c.relays.resign(a)
	}
	return lease, err
}

// follow waits for a's turn. If the caller goes away first the turn is passed
// on, unless it is a lease: exactly one of a lease and an error comes of it.
func (a *acquisition) follow(ctx context.Context, f *follower) (turn, error) {
	c := a.client
	if held := c.relays.inTheWay(a.relay, f); held != nil {
		a.told, a.held = true, held
		c.opts.Observer.waiting(a.claim.Key, held)
	}
	var err error
	select {
	case t := <-f.call:
		return t, nil
	case <-ctx.Done():
		err = ended(ctx)
	case <-c.closed.Done():
		err = ErrClosed
	}
	held := c.relays.inTheWay(a.relay, f)
	if !c.relays.leave(a.relay, f) {
		t := <-f.call // it was called; whoever did sends soon
		if t.lease != nil || t.err != nil {
			return t, nil
		}
		a.heard()
		c.relays.resign(a)
	}
	if a.heard(); a.trouble == nil && held != nil {
		a.held = held
	}
	return turn{}, a.why(err)
}

// inherit begins a's lead with what the leader before it knew. Trouble with the
// store counts from when it began, but not from before a came.
func (a *acquisition) inherit() {
	a.heard()
	a.held = nil
	a.since = max(a.since, a.began)
}

// heard takes over what the leader last heard.
func (a *acquisition) heard() {
	rs := &a.client.relays
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := a.relay; r.trouble != nil || r.held != nil {
		a.held, a.trouble, a.since = r.held, r.trouble, r.since
	}
}

// note tells the followers what a, which leads, has just heard.
func (a *acquisition) note() {
	if a.relay == nil {
		return
	}
	rs := &a.client.relays
	rs.mu.Lock()
	defer rs.mu.Unlock()
	a.relay.held, a.relay.trouble, a.relay.since = a.held, a.trouble, a.since
}

// block returns how many tokens to ask for: one, unless somebody here waits who
// could use the others. Tokens that nobody uses are not wasted lightly: people
// read them.
func (a *acquisition) block() int {
	if a.relay == nil {
		return 1
	}
	rs := &a.client.relays
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if len(a.relay.followers) == 0 {
		return 1
	}
	return a.client.opts.Handover
}

// handOver ends l as released and gives the rest of its claim to the first in
// line, or reports that there is nobody, or nothing to give: the claim is then to
// be released. So is one that somebody has asked for, and one that an attempt without
// an answer may still change. It is called with l.mu held.
func (l *Lease) handOver(now term.Instant) (tell func(), ok bool) {
	c, r := l.client, l.relay
	if r == nil || l.notice != nil || l.nth+1 >= l.claim.Grant.Block || c.closed.Err() != nil || l.late > now.At {
		return nil, false
	}
	t, ok := l.term.HandOver(now)
	if !ok {
		return nil, false
	}
	f := c.relays.heir(r, l)
	if f == nil {
		return nil, false
	}
	heir := &Lease{
		client: c,
		lock:   l.lock,
		outer:  leaseOf(f.ctx),
		key:    l.key,
		id:     l.id,
		nth:    l.nth + 1,
		token:  l.token + 1,
		sent:   now.At,
		asked:  make(chan struct{}),
		late:   l.late,
		relay:  r,
		claim:  l.claim,
		term:   t,
		index:  -1,
	}
	heir.exclusive.Store(true)
	heir.scope(f.ctx)
	l.relay = nil
	l.term.Release(now)
	l.cancel(ErrReleased)
	c.keeper.remove(l)
	l.confirmed = true // nothing of its own is left in the store
	c.relays.holds(r, heir)
	held := now.At - l.sent
	return func() {
		c.opts.Observer.released(l, held, nil)
		c.opts.Observer.acquired(heir, now.At-f.began, 0)
		c.keeper.add(heir, t.Next())
		l.mu.Lock()
		l.heir = heir // from now on answers to l's renewals are the heir's
		l.mu.Unlock()
		f.call <- turn{lease: heir}
	}, true
}

// inherited takes the answer to a renewal that was sent before the claim was handed
// to l. One that has none is not l's failure: the request was called off with the
// lease that sent it.
func (l *Lease) inherited(grant driver.Grant, err error, sent term.Instant) (tell func()) {
	if unknown(err) || errors.Is(err, driver.ErrRefused) {
		return quiet
	}
	tell, _ = l.settle("renew", grant, err, sent)
	return tell
}
