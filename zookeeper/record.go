package zookeeper

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawlock/pawl/driver"
)

// A record is what has to be remembered of a key when its node, a container, has
// been empty and the store has dropped it. There is one only for keys of which a
// claim was ended by force within the last hour, and for those whose token was
// raised to a floor that the store's zxid has not passed.
type record struct {
	Last    uint64       `json:"last,omitempty"`
	Notices []leftNotice `json:"notices,omitempty"` // of claims ended by force, oldest first
	stat    *zk.Stat     // nil: there is none
}

type leftNotice struct {
	ID     string        `json:"id"`
	Notice driver.Notice `json:"notice"`
}

// recall reads the record of l's key.
func (b *backend) recall(l *line) error {
	l.record = record{}
	raw, st, err := b.conn.Get(b.memory(l.key))
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	} else if err != nil {
		return err
	}
	json.Unmarshal(raw, &l.record)
	l.record.stat = st
	return nil
}

// remember returns the operation of a transaction that makes r the record of
// key, which was old.
func (b *backend) remember(key string, old, r record) any {
	if old.stat == nil {
		return &zk.CreateRequest{Path: b.memory(key), Data: encode(r), Acl: b.o.ACL}
	}
	return &zk.SetDataRequest{Path: b.memory(key), Data: encode(r), Version: old.stat.Version}
}

// with returns r with n for id, without notices that are too old or too many.
func (r record) with(id string, n driver.Notice) record {
	r.Notices = slices.DeleteFunc(slices.Clone(r.Notices), func(o leftNotice) bool {
		return o.ID == id || n.At.Sub(o.Notice.At) > driver.Linger
	})
	r.Notices = append(r.Notices, leftNotice{id, n})
	if d := len(r.Notices) - driver.MaxNotices; d > 0 {
		r.Notices = r.Notices[d:]
	}
	return r
}

func (r record) notice(id string) *driver.Notice {
	for i := range r.Notices {
		if r.Notices[i].ID == id {
			n := r.Notices[i].Notice
			return &n
		}
	}
	return nil
}

// sweep deletes the records that nobody needs any more. It comes with each that is
// written, so that no more are left than revocations of the hour before the last.
func (b *backend) sweep() {
	dir := b.o.Root + "/" + memories
	names, parent, err := b.conn.Children(dir)
	if err != nil {
		return
	}
	for _, name := range names {
		path := dir + "/" + name
		raw, st, err := b.conn.Get(path)
		var r record
		if err != nil || json.Unmarshal(raw, &r) != nil {
			continue
		}
		if b.now().Sub(time.UnixMilli(st.Mtime)) > 2*driver.Linger && r.Last <= uint64(parent.Pzxid) {
			b.conn.Delete(path, st.Version)
		}
	}
}

// makeParents makes the nodes above path, but not path.
func (b *backend) makeParents(path string) error {
	for i := 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		if _, err := b.conn.Create(path[:i], nil, 0, b.o.ACL); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			// A user whose chroot was made for him need not have rights above it.
			if there, _, e := b.conn.Exists(path[:i]); e != nil || !there {
				return err
			}
		}
	}
	return nil
}

// makeDir makes the node of a key: a container, which the store drops when it
// has been empty for a while.
func (b *backend) makeDir(dir string) error {
	err := b.createDir(dir)
	if errors.Is(err, zk.ErrNoNode) {
		if err = b.makeParents(dir); err == nil {
			err = b.createDir(dir)
		}
	}
	return err
}

func (b *backend) createDir(dir string) error {
	_, err := b.conn.CreateContainer(dir, nil, zk.FlagContainer, b.o.ACL)
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// A graveyard has the claims whose end this process has seen to, as many as it
// has room for: the node of a key does not outlast its claims for long.
type graveyard struct {
	how  map[string]string // a reason of driver.LostError, or released, by ID
	ring []string          // the IDs, the oldest at next
	next int
}

const (
	released = "released"
	graves   = 4096
)

func (g *graveyard) bury(id, how string) {
	if g.how == nil {
		g.how = make(map[string]string)
	}
	if _, ok := g.how[id]; ok {
		g.how[id] = how
		return
	}
	g.how[id] = how
	if len(g.ring) < graves {
		g.ring = append(g.ring, id)
		return
	}
	delete(g.how, g.ring[g.next])
	g.ring[g.next] = id
	g.next = (g.next + 1) % graves
}

// bury remembers how the claim id ended.
func (b *backend) bury(id, how string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended.bury(id, how)
}

// buried returns how id ended if this process has seen to it, or "".
func (b *backend) buried(id string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended.how[id]
}

// forced reports whether id was ended by force.
func (l *line) forced(id string) bool { return l.record.notice(id) != nil }

// lost says why id does not hold.
func (l *line) lost(id string) *driver.LostError {
	if n := l.record.notice(id); n != nil {
		return &driver.LostError{Reason: driver.Forced, Notice: n}
	}
	for i, e := range l.entries {
		if l.holds(i) && e.ID != id && e.claim(l.key).Exclusive() {
			return &driver.LostError{Reason: driver.Stolen}
		}
	}
	return &driver.LostError{Reason: driver.Expired}
}

// failed returns the error of the operation that made a transaction fail.
func failed(res []zk.MultiResponse, err error) error {
	for _, r := range res {
		for _, known := range []error{zk.ErrBadVersion, zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrNoAuth} {
			if errors.Is(r.Error, known) {
				return known
			}
		}
	}
	return err
}

// raced reports an error by which somebody else was faster.
func raced(err error) bool {
	return errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists)
}
