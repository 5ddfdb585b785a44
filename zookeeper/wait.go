package zookeeper

import (
	"context"
	"time"

	"github.com/pawlock/pawl/driver"
)

// Wait implements driver.Backend. It watches what is right ahead, so that a
// release wakes one: all holders are watched only by the head of the line, and
// only if it is a share.
func (b *backend) Wait(ctx context.Context, c driver.Claim, _ *driver.HeldError) error {
	for first := true; ; first = false {
		l, err := b.look(c.Key, first)
		if err != nil {
			return err
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
		var paths []string
		if last := ahead[len(ahead)-1]; last.Token == 0 || c.Exclusive() {
			paths = []string{last.path}
		} else {
			for _, e := range ahead {
				paths = append(paths, e.path)
			}
		}
		if i >= 0 {
			paths = append(paths, l.entries[i].path)
		}
		if err := b.changed(ctx, paths, l); err != nil {
			return err
		}
	}
}

// changed returns when one of paths is not any more as it was in l.
func (b *backend) changed(ctx context.Context, paths []string, l *line) error {
	any := make(chan struct{}, 1)
	stop := make(chan struct{})
	defer close(stop)
	for _, path := range paths {
		done, version, err := b.watch(path)
		if err != nil {
			return err
		}
		if version < 0 || version != l.versionOf(path) {
			return nil // it changed before it was watched
		}
		go func() {
			select {
			case <-done:
				select {
				case any <- struct{}{}:
				default:
				}
			case <-stop:
			}
		}()
	}
	timer := time.NewTimer(time.Minute) // whatever was missed
	defer timer.Stop()
	select {
	case <-any:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *line) versionOf(path string) int32 {
	for _, e := range l.entries {
		if e.path == path {
			return e.version
		}
	}
	return -1
}

// watch returns a channel that is closed when path changes, and the version it
// has now, -1 if it is gone. All who wait for a path share one watch: the client
// can't take one back.
func (b *backend) watch(path string) (<-chan struct{}, int32, error) {
	b.mu.Lock()
	done := b.watches[path]
	b.mu.Unlock()
	if done != nil {
		_, st, err := b.conn.Exists(path)
		if err != nil {
			return nil, 0, err
		}
		if st.EphemeralOwner == 0 {
			return done, -1, nil
		}
		return done, st.Version, nil
	}
	ok, st, events, err := b.conn.ExistsW(path)
	if err != nil {
		return nil, 0, err
	}
	if !ok {
		return nil, -1, nil // the watch for its creation never fires: no name comes twice
	}
	done = make(chan struct{})
	b.mu.Lock()
	b.watches[path] = done
	b.mu.Unlock()
	go func() {
		<-events // also when the session ends
		b.mu.Lock()
		if b.watches[path] == done {
			delete(b.watches, path)
		}
		b.mu.Unlock()
		close(done)
	}()
	return done, st.Version, nil
}
