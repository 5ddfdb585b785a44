package pawl_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

// A slow store takes its time before and after each exchange, and loses some
// requests, some answers, and the patience of those who ask. It is not stopped
// by contexts, as a server is not.
func slow(inner driver.Backend, seed uint64) *faulty {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 2))
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	nap := func() { time.Sleep(time.Duration(draw(2000)) * time.Microsecond) }
	b := &faulty{Backend: inner}
	b.acquire = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
		nap()
		fate := draw(10)
		if fate == 0 {
			return driver.Grant{}, errDown // never arrived
		}
		g, err := detached(inner.Acquire)(ctx, c)
		nap()
		if fate == 1 {
			return driver.Grant{}, errDown // the answer was lost
		}
		return g, err
	}
	b.release = func(ctx context.Context, c driver.Claim) error {
		nap()
		fate := draw(10)
		if fate == 0 {
			return errDown
		}
		err := inner.Release(ctx, c)
		nap()
		if fate == 1 {
			return errDown
		}
		return err
	}
	return b
}

// However an acquire is cut short, at any moment and with any answer lost, it
// leaves no key, no place in line and, since the bubble ends, no goroutine.
// Cases B02, E01, E07, E08, T6b.
func TestACancelledAcquireLeavesNothing(t *testing.T) {
	const batches, batch = 100, 100
	var granted, refused atomic.Int32
	for seed := range uint64(batches) {
		synctest.Test(t, func(t *testing.T) {
			store := new(memory.Store)
			c := newClient(t, slow(memory.New(store), seed), nil)
			var inside [256]atomic.Int32
			var wg sync.WaitGroup
			for i := range batch {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(seed, uint64(i)))
					key := string(rune('a' + r.IntN(8)))
					time.Sleep(time.Duration(r.IntN(20_000)) * time.Microsecond)
					ctx, cancel := context.WithCancel(t.Context())
					stop := time.AfterFunc(time.Duration(r.IntN(15_000))*time.Microsecond, cancel)
					defer stop.Stop()
					defer cancel()
					if r.IntN(3) == 0 {
						ctx = after(t, time.Duration(r.IntN(15_000))*time.Microsecond)
					}
					get := c.Mutex(key).Acquire
					if r.IntN(4) == 0 {
						get = c.Mutex(key).TryAcquire
					}
					lease, err := get(ctx)
					if (lease == nil) == (err == nil) {
						t.Errorf("got lease %v and error %v, want exactly one", lease, err)
					}
					if err != nil {
						refused.Add(1)
						if lost := errors.Is(err, pawl.ErrLost); lost {
							t.Errorf("an acquire is said to be lost: %v", err)
						}
						return
					}
					granted.Add(1)
					if inside[key[0]].Add(1) != 1 {
						t.Error("two are inside")
					}
					time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
					inside[key[0]].Add(-1)
					lease.Release(ctx)
				})
			}
			wg.Wait()
			start := time.Now()
			if err := c.Close(); err != nil {
				t.Errorf("seed %d: close: %v", seed, err)
			}
			for key := 'a'; key < 'a'+8; key++ {
				wantFree(t, store, string(key))
			}
			if got := time.Since(start); got >= 5*time.Second {
				t.Errorf("seed %d: Close took %v", seed, got)
			}
		})
		if t.Failed() {
			return
		}
	}
	if granted.Load() < 500 || refused.Load() < 5000 {
		t.Errorf("%d granted, %d refused: the test has not tested much", granted.Load(), refused.Load())
	}
}

// A request whose connection broke may reach the store after the release that
// is to undo it. The store grants it then, and the claim is withdrawn once more
// when no request can arrive any longer.
func TestAReleaseThatOvertakesTheAcquireIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		b := &faulty{Backend: memory.New(store)}
		b.acquire = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			go func() {
				time.Sleep(2 * time.Second)
				if _, err := b.Backend.Acquire(ctx, c); err != nil { // within its deadline
					t.Errorf("the late request: %v", err)
				}
			}()
			return driver.Grant{}, errDown
		}
		b.acquire = detached(b.acquire)
		c := newClient(t, b, nil)
		if _, err := c.Mutex("k").TryAcquire(t.Context()); !errors.Is(err, errDown) {
			t.Fatalf("got %v, want the store's error", err)
		}
		time.Sleep(2500 * time.Millisecond)
		if st, _ := c.Inspect(t.Context(), "k"); len(st.Holders) != 1 {
			t.Errorf("got %d holders, want the late request's: the test has tested nothing", len(st.Holders))
		}
		if err := c.Close(); err != nil { // waits for the end of it
			t.Error(err)
		}
		wantFree(t, store, "k")
	})
}

// The same when a later attempt was granted meanwhile, and the lease is over
// again when the lost request arrives.
func TestALostRequestDoesNotOutliveTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		var attempts, ghosts atomic.Int32
		b := &faulty{Backend: memory.New(store)}
		b.acquire = detached(func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			if attempts.Add(1) > 1 {
				return b.Backend.Acquire(ctx, c)
			}
			go func() {
				time.Sleep(2 * time.Second)
				if _, err := b.Backend.Acquire(ctx, c); err == nil {
					ghosts.Add(1)
				}
			}()
			return driver.Grant{}, errDown
		})
		c := newClient(t, b, nil)
		other := newClient(t, memory.New(store), nil)
		defer other.Close()
		lease := acquire(t, c.Mutex("k"))
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		acquire(t, other.Mutex("k")).Release(t.Context()) // the store has forgotten the first
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if got := ghosts.Load(); got != 1 {
			t.Errorf("got %d late grants, want 1: the test has tested nothing", got)
		}
		wantFree(t, store, "k")
	})
}

// A client keeps nothing of a lease that is over.
// Cases O02, O04.
func TestALeaseThatIsOverIsForgotten(t *testing.T) {
	c := newClient(t, memory.New(nil), nil)
	defer c.Close()
	kept := acquire(t, c.Mutex("kept"))
	var gone []weak.Pointer[pawl.Lease]
	for range 100 {
		lease := acquire(t, c.Mutex("k"))
		gone = append(gone, weak.Make(lease))
		lease.Release(t.Context())
	}
	left := len(gone)
	for deadline := time.Now().Add(30 * time.Second); left > 0 && time.Now().Before(deadline); {
		runtime.GC()
		left = 0
		for _, p := range gone {
			if p.Value() != nil {
				left++
			}
		}
	}
	if left > 0 {
		t.Errorf("%d of %d leases that are over are still known", left, len(gone))
	}
	if !kept.Valid() {
		t.Error("the one that is held was lost")
	}
}

// A lease whose handle nobody has any more is renewed: that says nothing about the
// work. It ends with its client, or with MaxHold.
// Case O05.
func TestADroppedLeaseIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		forget := func(c *pawl.Client) { acquire(t, c.Mutex("k")) }
		held := func(when string, want bool) {
			t.Helper()
			for range 3 {
				runtime.GC()
			}
			synctest.Wait()
			st, err := memory.New(store).Inspect(t.Context(), "k", 1)
			if got := len(st.Holders) == 1 && st.Holders[0].Held; err != nil || got != want {
				t.Errorf("%s: got held %v, %v, want %v", when, got, err, want)
			}
		}
		c := newClient(t, memory.New(store), nil)
		forget(c)
		held("at first", true)
		for range 6 {
			time.Sleep(10 * time.Second)
			held("while its client lives", true)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		held("after Close", false)

		c = newClient(t, memory.New(store), &pawl.Options{MaxHold: time.Minute})
		defer c.Close()
		forget(c)
		time.Sleep(59 * time.Second)
		held("before MaxHold", true)
		time.Sleep(12 * time.Second) // MaxHold, and the TTL that nobody renews
		held("after MaxHold", false)
	})
}

// detached passes on the deadline of a request and not its cancellation, as a
// network does.
func detached(f func(context.Context, driver.Claim) (driver.Grant, error)) func(context.Context, driver.Claim) (driver.Grant, error) {
	return func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
		d, _ := ctx.Deadline()
		ctx, cancel := context.WithDeadline(context.Background(), d)
		context.AfterFunc(ctx, cancel)
		return f(ctx, c)
	}
}
