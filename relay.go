package pawl

import (
	"context"
	"slices"
	"sync"
	"time"
)

// relays are the lines of a client, by key. A key has one while somebody here
// leads or holds it.
type relays struct {
	mu    sync.Mutex
	byKey map[string]*relay // guarded by mu
}

// A relay is the line of one key.
type relay struct {
	key       string
	followers []*follower   // guarded by relays.mu: in order of arrival
	leading   bool          // guarded by relays.mu: somebody of ours asks the store, or waits in its line
	lease     *Lease        // guarded by relays.mu: the last that was granted, nil once it has ended
	granted   time.Duration // guarded by relays.mu: when the lease was
	watched   bool          // guarded by relays.mu: a timer looks whether it lasts

	// What the leader last heard of the store: followers wait for the same.
	held    *HeldError    // guarded by relays.mu
	trouble error         // guarded by relays.mu
	since   time.Duration // guarded by relays.mu: when the trouble began
}

// scoutAfter is how long a lease is held before the first in line goes to the
// store, instead of waiting for it to be handed over. From there he sees what the
// holder may not: that it was forced out, and that its turn is over.
const scoutAfter = 100 * time.Millisecond

// A follower waits for its turn.
type follower struct {
	ctx   context.Context
	began time.Duration
	call  chan turn // of one: whoever takes a follower out of the line sends
}

// A turn is what a follower gets: a lease, an error, or neither if it is to lead.
type turn struct {
	lease *Lease
	err   error
}

// join puts a into the line of its key. Without a follower it leads.
func (rs *relays) join(ctx context.Context, a *acquisition) *follower {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	key := a.claim.Key
	r := rs.byKey[key]
	if r == nil {
		if rs.byKey == nil {
			rs.byKey = make(map[string]*relay)
		}
		r = &relay{key: key, leading: true}
		rs.byKey[key], a.relay = r, r
		return nil
	}
	f := &follower{ctx: ctx, began: a.began, call: make(chan turn, 1)}
	r.followers = append(r.followers, f)
	a.relay = r
	rs.watch(r, a.client)
	return f
}

// leave takes f out of the line, and reports whether it still stood there.
func (rs *relays) leave(r *relay, f *follower) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	i := slices.Index(r.followers, f)
	if i < 0 {
		return false
	}
	r.followers = slices.Delete(r.followers, i, i+1)
	return true
}

// next lets the first in line lead, unless somebody leads or holds. Who is called
// but has gone resigns. It is called with mu held.
func (rs *relays) next(r *relay) {
	if r.leading || r.lease != nil {
		return
	}
	f := r.first(func(*follower) bool { return true })
	if f == nil {
		delete(rs.byKey, r.key)
		return
	}
	r.leading = true
	f.call <- turn{}
}

// end notes that l has ended, and not by being handed over.
func (rs *relays) end(r *relay, l *Lease) {
	if r == nil {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r.lease == l {
		r.lease = nil
	}
	rs.next(r)
}

// resign ends the lead of a, which has given up; if it has a lease by now, it leads
// no more. Followers who have waited through all of the trouble that made it fail
// need not go through it again, one after the other.
func (rs *relays) resign(a *acquisition) {
	r := a.relay
	if r == nil {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.leading = false
	r.held, r.trouble, r.since = a.held, a.trouble, a.since
	if a.trouble != nil && a.client.now().At-a.since >= a.client.opts.TTL {
		waited := func(f *follower) bool { return f.began <= a.since }
		for f := r.first(waited); f != nil; f = r.first(waited) {
			f.call <- turn{err: a.trouble}
		}
	}
	rs.watch(r, a.client)
	rs.next(r)
}

// watch sees to it that somebody goes to the store when the lease lasts. It is
// called with mu held.
func (rs *relays) watch(r *relay, c *Client) {
	if r.watched || r.leading || r.lease == nil || len(r.followers) == 0 {
		return
	}
	r.watched = true
	time.AfterFunc(r.granted+scoutAfter-c.now().At, func() {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		r.watched = false
		if r.lease != nil && c.now().At-r.granted < scoutAfter {
			rs.watch(r, c) // another by now
			return
		}
		if r.lease == nil || r.leading || len(r.followers) == 0 {
			return
		}
		r.leading = true
		r.first(func(*follower) bool { return true }).call <- turn{}
	})
}

// first takes the first follower of whom ok is true out of the line. It is called
// with relays.mu held.
func (r *relay) first(ok func(*follower) bool) *follower {
	i := slices.IndexFunc(r.followers, ok)
	if i < 0 {
		return nil
	}
	f := r.followers[i]
	r.followers = slices.Delete(r.followers, i, i+1)
	return f
}

// inTheWay says whom f waits for, nil if this client doesn't know.
func (rs *relays) inTheWay(r *relay, f *follower) *HeldError {
	rs.mu.Lock()
	l, held, place := r.lease, r.held, slices.Index(r.followers, f)+1
	if r.leading {
		place++
	}
	rs.mu.Unlock()
	if l == nil {
		return held
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.client.now()
	claim, left := l.claim, l.term.Left(now)
	claim.Grant.Token = l.token
	return &HeldError{
		Place:  place,
		Left:   left,
		Last:   l.token,
		Now:    l.client.time(now.At),
		Holder: Holder{Claim: claim, Held: true, Left: left, Age: now.At - l.sent},
	}
}

// holds notes that l has been granted to whoever led, or handed over.
func (rs *relays) holds(r *relay, l *Lease) {
	if r == nil {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.leading, r.lease, r.granted, r.held, r.trouble = false, l, l.sent, nil, nil
	rs.watch(r, l.client)
}

// heir takes the first who still waits out of l's line, nil if there is nobody to
// hand l to. Who waits in the store is ahead of all who wait here.
func (rs *relays) heir(r *relay, l *Lease) *follower {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r.leading || r.lease != l {
		return nil
	}
	return r.first(func(f *follower) bool { return f.ctx.Err() == nil })
}
