package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawlock/pawl/driver"
)

// Wait implements driver.Backend. It watches what is right ahead, so that a
// release wakes one: all holders are watched only by the head of the line, and
// only if it is a share.
func (b *backend) Wait(ctx context.Context, c driver.Claim, _ *driver.HeldError) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	for first := true; ; first = false {
		l, err := b.look(c.Key, first)
		if err != nil {
			return b.explain(err)
		}
		i := l.find(c.ID)
		if i < 0 && c.Queue {
			return nil // no longer in line: ask again
		}
		ahead := l.entries
		if i >= 0 {
			ahead = l.entries[:i]
		}
		if l.room(len(ahead), c) {
			return nil
		}
		if last := ahead[len(ahead)-1]; last.Token == 0 || c.Exclusive() {
			ahead = ahead[len(ahead)-1:]
		}
		watched := ahead
		if i >= 0 {
			watched = l.entries[len(l.entries[:i])-len(ahead) : i+1] // and our own
		}
		if some, err := b.reap(l, ahead); err != nil {
			return b.explain(err)
		} else if some {
			continue
		}
		if err := b.changed(ctx, l.key, watched); err != nil {
			return b.explain(err)
		}
	}
}

// changed returns when one of list is gone, or takes other room than before, or
// may be ended because nobody renews it. A renewal is no change.
func (b *backend) changed(ctx context.Context, key string, list []*entry) error {
	done := make(chan struct{})
	defer close(done)
	events := make(chan *entry)
	follow := func(e *entry) (bool, error) {
		w, err := b.watch(e.path)
		if errors.Is(err, zk.ErrNoNode) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		before := e.data
		e.set(w.raw, &w.stat)
		go func() {
			select {
			case <-w.changed:
				select {
				case events <- e:
				case <-done:
				}
			case <-done:
			}
		}()
		return e.Token == before.Token && e.Weight == before.Weight && e.Capacity == before.Capacity && e.ID == before.ID, nil
	}
	for _, e := range list {
		if same, err := follow(e); !same || err != nil {
			return err
		}
	}
	for {
		b.see(key, list)
		next := time.Now().Add(time.Minute) // whatever was missed
		for _, e := range list {
			if at, ok := b.due(key, e); ok && at.Before(next) {
				next = at
			}
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case e := <-events:
			timer.Stop()
			if same, err := follow(e); !same || err != nil {
				return err
			}
		}
	}
}

// A watch is what a node had when it was read, and a channel that is closed when
// that has changed, or nobody knows any more.
type watch struct {
	raw     []byte
	stat    zk.Stat
	changed chan struct{}
}

// watch returns a watch of the node at path, or zk.ErrNoNode. All who wait for a
// node share one: the client can't take one back.
func (b *backend) watch(path string) (*watch, error) {
	b.mu.Lock()
	w := b.watches[path]
	b.mu.Unlock()
	if w != nil {
		return w, nil
	}
	raw, st, events, err := b.conn.GetW(path)
	if err != nil {
		return nil, err
	}
	w = &watch{raw, *st, make(chan struct{})}
	b.mu.Lock()
	b.watches[path] = w
	b.mu.Unlock()
	go func() {
		<-events // also when the session ends
		b.mu.Lock()
		if b.watches[path] == w {
			delete(b.watches, path)
		}
		b.mu.Unlock()
		close(w.changed)
	}()
	return w, nil
}
