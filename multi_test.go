package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

func acquireMulti(t *testing.T, m *pawl.Multi) *pawl.MultiLease {
	t.Helper()
	lease, err := m.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// The order in which locks are named is not that in which they are acquired, and
// so nobody waits for somebody who waits for him, whatever kinds are mixed.
func TestOppositeOrdersDoNotDeadlock(t *testing.T) { // L01
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		a, b := newClient(t, memory.New(store), nil), newClient(t, memory.New(store), nil)
		defer a.Close()
		defer b.Close()
		var inside sync.Map
		var all sync.WaitGroup
		for i := range 6 {
			c := []*pawl.Client{a, b}[i%2]
			locks := []*pawl.Lock{c.Mutex("x"), c.WriteLock("y"), c.Semaphore("z", 2)}
			if i%2 == 1 {
				locks = []*pawl.Lock{c.Semaphore("z", 2), c.WriteLock("y"), c.Mutex("x")}
			}
			if i >= 4 {
				locks[1] = c.ReadLock("y")
			}
			all.Go(func() {
				for range 50 {
					lease, err := c.Multi(locks...).Acquire(t.Context())
					if err != nil {
						t.Errorf("acquire: %v", err)
						return
					}
					if other, taken := inside.LoadOrStore("x", i); taken {
						t.Errorf("%d holds while %v does", i, other)
					}
					time.Sleep(time.Millisecond)
					inside.Delete("x")
					if err := lease.Release(t.Context()); err != nil {
						t.Errorf("release: %v", err)
					}
				}
			})
		}
		all.Wait()
		for _, key := range []string{"x", "y", "z"} {
			wantFree(t, store, key)
		}
	})
}

// If the last can't be had the others are free when the caller hears of it, and
// a MinHold does not keep what was never used.
func TestAFailureOnTheLastMemberFreesTheFirst(t *testing.T) { // L02
	definite := fmt.Errorf("%w: loading", driver.ErrRefused)
	for name, fails := range map[string]func(ctx context.Context) error{
		"refused": func(context.Context) error { return definite },
		"unknown": func(context.Context) error { return errDown },
		"silence": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"held":    nil,
	} {
		for _, try := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/try=%v", name, try), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := new(memory.Store)
					b := &faulty{Backend: memory.New(store)}
					c := newClient(t, b, &pawl.Options{MinHold: time.Hour})
					other := newClient(t, memory.New(store), nil)
					if fails != nil {
						b.acquire = func(ctx context.Context, claim driver.Claim) (driver.Grant, error) {
							if claim.Key == "y" {
								return driver.Grant{}, fails(ctx)
							}
							return b.Backend.Acquire(ctx, claim)
						}
					} else {
						acquire(t, other.Mutex("y"))
					}
					m := c.Multi(c.Mutex("y"), c.Mutex("x"))
					lease, err := (*pawl.MultiLease)(nil), error(nil)
					if try {
						lease, err = m.TryAcquire(t.Context())
					} else {
						lease, err = m.Acquire(after(t, time.Second))
					}
					if err == nil || lease != nil {
						t.Fatal("granted without y")
					}
					var e *pawl.Error
					if !errors.As(err, &e) || e.Key != "y" {
						t.Errorf("got %v, want an error that names y", err)
					}
					if fails == nil && !errors.Is(err, pawl.ErrHeld) {
						t.Errorf("got %v, want who holds y", err)
					}
					if !try {
						synctest.Wait() // its caller's time is over: he is not kept waiting
					}
					wantFree(t, store, "x")
					other.Close()
					c.Close()
					wantFree(t, store, "y")
				})
			})
		}
	}
}

// The whole ends with one of its members, says which, and holds the others until
// the work has stopped.
func TestTheLossOfAMemberEndsTheWhole(t *testing.T) { // L04
	for _, key := range []string{"x", "y", "z"} {
		synctest.Test(t, func(t *testing.T) {
			store := new(memory.Store)
			c := newClient(t, memory.New(store), nil)
			defer c.Close()
			lease := acquireMulti(t, c.Multi(c.Mutex("x"), c.Mutex("y"), c.ReadLock("z")))
			if err := c.ForceRelease(t.Context(), key, lease.Lease(key).Holder(), "hangs"); err != nil {
				t.Fatal(err)
			}
			if !lease.Valid() {
				t.Error("it is not valid before anyone could know")
			}
			<-lease.Context().Done()
			for _, err := range []error{context.Cause(lease.Context()), lease.Check(0), lease.Release(t.Context()), lease.Release(t.Context())} {
				var e *pawl.Error
				if !errors.As(err, &e) || !errors.Is(err, pawl.ErrLost) || e.Key != key {
					t.Errorf("got %v, want that %s was lost", err, key)
				}
			}
			for _, free := range []string{"x", "y", "z"} {
				wantFree(t, store, free)
			}
		})
	}
}

func TestTheOthersAreHeldUntilTheWorkHasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(nil), nil)
		defer c.Close()
		lease := acquireMulti(t, c.Multi(c.Mutex("x"), c.Mutex("y")))
		if err := c.ForceRelease(t.Context(), "y", lease.Lease("y").Holder(), ""); err != nil {
			t.Fatal(err)
		}
		<-lease.Context().Done()
		time.Sleep(time.Minute)
		if _, err := c.Mutex("x").TryAcquire(t.Context()); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("x, before the release: got %v, want ErrHeld", err)
		}
		lease.Release(t.Context())
		again, err := c.Multi(c.Mutex("x"), c.Mutex("y")).TryAcquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The deadline is for all of them together.
func TestOneDeadlineForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		other := newClient(t, memory.New(store), nil)
		defer other.Close()
		defer c.Close()
		x, y := acquire(t, other.Mutex("x")), acquire(t, other.Mutex("y"))
		time.AfterFunc(5*time.Second, func() { x.Release(context.Background()) })
		time.AfterFunc(8*time.Second, func() { y.Release(context.Background()) })
		began := time.Now()
		_, err := c.Multi(c.Mutex("x"), c.Mutex("y")).Acquire(after(t, 6*time.Second))
		if took := time.Since(began); took != 6*time.Second || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("got %v after %v, want the deadline after 6s, and that y is held", err, took)
		}
		synctest.Wait()
		wantFree(t, store, "x")
		lease, err := c.Multi(c.Mutex("x"), c.Mutex("y")).Acquire(after(t, 6*time.Second))
		if took := time.Since(began); took != 8*time.Second || err != nil {
			t.Fatalf("got %v after %v, want it granted after 8s", err, took)
		}
		lease.Release(t.Context())
	})
}

// What is lost while the others are awaited is acquired again: what is returned
// is held, all of it.
func TestAMemberLostInTheWaitIsAcquiredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		other := newClient(t, memory.New(store), nil)
		defer other.Close()
		defer c.Close()
		y := acquire(t, other.Mutex("y"))
		granted := make(chan *pawl.MultiLease, 1)
		go func() { granted <- acquireMulti(t, c.Multi(c.Mutex("x"), c.Mutex("y"))) }()
		synctest.Wait()
		st, err := other.Inspect(t.Context(), "x")
		if err != nil || len(st.Holders) != 1 {
			t.Fatalf("x: got %+v, %v, want one holder", st, err)
		}
		first := st.Holders[0]
		if err := other.ForceRelease(t.Context(), "x", first.ID, "wanted elsewhere"); err != nil {
			t.Fatal(err)
		}
		x := acquire(t, other.Mutex("x"))
		time.Sleep(10 * time.Second) // it has been told
		y.Release(t.Context())
		synctest.Wait()
		select {
		case <-granted:
			t.Fatal("granted while x is held by another")
		default:
		}
		x.Release(t.Context())
		lease := <-granted
		if !lease.Valid() || lease.Token("x") <= first.Grant.Token || lease.Lease("x").Holder() == first.ID {
			t.Errorf("got valid %v and token %d, want a hold that is newer than %d", lease.Valid(), lease.Token("x"), first.Grant.Token)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Each key has its own token, and the context of the whole is within all leases.
func TestAMultiLeaseIsWithinEachOfItsLeases(t *testing.T) { // L05
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(nil), nil)
		defer c.Close()
		for range 3 { // so that the two keys differ in their tokens
			acquire(t, c.Mutex("x")).Release(t.Context())
			time.Sleep(time.Millisecond)
		}
		err := c.Multi(c.Mutex("y"), c.Mutex("x")).Do(t.Context(), func(ctx context.Context, lease *pawl.MultiLease) error {
			leases := lease.Leases()
			if len(leases) != 2 || leases[0].Key() != "x" || leases[1].Key() != "y" {
				t.Errorf("leases: got %v, want x and y", leases)
			}
			for _, l := range leases {
				if lease.Token(l.Key()) != l.Token() || l.Token() == 0 {
					t.Errorf("token of %s: got %d, want %d", l.Key(), lease.Token(l.Key()), l.Token())
				}
				if _, err := c.Mutex(l.Key()).Acquire(ctx); !errors.Is(err, pawl.ErrDeadlock) {
					t.Errorf("%s within itself: got %v, want ErrDeadlock", l.Key(), err)
				}
				if _, err := c.Multi(c.Mutex("a"), c.Mutex(l.Key())).Acquire(ctx); !errors.Is(err, pawl.ErrDeadlock) {
					t.Errorf("%s and another within itself: got %v, want ErrDeadlock", l.Key(), err)
				}
				if lease.Deadline().After(l.Deadline()) {
					t.Errorf("deadline: got %v, want no later than that of %s, %v", lease.Deadline(), l.Key(), l.Deadline())
				}
			}
			if lease.Lease("z") != nil || lease.Token("z") != 0 {
				t.Error("z is held, which nobody acquired")
			}
			if err := lease.Check(time.Hour); err == nil {
				t.Error("Check of an hour: got nil, with 9s left")
			}
			return errWork
		})
		if !errors.Is(err, errWork) {
			t.Errorf("got %v, want the error of the work", err)
		}
	})
}

func TestAMultiOfWhatCanNotBeHeldTogether(t *testing.T) { // L05
	b := &faulty{Backend: memory.New(nil)}
	c, other := newClient(t, b, nil), newClient(t, b, nil)
	b.acquire = func(context.Context, driver.Claim) (driver.Grant, error) {
		t.Error("an attempt was made")
		return driver.Grant{}, errDown
	}
	for name, m := range map[string]*pawl.Multi{
		"no locks":       c.Multi(),
		"a key twice":    c.Multi(c.ReadLock("x"), c.Mutex("y"), c.Mutex("x")),
		"another client": c.Multi(c.Mutex("x"), other.Mutex("y")),
	} {
		_, err := m.Acquire(t.Context())
		if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "Multi") {
			t.Errorf("%s: got %v, want ErrInvalid of Multi", name, err)
		}
		wantOneError(t, err, "acquire")
		if _, again := m.TryAcquire(t.Context()); again == nil || again.Error() != err.Error() {
			t.Errorf("%s: TryAcquire got %v, want %v", name, again, err)
		}
	}
	c.Close()
	other.Close()
}

// However an acquire of several is cut short, and whatever answers are lost, it
// leaves nothing on any of the keys.
func TestACancelledMultiLeavesNothing(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			store := new(memory.Store)
			c := newClient(t, slow(memory.New(store), seed), nil)
			keys := []string{"a", "b", "c", "d"}
			var wg sync.WaitGroup
			for i := range 30 {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(seed, uint64(i)))
					var locks []*pawl.Lock
					for _, k := range r.Perm(len(keys))[:1+r.IntN(3)] {
						locks = append(locks, c.Weighted(keys[k], 1+r.IntN(3), 3))
					}
					time.Sleep(time.Duration(r.IntN(20_000)) * time.Microsecond)
					ctx, cancel := context.WithCancel(t.Context())
					stop := time.AfterFunc(time.Duration(r.IntN(30_000))*time.Microsecond, cancel)
					defer stop.Stop()
					defer cancel()
					lease, err := c.Multi(locks...).Acquire(ctx)
					if (lease == nil) == (err == nil) {
						t.Errorf("got lease %v and error %v, want one of them", lease, err)
					}
					if lease != nil {
						time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond)
						lease.Release(ctx)
					}
				})
			}
			wg.Wait()
			c.Close()
			for _, key := range keys {
				wantFree(t, store, key)
			}
		})
	}
}

// Closing the client ends the whole, and an acquire under way.
func TestCloseEndsAMulti(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		held := acquireMulti(t, c.Multi(c.Mutex("x"), c.Mutex("y")))
		waits := make(chan error, 1)
		go func() {
			_, err := c.Multi(c.Mutex("a"), c.Mutex("y")).Acquire(t.Context())
			waits <- err
		}()
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := <-waits; !errors.Is(err, pawl.ErrClosed) {
			t.Errorf("who waited: got %v, want ErrClosed", err)
		}
		<-held.Context().Done()
		var lost *pawl.LostError
		if err := held.Release(t.Context()); !errors.As(err, &lost) || lost.Reason != driver.Closed {
			t.Errorf("release: got %v, want closed", err)
		}
		for _, key := range []string{"a", "x", "y"} {
			wantFree(t, store, key)
		}
	})
}
