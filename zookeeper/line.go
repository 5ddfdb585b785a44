package zookeeper

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawlock/pawl/driver"
)

// Tokens stay exact where numbers are floats. A candidate is believed if it is
// no further ahead than one epoch of the store.
const (
	maxToken = 1<<53 - 1
	maxLift  = 1 << 32
)

// meta is what the node of a key remembers, as JSON.
type meta struct {
	Last    uint64       `json:"last,omitempty"`    // the last token, or the floor it was raised to
	LastID  string       `json:"last_id,omitempty"` // to whom
	Notices []leftNotice `json:"notices,omitempty"` // oldest first
}

type leftNotice struct {
	ID     string        `json:"id"`
	Notice driver.Notice `json:"notice"`
}

// data is what the node of a claim says of it, as JSON.
type data struct {
	ID       string        `json:"id"`
	Label    string        `json:"label,omitempty"`
	Weight   int           `json:"weight"`
	Capacity int           `json:"capacity"`
	TTL      time.Duration `json:"ttl"` // in nanoseconds; of the Keep once it is kept
	Queue    bool          `json:"queue,omitempty"`
	Token    uint64        `json:"token,omitempty"` // not 0: it holds
	Kept     bool          `json:"kept,omitempty"`
}

// An entry is a node in line.
type entry struct {
	data
	name, path string
	foreign    bool // another program's: exclusive
	seq        int32
	version    int32
	owner      int64 // the session
	czxid      int64
}

// A line is the state of one key as a server told it.
type line struct {
	meta
	key     string
	version int32 // of the key's node
	entries []*entry
}

func asked(c driver.Claim) data {
	return data{ID: c.ID, Label: c.Label, Weight: c.Weight, Capacity: c.Capacity, TTL: c.TTL, Queue: c.Queue}
}

func (d data) encode() []byte { return encode(d) }
func (m meta) encode() []byte { return encode(m) }

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers always can be
	}
	return b
}

// look reads the line of key, after a sync if what others did has to show.
func (b *backend) look(key string, sync bool) (*line, error) {
	dir := b.dir(key)
	if sync {
		if _, err := b.conn.Sync(b.o.Root); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, err
		}
	}
	// The key's node is read first: whoever confirms after that changes its version.
	l := &line{key: key}
	raw, st, err := b.conn.Get(dir)
	if errors.Is(err, zk.ErrNoNode) {
		return l, nil
	} else if err != nil {
		return nil, err
	}
	l.version = st.Version
	json.Unmarshal(raw, &l.meta) // what isn't ours remembers nothing
	names, _, err := b.conn.Children(dir)
	if errors.Is(err, zk.ErrNoNode) {
		return l, nil
	} else if err != nil {
		return nil, err
	}
	for _, name := range names {
		e := &entry{name: name, path: dir + "/" + name}
		var ok bool
		if e.seq, ok = sequence(name); !ok {
			continue
		}
		raw, st, err := b.conn.Get(e.path)
		if errors.Is(err, zk.ErrNoNode) {
			continue // gone meanwhile
		} else if err != nil {
			return nil, err
		}
		e.version, e.owner, e.czxid = st.Version, st.EphemeralOwner, st.Czxid
		if json.Unmarshal(raw, &e.data) != nil || e.ID == "" || e.Weight < 1 || e.Capacity < e.Weight {
			e.data = data{ID: name, Weight: driver.Unlimited, Capacity: driver.Unlimited, Queue: true}
			e.foreign = true
		}
		l.entries = append(l.entries, e)
	}
	slices.SortFunc(l.entries, func(x, y *entry) int { return int(x.seq - y.seq) }) // wraps around
	return l, nil
}

func (l *line) find(id string) int {
	return slices.IndexFunc(l.entries, func(e *entry) bool { return e.ID == id })
}

// room is the one rule for c at place i. A claim that has not confirmed blocks
// those behind it, also where there is room for all: so grants come in order of
// creation.
func (l *line) room(i int, c driver.Claim) bool {
	var units int64
	for _, e := range l.entries[:i] {
		if e.Token == 0 {
			return false
		}
		units += int64(e.claim(l.key).Units())
	}
	if c.Exclusive() {
		return units == 0
	}
	return units+int64(c.Weight) <= int64(c.Capacity)
}

// passing reports whether what is ahead of place i, and has not confirmed, does
// not stay in line.
func (l *line) passing(i int) bool {
	for _, e := range l.entries[:i] {
		if e.Token == 0 {
			return !e.Queue
		}
	}
	return false
}

// holds reports whether e, at place i, holds. A foreign claim does when it is first.
func (l *line) holds(i int) bool { return l.entries[i].Token != 0 || l.entries[i].foreign && i == 0 }

func (l *line) held(i int, c driver.Claim) *driver.HeldError {
	h := &driver.HeldError{Last: l.Last, Now: time.Now(), Left: -1}
	ahead := l.entries
	if i >= 0 {
		ahead = l.entries[:i]
		h.Place = 1
	}
	in := 0
	for j := range ahead {
		if l.holds(j) {
			in = j
		} else if i >= 0 {
			h.Place++
		}
	}
	if len(ahead) > 0 {
		h.Holder = l.holder(in)
		h.Left = h.Holder.Left
	}
	return h
}

func (e *entry) claim(key string) driver.Claim {
	return driver.Claim{Key: key, ID: e.ID, Label: e.Label, Weight: e.Weight, Capacity: e.Capacity, TTL: e.TTL}
}

// holder is place i as others see it. When it was renewed last they can't know:
// its whole TTL is the most that is left.
func (l *line) holder(i int) driver.Holder {
	e := l.entries[i]
	h := driver.Holder{Claim: e.claim(l.key), Held: l.holds(i), Foreign: e.foreign, Left: e.TTL, Age: -1}
	if e.foreign {
		h.Left = -1
	}
	if e.Token != 0 {
		h.Grant = driver.Grant{Token: e.Token, Block: 1, TTL: e.TTL, Holder: e.ID, Ref: e.path}
	}
	return h
}

func (l *line) inspect(limit int) driver.State {
	s := driver.State{Last: l.Last}
	for _, held := range []bool{true, false} {
		for i := range l.entries {
			if l.holds(i) != held {
				continue
			}
			if !held {
				s.Waiting++
			}
			if len(s.Holders) < limit {
				s.Holders = append(s.Holders, l.holder(i))
			}
		}
	}
	for _, n := range l.Notices {
		s.Notices = append(s.Notices, n.Notice)
	}
	return s
}

func (l *line) ended(id string) bool { return l.LastID == id || l.forced(id) }

func (l *line) forced(id string) bool {
	n := l.notice(id)
	return n != nil && n.Force
}

func (l *line) lost(id string) *driver.LostError {
	if n := l.notice(id); n != nil && n.Force {
		return &driver.LostError{Reason: driver.Forced, Notice: n}
	}
	for i, e := range l.entries {
		if l.holds(i) && e.ID != id && e.claim(l.key).Exclusive() {
			return &driver.LostError{Reason: driver.Stolen}
		}
	}
	return &driver.LostError{Reason: driver.Expired}
}

func (m meta) notice(id string) *driver.Notice {
	for i := range m.Notices {
		if m.Notices[i].ID == id {
			n := m.Notices[i].Notice
			return &n
		}
	}
	return nil
}

// with returns m with n for id, without notices that are too old or too many.
func (m meta) with(id string, n driver.Notice) meta {
	m.Notices = slices.DeleteFunc(slices.Clone(m.Notices), func(o leftNotice) bool {
		return o.ID == id || n.At.Sub(o.Notice.At) > driver.Linger
	})
	m.Notices = append(m.Notices, leftNotice{id, n})
	if d := len(m.Notices) - driver.MaxNotices; d > 0 {
		m.Notices = m.Notices[d:]
	}
	return m
}
