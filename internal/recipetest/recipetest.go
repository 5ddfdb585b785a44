// Package recipetest tests the recipes of pawl on a store: what somebody builds
// from locks, as package drivertest tests what locks are built from. Each
// backend runs it, so that a recipe is known to hold wherever its store can.
//
// What a store refuses to keep is tested too: the recipe has to say
// ErrUnsupported and do nothing, rather than nearly work.
package recipetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
)

// A Harness is a store to run the recipes on.
type Harness struct {
	// New readies a store for t, new or one that other tests use at the same
	// time, and returns a func that connects to it: each call is another
	// process. The suite closes what it gets.
	New func(t *testing.T) (connect func() driver.Backend)

	// Wrap runs one check, in a bubble say. Without it the recipes are tested
	// concurrently, on the real clock.
	Wrap func(t *testing.T, check func(*testing.T))

	// TTL is that of leases which are left to end, and sets the pace of the
	// suite. All others have one that a machine which stands still for a while
	// does not outlast. Default 2s.
	TTL time.Duration
}

// Run tests the recipes on the store of h.
func Run(t *testing.T, h Harness) {
	if h.TTL == 0 {
		h.TTL = 2 * time.Second
	}
	var running sync.WaitGroup
	defer running.Wait()
	for _, r := range recipes() {
		if h.Wrap != nil {
			t.Run(r.name, func(t *testing.T) { r.run(t, h) })
			continue
		}
		running.Go(func() { // most of the time is spent asleep
			t.Run(r.name, func(t *testing.T) { r.run(t, h) })
		})
	}
}

// A recipe is something built from locks, and how it is tested.
type recipe struct {
	name   string
	shares bool // of a kind that a store without shares refuses
	checks []check
}

type check struct {
	name string
	run  func(*stage)
}

func recipes() []recipe {
	return []recipe{
		{"Semaphore", true, semaphore()},
		{"ReadersAndWriters", true, readersAndWriters()},
		{"Weighted", true, weighted()},
		{"Downgrade", true, downgrade()},
		{"Multi", false, multi()},
		{"Election", false, election()},
		{"Reentrant", false, reentrant()},
		{"Once", false, once()},
		{"AskRelease", false, askRelease()},
		{"ForceRelease", false, forceRelease()},
		{"Grace", false, grace()},
	}
}

func (r recipe) run(t *testing.T, h Harness) {
	for _, c := range r.checks {
		t.Run(c.name, func(t *testing.T) {
			run := func(t *testing.T) {
				s := newStage(t, h)
				if r.shares && s.refusesShares() {
					return
				}
				c.run(s)
			}
			if h.Wrap == nil {
				run(t)
				return
			}
			h.Wrap(t, run)
		})
	}
}

// A stage is where one check takes place: clients on one store.
type stage struct {
	*testing.T
	connect func() driver.Backend
	ttl     time.Duration
	ctx     context.Context // ends long after everything should have come
	prefix  string
	traits  driver.Traits
	bubble  bool
	a, b    *pawl.Client // of two processes
}

// patience is for what has to come, however slow the machine is.
const patience = time.Minute

var stages atomic.Int64

func newStage(t *testing.T, h Harness) *stage {
	s := &stage{T: t, connect: h.New(t), ttl: h.TTL, bubble: h.Wrap != nil}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	s.ctx = ctx
	s.prefix = fmt.Sprintf("%s#%d/", t.Name(), stages.Add(1))
	s.a, s.b = s.client(&pawl.Options{Label: "a"}), s.client(&pawl.Options{Label: "b"})
	return s
}

// key returns a key that no other check uses.
func (s *stage) key(name string) string { return s.prefix + name }

// client returns a client of a process of its own. Its leases last long, unless
// opts says otherwise, and are renewed often: notices come with renewals.
func (s *stage) client(opts *pawl.Options) *pawl.Client {
	s.Helper()
	if opts.TTL == 0 {
		opts.TTL, opts.RenewEvery = 20*time.Second, 250*time.Millisecond
	}
	c, _ := s.severable(opts)
	return c
}

// severable returns a client with the TTL of the suite, unless opts has another,
// and the line between it and the store.
func (s *stage) severable(opts *pawl.Options) (*pawl.Client, *wire) {
	s.Helper()
	if opts.TTL == 0 {
		opts.TTL = s.ttl
	}
	b := &wire{Backend: s.connect()}
	s.traits = b.Traits()
	c, err := pawl.New(b, opts)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := errors.Join(c.Close(), b.Backend.Close()); err != nil && !b.cut.Load() {
			s.Errorf("close of %s: %v", opts.Label, err)
		}
	})
	return c, b
}

// refusesShares reports whether the store keeps exclusive claims only, having
// checked that it says so.
func (s *stage) refusesShares() bool {
	s.Helper()
	_, err := s.a.ReadLock(s.key("probe")).TryAcquire(s.ctx)
	if !errors.Is(err, pawl.ErrUnsupported) {
		return false
	}
	if s.traits.Counting {
		s.Errorf("the store claims to count, and refuses a share: %v", err)
	}
	if _, err := s.a.Semaphore(s.key("probe"), 2).TryAcquire(s.ctx); !errors.Is(err, pawl.ErrUnsupported) {
		s.Errorf("a permit: got %v, want ErrUnsupported as a reader gets", err)
	}
	s.empty(s.key("probe"))
	return true
}

func (s *stage) acquire(l *pawl.Lock) *pawl.Lease {
	s.Helper()
	lease, err := l.Acquire(s.ctx)
	if err != nil {
		s.Fatalf("acquire: %v", err)
	}
	return lease
}

func (s *stage) refuse(l *pawl.Lock, why string) {
	s.Helper()
	if lease, err := l.TryAcquire(s.ctx); !errors.Is(err, pawl.ErrHeld) {
		s.Errorf("%s: got %v, want ErrHeld", why, err)
		if err == nil {
			s.release(lease)
		}
	}
}

func (s *stage) release(lease *pawl.Lease) {
	s.Helper()
	if err := lease.Release(s.ctx); err != nil {
		s.Errorf("release: %v", err)
	}
}

// empty checks that nobody holds key, or waits for it.
func (s *stage) empty(key string) {
	s.Helper()
	s.eventually("no claim left on "+key, func() bool {
		st, err := s.a.Inspect(s.ctx, key)
		return err == nil && len(st.Holders) == 0
	})
}

// waiting returns once n claims wait for key, where the store has them in line.
func (s *stage) waiting(key string, n int) {
	s.Helper()
	if !s.traits.Fair {
		return
	}
	s.eventually(fmt.Sprintf("%d claims in line", n), func() bool {
		st, err := s.a.Inspect(s.ctx, key)
		return err == nil && st.Waiting == n
	})
}

func (s *stage) eventually(what string, cond func() bool) {
	s.Helper()
	for !cond() {
		if s.ctx.Err() != nil {
			s.Fatalf("waited %v in vain for: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// receive returns what comes on ch.
func receive[T any](s *stage, ch <-chan T, what string) T {
	s.Helper()
	select {
	case v := <-ch:
		return v
	case <-s.ctx.Done():
		s.Fatalf("waited %v in vain for: %s", patience, what)
		panic("not reached")
	}
}

// A got is what became of an acquire.
type got struct {
	who   string
	lease *pawl.Lease
	err   error
	at    time.Time
}

// start acquires l in the background, as who.
func (s *stage) start(who string, l *pawl.Lock, to chan<- got) {
	go func() {
		lease, err := l.Acquire(s.ctx)
		to <- got{who, lease, err, time.Now()}
	}()
}

// next returns the acquire that is granted next.
func (s *stage) next(from <-chan got, want string) *pawl.Lease {
	s.Helper()
	g := receive(s, from, "the grant of "+want)
	if g.err != nil || g.who != want {
		s.Fatalf("next: got %s, error %v, want %s", g.who, g.err, want)
	}
	return g.lease
}

// errStalled: a lease ended that should have been renewed, be it that the machine
// stood still.
var errStalled = errors.New("not renewed in time")

// renewed runs f with a client whose TTL is short, to see whether leases outlive
// it. On the real clock f may be stalled: it is then repeated at a slower pace.
func (s *stage) renewed(f func(c *pawl.Client, ttl time.Duration) error) {
	s.Helper()
	for ttl := s.ttl; ; ttl *= 2 {
		err := f(s.client(&pawl.Options{Label: "renews", TTL: ttl}), ttl)
		switch {
		case err == nil:
			return
		case !errors.Is(err, errStalled) || ttl > 4*s.ttl || s.bubble:
			s.Errorf("with a TTL of %v: %v", ttl, err)
			return
		}
		s.Logf("with a TTL of %v: %v; again", ttl, err)
	}
}

// notBefore checks that at is no sooner than d after start.
func (s *stage) notBefore(at, start time.Time, d time.Duration, what string) {
	s.Helper()
	const rounding = 2 * time.Millisecond // stores count in milliseconds
	if took := at.Sub(start); took < d-rounding {
		s.Errorf("%s: after %v, want no sooner than %v", what, took, d)
	}
}

// A wire is the line between one client and the store.
type wire struct {
	driver.Backend
	cut atomic.Bool // nothing gets through any more
}

var errCut = errors.New("the line to the store is cut")

func (w *wire) Acquire(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	if w.cut.Load() {
		return driver.Grant{}, errCut
	}
	return w.Backend.Acquire(ctx, c)
}

func (w *wire) Renew(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	if w.cut.Load() {
		return driver.Grant{}, errCut
	}
	return w.Backend.Renew(ctx, c)
}

func (w *wire) Release(ctx context.Context, c driver.Claim) error {
	if w.cut.Load() {
		return errCut
	}
	return w.Backend.Release(ctx, c)
}
