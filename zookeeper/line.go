package zookeeper

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawlock/pawl/driver"
)

// meta is what the node of a key has, as JSON.
type meta struct {
	Last   uint64 `json:"last,omitempty"`    // the last token, or the floor it was raised to
	LastID string `json:"last_id,omitempty"` // to whom
}

// data is what the node of a claim says of it, as JSON.
type data struct {
	ID       string         `json:"id"`
	Label    string         `json:"label,omitempty"`
	Weight   int            `json:"weight"`
	Capacity int            `json:"capacity"`
	TTL      time.Duration  `json:"ttl"` // in nanoseconds; of the Keep once it is kept
	Queue    bool           `json:"queue,omitempty"`
	Token    uint64         `json:"token,omitempty"` // not 0: it holds
	Since    int64          `json:"since,omitempty"` // when it was granted, in milliseconds on the store's clock
	Kept     bool           `json:"kept,omitempty"`
	Notice   *driver.Notice `json:"notice,omitempty"` // it was asked back
	Place    int64          `json:"place,omitempty"`  // the czxid of its first node, if it has moved
}

// An entry is a node in line.
type entry struct {
	data
	name, path string
	foreign    bool // another program's: exclusive
	stat       zk.Stat
	read       time.Time // after the answer that told this
}

// A line is the state of one key as a server told it.
type line struct {
	meta
	key, dir string
	version  int32 // of the key's node
	entries  []*entry
	record   record
	now      time.Time // the store's clock, as far as we know it
}

// asked is what c asks for, as a claim that has not moved.
func asked(c driver.Claim) data {
	return data{ID: c.ID, Label: c.Label, Weight: c.Weight, Capacity: c.Capacity, TTL: c.TTL, Queue: c.Queue}
}

// asked is what c, whose node e is, asks for in the place that it has.
func (e *entry) asked(c driver.Claim) data {
	d := asked(c)
	d.Place = e.Place
	return d
}

// place is where e stands in line. The sequence numbers tell the same, but for two
// claims of one number: a server's counter stays at its end when it gets there.
func (e *entry) place() int64 {
	if e.Place != 0 {
		return e.Place
	}
	return e.stat.Czxid
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers always can be
	}
	return b
}

// look reads the line of key, after a sync if what others did has to show.
func (b *backend) look(key string, sync bool) (*line, error) {
	if sync {
		if _, err := b.conn.Sync(b.o.Root); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, err
		}
	}
	l := &line{key: key, dir: b.dir(key)}
	for range 5 { // a node that vanishes between two reads may have moved
		if whole, err := b.read(l); err != nil {
			return nil, err
		} else if whole {
			break
		}
	}
	b.notice(l)
	return l, nil
}

// read reads l, and reports whether nothing vanished meanwhile. The key's node is
// read before what is below it: whoever confirms or moves after that changes its
// version.
func (b *backend) read(l *line) (whole bool, err error) {
	l.meta, l.version, l.entries = meta{}, 0, nil
	raw, st, err := b.conn.Get(l.dir)
	gone := errors.Is(err, zk.ErrNoNode)
	if err != nil && !gone {
		return false, err
	}
	var names []string
	if !gone {
		l.version = st.Version
		json.Unmarshal(raw, &l.meta) // what isn't ours remembers nothing
		if names, _, err = b.conn.Children(l.dir); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return false, err
		}
	}
	// The rest is asked for at once, and the answers awaited together.
	var (
		all    sync.WaitGroup
		errs   = make([]error, len(names)+1)
		places = make(chan struct{}, 32)
	)
	for i, name := range names {
		if !sequential(name) {
			continue
		}
		e := &entry{name: name, path: l.dir + "/" + name}
		l.entries = append(l.entries, e)
		places <- struct{}{}
		all.Go(func() {
			errs[i] = b.readEntry(e)
			<-places
		})
	}
	all.Go(func() { errs[len(names)] = b.recall(l) })
	all.Wait()
	whole = true
	for _, err := range errs {
		if errors.Is(err, zk.ErrNoNode) {
			whole = false
		} else if err != nil {
			return false, err
		}
	}
	l.Last = max(l.Last, l.record.Last)
	l.entries = slices.DeleteFunc(l.entries, func(e *entry) bool { return e.read.IsZero() })
	slices.SortFunc(l.entries, func(x, y *entry) int { return cmp.Compare(x.place(), y.place()) })
	return whole, nil
}

func (b *backend) readEntry(e *entry) error {
	raw, st, err := b.conn.Get(e.path)
	if err != nil {
		return err
	}
	e.set(raw, st)
	return nil
}

func (e *entry) set(raw []byte, st *zk.Stat) {
	e.stat, e.read, e.data = *st, time.Now(), data{}
	if json.Unmarshal(raw, &e.data) != nil || e.ID == "" || e.Weight < 1 || e.Capacity < e.Weight || e.TTL <= 0 || !ofClaim(e.name, e.ID) {
		e.data = data{ID: e.name, Weight: driver.Unlimited, Capacity: driver.Unlimited, Queue: true}
		e.foreign = true
	}
}

func (l *line) find(id string) int {
	return slices.IndexFunc(l.entries, func(e *entry) bool { return e.ID == id })
}

func (e *entry) claim(key string) driver.Claim {
	return driver.Claim{Key: key, ID: e.ID, Label: e.Label, Weight: e.Weight, Capacity: e.Capacity, TTL: e.TTL}
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

// passing returns the claim ahead of place i that has not confirmed and either
// may, or will not stay in line: it is soon gone, or holds. Nil if there is none.
func (l *line) passing(i int) *entry {
	for j, e := range l.entries[:i] {
		if e.Token == 0 {
			if !e.foreign && (!e.Queue || l.room(j, e.claim(l.key))) {
				return e
			}
			return nil
		}
	}
	return nil
}

// holds reports whether e, at place i, holds. A foreign claim does when it is first.
func (l *line) holds(i int) bool { return l.entries[i].Token != 0 || l.entries[i].foreign && i == 0 }

// held says what is in the way of a claim at place i, or of one behind all if i
// is negative.
func (l *line) held(i int) *driver.HeldError {
	h := &driver.HeldError{Last: l.Last, Now: l.now, Left: -1}
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

// holder is place i as others see it. How much is left is reckoned from the time
// of its last renewal on the store's clock.
func (l *line) holder(i int) driver.Holder {
	e := l.entries[i]
	h := driver.Holder{Claim: e.claim(l.key), Held: l.holds(i), Foreign: e.foreign, Left: -1}
	since := e.stat.Ctime
	if e.Token != 0 {
		h.Grant = driver.Grant{Token: e.Token, Block: 1, TTL: e.TTL, Holder: e.ID, Ref: e.path}
		since = e.Since
	}
	h.Age = max(0, l.now.Sub(time.UnixMilli(since)))
	if !e.foreign {
		h.Left = min(e.TTL, max(time.Millisecond, e.TTL-l.now.Sub(time.UnixMilli(e.stat.Mtime))))
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
	for _, n := range l.record.Notices {
		s.Notices = append(s.Notices, n.Notice)
	}
	for _, e := range l.entries {
		if e.Notice != nil {
			s.Notices = append(s.Notices, *e.Notice)
		}
	}
	slices.SortStableFunc(s.Notices, func(x, y driver.Notice) int { return x.At.Compare(y.At) })
	return s
}
