// Package memory keeps locks in this process. It is the backend for the tests
// of programs that use pawl, and the model that the other backends are held
// to. It excludes goroutines from each other and nothing else.
package memory

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlock/pawl/driver"
)

// A Store holds the locks of any number of backends, as a server would. The
// zero value is an empty store, ready to use.
type Store struct {
	mu    sync.Mutex // never held across anything that waits
	epoch time.Time  // of the clock that claims expire on; guarded by mu
	lines map[string]*line
	sweep int // number of lines at which the next sweep is due; guarded by mu
}

// A line is a driver.Line that can be waited on.
type line struct {
	driver.Line
	changed chan struct{} // closed and replaced when room may have come
	touched time.Duration // when it was last used
}

// Lines that nobody holds are remembered for their last token. Those idle for
// longer than idle are dropped when the store has grown: later tokens still
// rise, since they are never below the wall clock.
const (
	idle     = time.Hour
	minSweep = 1024
)

type backend struct{ store *Store }

// New returns a backend on s. Backends on the same store exclude each other,
// as processes on one server do; a nil s is a store of its own.
func New(s *Store) driver.Backend {
	if s == nil {
		s = new(Store)
	}
	return backend{s}
}

// Traits implements driver.Backend.
func (backend) Traits() driver.Traits {
	return driver.Traits{
		Name:     "memory",
		Fencing:  true,
		Fair:     true,
		Counting: true,
		Blocks:   true,
		MinTTL:   time.Millisecond,
		MaxTTL:   365 * 24 * time.Hour,
	}
}

// Close implements driver.Backend. There is nothing to free.
func (backend) Close() error { return nil }

// Acquire implements driver.Backend.
func (b backend) Acquire(ctx context.Context, c driver.Claim) (g driver.Grant, err error) {
	if err := c.Validate(b.Traits()); err != nil {
		return driver.Grant{}, err
	}
	b.store.at(c.Key, func(l *line, now driver.Instant) {
		if err = late(ctx); err != nil {
			return
		}
		g, err = l.Acquire(c, now)
		if !c.Exclusive() || err != nil && !c.Queue {
			l.wake() // a share leaves room for the next, as does a claim that has left the line
		}
	})
	return g, err
}

// Wait implements driver.Backend.
func (b backend) Wait(ctx context.Context, c driver.Claim, _ *driver.HeldError) error {
	for {
		var (
			ready   bool
			changed chan struct{}
			left    = time.Hour
		)
		b.store.at(c.Key, func(l *line, now driver.Instant) {
			ready = l.Ready(c, now)
			changed = l.changed
			if next, ok := l.NextExpiry(); ok {
				left = next - now.Clock
			}
		})
		if ready {
			return nil
		}
		timer := time.NewTimer(left)
		select {
		case <-changed:
			timer.Stop()
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// Renew implements driver.Backend.
func (b backend) Renew(_ context.Context, c driver.Claim) (g driver.Grant, err error) {
	b.store.at(c.Key, func(l *line, now driver.Instant) { g, err = l.Renew(c, now) })
	return g, err
}

// Release implements driver.Backend.
func (b backend) Release(_ context.Context, c driver.Claim) (err error) {
	b.store.at(c.Key, func(l *line, now driver.Instant) {
		err = l.Release(c, now)
		l.wake()
	})
	return err
}

// Revoke implements driver.Backend.
func (b backend) Revoke(_ context.Context, key, id string, n driver.Notice) (err error) {
	b.store.at(key, func(l *line, now driver.Instant) {
		err = l.Revoke(id, n, now)
		l.wake()
	})
	return err
}

// Inspect implements driver.Backend.
func (b backend) Inspect(_ context.Context, key string, limit int) (st driver.State, err error) {
	b.store.at(key, func(l *line, now driver.Instant) { st = l.Inspect(limit, now) })
	return st, nil
}

// List implements driver.Backend.
func (b backend) List(ctx context.Context, prefix string) iter.Seq2[driver.Holder, error] {
	return func(yield func(driver.Holder, error) bool) {
		for _, key := range b.store.keys(prefix) {
			if err := ctx.Err(); err != nil {
				yield(driver.Holder{}, context.Cause(ctx))
				return
			}
			st, _ := b.Inspect(ctx, key, driver.Unlimited) // never fails
			for _, h := range st.Holders {
				if h.Held && !yield(h, nil) {
					return
				}
			}
		}
	}
}

// at runs f on the line of key, at one instant.
func (s *Store) at(key string, f func(*line, driver.Instant)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines == nil {
		s.lines, s.epoch, s.sweep = make(map[string]*line), time.Now(), minSweep
	}
	wall := time.Now()
	now := driver.Instant{Clock: wall.Sub(s.epoch), Wall: wall}
	l := s.lines[key]
	if l == nil {
		s.drop(now)
		l = &line{changed: make(chan struct{})}
		s.lines[key] = l
	}
	l.touched = now.Clock
	f(l, now)
}

// drop forgets idle lines once there are twice as many as after the last time,
// so that the cost of a call stays flat.
func (s *Store) drop(now driver.Instant) {
	if len(s.lines) < s.sweep {
		return
	}
	maps.DeleteFunc(s.lines, func(_ string, l *line) bool {
		l.Expire(now)
		return len(l.Entries) == 0 && len(l.Notices) == 0 && now.Clock-l.touched > idle
	})
	s.sweep = max(minSweep, 2*len(s.lines))
}

func (s *Store) keys(prefix string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(func(yield func(string) bool) {
		for key := range s.lines {
			if strings.HasPrefix(key, prefix) && !yield(key) {
				return
			}
		}
	})
}

// wake tells all who wait on l to look again. The store's mutex is held.
func (l *line) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// late reports a request whose sender has given up.
func late(ctx context.Context) error {
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		return fmt.Errorf("%w: it came after its sender's deadline", driver.ErrRefused)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", driver.ErrRefused, context.Cause(ctx))
	}
	return nil
}
