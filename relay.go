package pawl

import (
	"context"
	"slices"
	"sync"
	"time"
)

// relays are the lines of a client, by key. A key has one while somebody leads.
type relays struct {
	mu    sync.Mutex
	byKey map[string]*relay // guarded by mu
}

// A relay is the line of one key.
type relay struct {
	key       string
	followers []*follower // guarded by relays.mu: in order of arrival
	lease     *Lease      // guarded by relays.mu: the leader's, nil while it waits for the store

	// What the leader last heard of the store: followers wait for the same.
	held    *HeldError    // guarded by relays.mu
	trouble error         // guarded by relays.mu
	since   time.Duration // guarded by relays.mu: when the trouble began
}

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
		r = &relay{key: key}
		rs.byKey[key], a.relay = r, r
		return nil
	}
	f := &follower{ctx: ctx, began: a.began, call: make(chan turn, 1)}
	r.followers = append(r.followers, f)
	a.relay = r
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

// promote lets the first in line lead. Who is called but has gone passes it on.
func (rs *relays) promote(r *relay) {
	if r == nil {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.lease = nil
	if f := r.first(func(*follower) bool { return true }); f != nil {
		f.call <- turn{}
		return
	}
	delete(rs.byKey, r.key)
}

// resign ends the lead of a, which has failed; if it has a lease by now, the lead
// is the lease's. Followers who have waited through all of the trouble that made
// it fail need not go through it again, one after the other.
func (rs *relays) resign(a *acquisition, err error) {
	r := a.relay
	if r == nil {
		return
	}
	rs.mu.Lock()
	r.held, r.trouble, r.since = a.held, a.trouble, a.since
	if a.trouble != nil && a.client.now().At-a.since >= a.client.opts.TTL {
		waited := func(f *follower) bool { return f.began <= a.since }
		for f := r.first(waited); f != nil; f = r.first(waited) {
			f.call <- turn{err: err}
		}
	}
	rs.mu.Unlock()
	rs.promote(r)
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

// lead notes that l has been granted to whoever led.
func (rs *relays) lead(r *relay, l *Lease) {
	if r == nil {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.lease, r.held, r.trouble = l, nil, nil
}
