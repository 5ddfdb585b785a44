package driver

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A Line is the state of one key and the one rule applied to it: a pure data
// structure, without clock, lock or I/O. The memory and the file backend keep
// one for each key, and it is the model that the scripts of the Redis backend
// are held to.
//
// The order of Entries is that of arrival. An entry that waits blocks those
// behind it, so that nobody overtakes: neither a reader a waiting writer, nor
// a small share a large one.
type Line struct {
	Last    uint64       // the last token given out, 0 before the first
	LastID  string       // to whom
	Entries []Entry      // live claims, in order of arrival
	Notices []LeftNotice // oldest first
}

// An Entry is a claim in a [Line].
type Entry struct {
	Claim   Claim         // as last asked for; Grant is what was granted
	Held    bool          // it holds; otherwise it waits
	Kept    bool          // it was released with a Keep: it ends by itself
	Expires time.Duration // on the clock of [Instant]
	Since   time.Duration // when it was granted or, while it waits, came
}

// A LeftNotice is a [Notice] that waits for the claim ID to hear it.
type LeftNotice struct {
	ID      string
	Notice  Notice
	Expires time.Duration
}

// An Instant is a moment on two clocks.
type Instant struct {
	Clock time.Duration // never set back; claims expire on it
	Wall  time.Time     // for tokens, and for people
}

// A line remembers so many notices, each for so long.
const (
	MaxNotices = 16
	Linger     = time.Hour
)

// maxToken bounds tokens to what all who see them can count exactly: Lua and
// JSON numbers are floats.
const maxToken = 1<<53 - 1

// Acquire grants c if the line leaves room for it. See [Backend.Acquire].
func (l *Line) Acquire(c Claim, now Instant) (Grant, error) {
	l.Expire(now)
	i := l.find(c.ID)
	if i >= 0 && l.Entries[i].Held {
		return l.again(&l.Entries[i], c, now)
	}
	switch {
	case i < 0 && l.ended(c.ID):
		return Grant{}, l.lost(c.ID)
	case l.Last > maxToken-MaxBlock:
		return Grant{}, fmt.Errorf("%w: the tokens of the key have run out", ErrRefused)
	case i < 0:
		l.Entries = append(l.Entries, Entry{Since: now.Clock})
		i = len(l.Entries) - 1
	}
	e := &l.Entries[i]
	c.Grant = Grant{} // whatever the caller has there, nothing was granted yet
	e.Claim, e.Expires = c, now.Clock+c.TTL
	if !l.room(i) {
		h := l.held(i, now)
		if !c.Queue {
			h.Place = 0
			l.Entries = slices.Delete(l.Entries, i, i+1)
		}
		return Grant{}, h
	}
	l.grant(e, now)
	return e.Claim.Grant, nil
}

// Ready reports whether an Acquire of c would not be refused for want of room.
func (l *Line) Ready(c Claim, now Instant) bool {
	l.Expire(now)
	if i := l.find(c.ID); i >= 0 {
		e := &l.Entries[i]
		asked := e.Claim
		if e.Held {
			return true
		}
		e.Claim = c // it may ask for less now
		ready := l.room(i)
		e.Claim = asked
		return ready
	}
	l.Entries = append(l.Entries, Entry{Claim: c})
	ready := l.room(len(l.Entries) - 1)
	l.Entries = l.Entries[:len(l.Entries)-1]
	return ready
}

// Renew restarts the TTL of a granted claim. See [Backend.Renew].
func (l *Line) Renew(c Claim, now Instant) (Grant, error) {
	l.Expire(now)
	i := l.find(c.ID)
	if i < 0 || !l.Entries[i].Held || l.Entries[i].Kept || l.Entries[i].Claim.Grant.Token != c.Grant.Token {
		return Grant{}, l.lost(c.ID)
	}
	e := &l.Entries[i]
	e.Claim.TTL, e.Expires = c.TTL, now.Clock+c.TTL
	l.Last = max(l.Last, c.Floor)
	return l.answer(e, now), nil
}

// Release withdraws a claim. See [Backend.Release].
func (l *Line) Release(c Claim, now Instant) error {
	l.Expire(now)
	i := l.find(c.ID)
	switch {
	case i < 0 && (c.Grant.Token == 0 || l.LastID == c.ID && !l.forced(c.ID)):
		return nil // never granted, or released before and that answer was lost
	case i < 0:
		return l.lost(c.ID)
	case l.Entries[i].Kept:
		return nil
	case l.Entries[i].Held && c.Keep > 0:
		l.Entries[i].Kept = true
		l.Entries[i].Expires = now.Clock + min(c.Keep, math.MaxInt64-now.Clock)
		return nil
	}
	l.Entries = slices.Delete(l.Entries, i, i+1)
	return nil
}

// Revoke leaves a notice for the holder id, and ends its claim if n.Force is
// set. See [Backend.Revoke].
func (l *Line) Revoke(id string, n Notice, now Instant) error {
	l.Expire(now)
	i := l.find(id)
	if i < 0 || !l.Entries[i].Held {
		return l.lost(id)
	}
	n.At = now.Wall
	l.Notices = slices.DeleteFunc(l.Notices, func(n LeftNotice) bool { return n.ID == id })
	if len(l.Notices) >= MaxNotices {
		l.Notices = slices.Delete(l.Notices, 0, len(l.Notices)-MaxNotices+1)
	}
	l.Notices = append(l.Notices, LeftNotice{ID: id, Notice: n, Expires: now.Clock + max(Linger, l.Entries[i].Claim.TTL)})
	if n.Force {
		l.Entries = slices.Delete(l.Entries, i, i+1)
	}
	return nil
}

// Inspect tells who holds and who waits. See [Backend.Inspect].
func (l *Line) Inspect(limit int, now Instant) State {
	l.Expire(now)
	s := State{Last: l.Last}
	for _, held := range []bool{true, false} {
		for i := range l.Entries {
			e := &l.Entries[i]
			if e.Held != held {
				continue
			}
			if !held {
				s.Waiting++
			}
			if len(s.Holders) < limit {
				s.Holders = append(s.Holders, e.holder(now))
			}
		}
	}
	for _, n := range l.Notices {
		s.Notices = append(s.Notices, n.Notice)
	}
	return s
}

// Expire drops what has ended by now. The other methods call it first.
func (l *Line) Expire(now Instant) {
	l.Entries = slices.DeleteFunc(l.Entries, func(e Entry) bool { return e.Expires <= now.Clock })
	l.Notices = slices.DeleteFunc(l.Notices, func(n LeftNotice) bool { return n.Expires <= now.Clock })
}

// NextExpiry returns when the first claim ends unless renewed, and false if
// there is none.
func (l *Line) NextExpiry() (time.Duration, bool) {
	if len(l.Entries) == 0 {
		return 0, false
	}
	first := l.Entries[0].Expires
	for _, e := range l.Entries[1:] {
		first = min(first, e.Expires)
	}
	return first, true
}

// room is the one rule. Nothing is added up beyond what has to fit an int64:
// there are fewer than 2^32 entries of less than 2^31 each.
func (l *Line) room(i int) bool {
	var units int64
	for j := range l.Entries {
		e := &l.Entries[j]
		switch {
		case j == i:
		case e.Held:
			units += int64(e.Claim.Units())
		case j < i:
			return false // it waits ahead: nobody overtakes
		}
	}
	c := l.Entries[i].Claim
	if c.Exclusive() {
		return units == 0
	}
	return units+int64(c.Weight) <= int64(c.Capacity)
}

// grant gives e its token, and is the only place that makes one.
//
// Without a candidate the token is the wall clock in microseconds if that is
// ahead: tokens then go on rising when the counter is lost. With one (a quorum
// is asking) it is the candidate if that is ahead and not beyond the clock by
// more than a second, so that the nodes of a quorum agree on a value and no
// client with a wrong clock can push the counter to its end.
func (l *Line) grant(e *Entry, now Instant) {
	token := l.Last + 1
	switch floor := e.Claim.Floor; {
	case floor == 0:
		token = max(token, micros(now.Wall))
	case l.Last == 0:
		token = max(token, micros(now.Wall.Add(-time.Second)))
		fallthrough
	default:
		if floor <= micros(now.Wall.Add(time.Second)) {
			token = max(token, floor)
		}
	}
	block := max(e.Claim.Block, 1)
	l.Last, l.LastID = token+uint64(block)-1, e.Claim.ID
	e.Held, e.Since = true, now.Clock
	e.Claim.Grant = Grant{Token: token, Block: block, Holder: e.Claim.ID}
	e.Claim.Grant = l.answer(e, now)
}

// micros counts the microseconds to t since 1970, none if the clock is so wrong
// that it stands before.
func micros(t time.Time) uint64 { return uint64(max(0, t.UnixMicro())) }

// again repeats the grant of e for c, its TTL restarted.
func (l *Line) again(e *Entry, c Claim, now Instant) (Grant, error) {
	if e.Kept {
		return Grant{}, l.lost(c.ID)
	}
	if c.Weight < e.Claim.Weight && !c.Exclusive() { // 1 of 1 is more than 2 of 3
		e.Claim.Weight, e.Claim.Capacity = c.Weight, c.Capacity
	}
	e.Claim.TTL, e.Expires = c.TTL, now.Clock+c.TTL
	return l.answer(e, now), nil
}

// answer is the grant of e as it is told now.
func (l *Line) answer(e *Entry, now Instant) Grant {
	g := e.Claim.Grant
	g.TTL, g.Now, g.Notice = e.Claim.TTL, now.Wall, l.notice(e.Claim.ID)
	return g
}

func (l *Line) held(i int, now Instant) *HeldError {
	h := &HeldError{Last: l.Last, Now: now.Wall, Left: -1}
	var in *Entry // the claim in the way that ends last: until then there may be no room
	for j := range l.Entries {
		e := &l.Entries[j]
		if !e.Held && j <= i {
			h.Place++
		}
		if j != i && e.Held && (in == nil || e.Expires > in.Expires) {
			in = e
		}
	}
	if in == nil {
		in = &l.Entries[0] // nobody holds: the head of the line is in the way
	}
	h.Holder, h.Left = in.holder(now), in.Expires-now.Clock
	return h
}

func (e *Entry) holder(now Instant) Holder {
	return Holder{Claim: e.Claim, Held: e.Held, Left: e.Expires - now.Clock, Age: now.Clock - e.Since}
}

// ended reports whether the line knows that id was granted and is not any more.
func (l *Line) ended(id string) bool {
	return l.LastID == id || l.forced(id)
}

func (l *Line) forced(id string) bool {
	n := l.notice(id)
	return n != nil && n.Force
}

// lost says why id does not hold.
func (l *Line) lost(id string) *LostError {
	if n := l.notice(id); n != nil && n.Force {
		return &LostError{Reason: Forced, Notice: n}
	}
	for i := range l.Entries {
		if l.Entries[i].Held && l.Entries[i].Claim.ID != id && l.Entries[i].Claim.Exclusive() {
			return &LostError{Reason: Stolen}
		}
	}
	return &LostError{Reason: Expired}
}

func (l *Line) notice(id string) *Notice {
	for i := range l.Notices {
		if l.Notices[i].ID == id {
			n := l.Notices[i].Notice
			return &n
		}
	}
	return nil
}

func (l *Line) find(id string) int {
	return slices.IndexFunc(l.Entries, func(e Entry) bool { return e.Claim.ID == id })
}
