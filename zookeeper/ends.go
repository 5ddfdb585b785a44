package zookeeper

import (
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawlock/pawl/driver"
)

// An own is a claim whose node the session of this process keeps, granted or in
// line. It ends when its TTL has passed since the last answer that restarted it.
type own struct {
	path    string
	data    data      // as it was written last
	version int32     // of the node
	written time.Time // when that was answered
	ends    time.Time
	timer   *time.Timer
	over    bool // the node is being deleted
}

// longest bounds what is added to a time.
const longest = 100 * 365 * 24 * time.Hour

// keep restarts the TTL of the claim whose node has d now, after the answer that
// said so; st is nil if nothing was written. It returns false if it is too late:
// the node is being deleted, or has been since the claim was kept as before, and
// what was written to it does not count.
func (b *backend) keep(path string, before *own, d data, st *zk.Stat) bool {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.own[path]
	if o == nil {
		if before != nil {
			return false
		}
		o = &own{path: path}
		o.timer = time.AfterFunc(longest, func() { b.end(o) })
		b.own[path] = o
	}
	if o.over {
		return false
	}
	o.data = d
	if st != nil {
		o.version, o.written = st.Version, now
		if st.Mtime != 0 {
			b.offset = time.UnixMilli(st.Mtime).Sub(now)
		}
	}
	ttl := min(d.TTL, longest)
	o.ends = now.Add(ttl)
	o.timer.Reset(ttl)
	return true
}

// asks restarts the TTL of a place in line for which somebody asks just now, so that
// it does not end between two requests. It returns false if it has.
func (b *backend) asks(path string) bool {
	o := b.kept(path)
	return o == nil && !b.over(path) || o != nil && b.keep(path, o, o.data, nil)
}

// kept returns what this process knows of its claim at path, nil if it keeps none
// there or is deleting it.
func (b *backend) kept(path string) *own {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.own[path]
	if o == nil || o.over {
		return nil
	}
	known := *o
	return &known
}

// over reports whether the node at path is being deleted.
func (b *backend) over(path string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.own[path]
	return o != nil && o.over
}

// end is called by o's timer.
func (b *backend) end(o *own) {
	b.mu.Lock()
	left := time.Until(o.ends)
	switch {
	case b.own[o.path] != o || o.over:
	case left > 0: // it was restarted when the timer had gone off
		o.timer.Reset(left)
	default:
		o.over = true
		switch {
		case o.data.Kept:
			b.ended.bury(o.data.ID, released)
		case o.data.Token != 0:
			b.ended.bury(o.data.ID, driver.Expired)
		}
		b.mu.Unlock()
		b.expire(o.path)
		return
	}
	b.mu.Unlock()
}

// expire deletes the node at path, again and again until the session that keeps
// it must have ended too.
func (b *backend) expire(path string) {
	for until := time.Now().Add(2 * b.o.SessionTimeout); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if err := b.conn.Delete(path, -1); err == nil || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrClosing) {
			break
		}
	}
	b.forget(path)
}

// recover finds the node of id, the making of which has failed with err, if that
// leaves open whether it was made. Our session would keep such a node for as long
// as this process lives, and nobody need ask for it again.
func (b *backend) recover(key, id string, err error) {
	if err == nil || raced(err) || errors.Is(b.explain(err), driver.ErrRefused) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return // what is left ends with the session
	}
	b.running.Go(func() {
		for !b.adopt(key, id) {
			select {
			case <-b.stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
}

// adopt keeps the node of id if there is one of our session that is not kept yet,
// and reports whether it knows that. What was sent on a connection before this one
// has come to nothing by now, or shows.
func (b *backend) adopt(key, id string) bool {
	l, err := b.look(key, true)
	if err != nil {
		return false
	}
	i := l.find(id)
	if i < 0 || l.entries[i].stat.EphemeralOwner != b.conn.SessionID() {
		return true
	}
	e := l.entries[i]
	b.mu.Lock()
	known := b.own[e.path] != nil
	b.mu.Unlock()
	if known || !b.keep(e.path, nil, e.data, &e.stat) {
		return true
	}
	if there, _, err := b.conn.Exists(e.path); err == nil && !there {
		b.forget(e.path) // it was released meanwhile
	}
	return true
}

// remove deletes the node at path.
func (b *backend) remove(path string) error {
	if err := b.conn.Delete(path, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	b.forget(path)
	return nil
}

// forget is called when there is no node at path any more.
func (b *backend) forget(path string) {
	b.mu.Lock()
	if o := b.own[path]; o != nil {
		o.timer.Stop()
		delete(b.own, path)
	}
	last := b.done()
	b.mu.Unlock()
	if last {
		go b.closeIfIdle()
	}
}

// A sighting is a version that the node of another process had, and when we first
// knew of it, which is after it was written.
type sighting struct {
	version int32
	since   time.Time
}

// notice takes note of the claims in l that others keep.
func (b *backend) notice(l *line) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.now = time.Now().Add(b.offset)
	before := b.seen[l.key]
	now := make(map[string]sighting)
	for _, e := range l.entries {
		if e.foreign || b.own[e.path] != nil {
			continue
		}
		s, ok := before[e.path]
		if !ok || s.version != e.stat.Version {
			s = sighting{e.stat.Version, e.read}
		}
		now[e.path] = s
	}
	if len(now) == 0 {
		delete(b.seen, l.key)
		return
	}
	b.seen[l.key] = now
	for key := range b.seen { // whoever asks for that many keys at once learns less of each
		if len(b.seen) <= maxSeen {
			break
		}
		if key != l.key {
			delete(b.seen, key)
		}
	}
}

const maxSeen = 4096

// due returns when e may be deleted because nobody has renewed it for its whole
// TTL, and something more for clocks that run at unequal rates; false for a claim
// that is not ours to end.
//
// Its holder counts from before it sent what made this version, and we from after
// that was written. The node is deleted with this version, or not at all.
func (b *backend) due(key string, e *entry) (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.seen[key][e.path]
	if !ok || s.version != e.stat.Version {
		return time.Time{}, false
	}
	return s.since.Add(e.TTL + e.TTL/50), true
}

// reap deletes the claims of dead processes ahead of place i, and reports whether
// there were any. Those who wait behind one another do it one for the other.
func (b *backend) reap(l *line, ahead []*entry) (bool, error) {
	some := false
	for _, e := range ahead {
		if at, ok := b.due(l.key, e); !ok || time.Now().Before(at) {
			continue
		}
		if err := b.conn.Delete(e.path, e.stat.Version); err != nil && !raced(err) {
			return some, err
		}
		some = true
	}
	return some, nil
}

// now is the store's clock, as its answers have told it. Until there was one it is
// ours.
func (b *backend) now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Add(b.offset)
}

// see takes note of the claims in list that others keep, of which more is known
// than when the line was read.
func (b *backend) see(key string, list []*entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range list {
		if e.foreign || b.own[e.path] != nil {
			continue
		}
		seen := b.seen[key]
		if seen == nil {
			seen = make(map[string]sighting)
			b.seen[key] = seen
		}
		if s, ok := seen[e.path]; !ok || s.version != e.stat.Version {
			seen[e.path] = sighting{e.stat.Version, e.read}
		}
	}
}
