package drivertest_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
)

// A plain backend is the least that passes the suite: the one rule, a mutex
// around it and a way to wake. It is what mistakes are planted in.
type plain struct {
	*lines
	flaws *flaws
}

// lines is its store.
type lines struct {
	mu      sync.Mutex // never held across anything that waits
	epoch   time.Time
	byKey   map[string]*driver.Line // guarded by mu
	changed chan struct{}           // closed and replaced when room may have come; guarded by mu
}

// flaws are the mistakes that can be planted; the zero value is none.
type flaws struct {
	around  func(op string, l *driver.Line, c *driver.Claim, now *driver.Instant, do func() (*driver.Grant, *error))
	traits  func(driver.Traits) driver.Traits
	key     func(string) string                                  // what the store makes of a key
	prefix  func(key, prefix string) bool                        // instead of strings.HasPrefix
	silent  func(op string, l *driver.Line, c driver.Claim) bool // wakes nobody
	invalid bool                                                 // takes any claim
	late    bool                                                 // takes requests at any time
	deaf    bool                                                 // Wait does not look before it sleeps
	torn    bool                                                 // what a call reads and what it writes are two steps
	waiting bool                                                 // List yields those who wait, too
	shallow bool                                                 // Inspect does not count beyond its limit
}

func newLines() *lines {
	return &lines{epoch: time.Now(), byKey: make(map[string]*driver.Line), changed: make(chan struct{})}
}

// do runs f on the line of c.Key, and wakes those who wait.
func (p plain) do(op string, c driver.Claim, f func(*driver.Line, driver.Claim, driver.Instant) (driver.Grant, error)) (driver.Grant, error) {
	key := c.Key
	if p.flaws.key != nil {
		key = p.flaws.key(key)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.byKey[key]
	if l == nil {
		l = new(driver.Line)
		p.byKey[key] = l
	}
	if p.flaws.torn {
		read := *l
		read.Entries = append([]driver.Entry(nil), l.Entries...)
		p.mu.Unlock()
		time.Sleep(time.Microsecond)
		p.mu.Lock()
		*l = read
	}
	wall := time.Now()
	now := driver.Instant{Clock: wall.Sub(p.epoch), Wall: wall}
	silent := p.flaws.silent != nil && p.flaws.silent(op, l, c)
	var (
		g   driver.Grant
		err error
	)
	if p.flaws.around == nil {
		g, err = f(l, c, now)
	} else {
		p.flaws.around(op, l, &c, &now, func() (*driver.Grant, *error) {
			g, err = f(l, c, now)
			return &g, &err
		})
	}
	if !silent && op != "wait" && op != "inspect" {
		close(p.changed)
		p.changed = make(chan struct{})
	}
	return g, err
}

func (p plain) Acquire(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	if err := c.Validate(p.Traits()); err != nil && !p.flaws.invalid {
		return driver.Grant{}, err
	}
	if ctx.Err() != nil && !p.flaws.late {
		return driver.Grant{}, fmt.Errorf("%w: late", driver.ErrRefused)
	}
	return p.do("acquire", c, (*driver.Line).Acquire)
}

func (p plain) Wait(ctx context.Context, c driver.Claim, _ *driver.HeldError) error {
	for first := true; ; first = false {
		ready, left := false, time.Hour
		var changed chan struct{}
		p.do("wait", c, func(l *driver.Line, c driver.Claim, now driver.Instant) (driver.Grant, error) {
			ready, changed = l.Ready(c, now), p.changed
			if next, ok := l.NextExpiry(); ok {
				left = next - now.Clock
			}
			return driver.Grant{}, nil
		})
		if ready && !(first && p.flaws.deaf) {
			return nil
		}
		timer := time.NewTimer(left)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

func (p plain) Renew(_ context.Context, c driver.Claim) (driver.Grant, error) {
	return p.do("renew", c, (*driver.Line).Renew)
}

func (p plain) Release(_ context.Context, c driver.Claim) error {
	_, err := p.do("release", c, func(l *driver.Line, c driver.Claim, now driver.Instant) (driver.Grant, error) {
		return driver.Grant{}, l.Release(c, now)
	})
	return err
}

func (p plain) Revoke(_ context.Context, key, id string, n driver.Notice) error {
	_, err := p.do("revoke", driver.Claim{Key: key, ID: id}, func(l *driver.Line, c driver.Claim, now driver.Instant) (driver.Grant, error) {
		return driver.Grant{}, l.Revoke(c.ID, n, now)
	})
	return err
}

func (p plain) Inspect(_ context.Context, key string, limit int) (st driver.State, _ error) {
	p.do("inspect", driver.Claim{Key: key}, func(l *driver.Line, _ driver.Claim, now driver.Instant) (driver.Grant, error) {
		st = l.Inspect(limit, now)
		return driver.Grant{}, nil
	})
	if p.flaws.shallow {
		st.Waiting = 0
		for _, h := range st.Holders {
			if !h.Held {
				st.Waiting++
			}
		}
	}
	return st, nil
}

func (p plain) List(ctx context.Context, prefix string) iter.Seq2[driver.Holder, error] {
	begins := strings.HasPrefix
	if p.flaws.prefix != nil {
		begins = p.flaws.prefix
	}
	return func(yield func(driver.Holder, error) bool) {
		p.mu.Lock()
		var keys []string
		for key := range p.byKey {
			if begins(key, prefix) {
				keys = append(keys, key)
			}
		}
		p.mu.Unlock()
		for _, key := range keys {
			if ctx.Err() != nil {
				yield(driver.Holder{}, ctx.Err())
				return
			}
			st, _ := p.Inspect(ctx, key, driver.Unlimited)
			for _, h := range st.Holders {
				if (h.Held || p.flaws.waiting) && !yield(h, nil) {
					return
				}
			}
		}
	}
}

func (p plain) Traits() driver.Traits {
	t := driver.Traits{Name: "plain", Fencing: true, Durable: true, Fair: true, Counting: true, MinTTL: time.Millisecond, MaxTTL: 24 * time.Hour}
	if p.flaws.traits != nil {
		return p.flaws.traits(t)
	}
	return t
}

func (p plain) Close() error { return nil }

// harness runs the suite on plain backends with flaws. A store with amnesia
// does not survive a crash.
func harness(f *flaws, amnesia bool) drivertest.Harness {
	return drivertest.Harness{
		New: func(t *testing.T) drivertest.Store {
			store := newLines()
			return drivertest.Store{
				Connect: func() driver.Backend { return &slow{Backend: plain{store, f}} },
				Stall:   stall,
				Crash: func() {
					if amnesia {
						*store = *newLines()
					}
				},
			}
		},
		Wrap:   synctest.Test,
		TTL:    time.Second,
		Prompt: time.Millisecond,
	}
}

func TestPlainBackendConforms(t *testing.T) {
	drivertest.Run(t, harness(new(flaws), false))
}
