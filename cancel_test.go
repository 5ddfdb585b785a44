package pawl_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// The moment of the grant is that of the cancellation: either is right, both or
// none is not.
func TestGrantedAtTheInstantOfCancellation(t *testing.T) {
	leases, failures := 0, 0
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			store := new(memory.Store)
			b := &faulty{Backend: memory.New(store)}
			b.acquire = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
				g, err := b.Backend.Acquire(ctx, c)
				time.Sleep(time.Second)
				return g, err
			}
			c := newClient(t, b, nil)
			defer c.Close()
			lease, err := c.Mutex("k").Acquire(after(t, time.Second))
			synctest.Wait()
			if (lease == nil) == (err == nil) {
				t.Fatalf("got lease %v and error %v, want exactly one", lease, err)
			}
			if err != nil {
				failures++
				wantFree(t, store, "k")
				return
			}
			leases++
			if !lease.Valid() {
				t.Error("the lease is not valid")
			}
			lease.Release(t.Context())
			wantFree(t, store, "k")
		})
	}
	t.Logf("%d leases, %d errors", leases, failures)
}

// An attempt that the store refuses because it came late says nothing about the
// place in line that an attempt before it has taken, nor about who holds.
func TestALateAttemptDoesNotHideThePlaceInLine(t *testing.T) {
	for range 50 { // the deadlines of the attempt and of the wait are the same moment
		synctest.Test(t, func(t *testing.T) {
			store := new(memory.Store)
			holder := newClient(t, memory.New(store), nil)
			defer holder.Close()
			lease := acquire(t, holder.Mutex("k"))
			b := &faulty{Backend: memory.New(store)}
			var attempts atomic.Int32
			b.acquire = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
				if attempts.Add(1) > 1 {
					<-ctx.Done()
					time.Sleep(time.Millisecond)
				}
				return b.Backend.Acquire(ctx, c)
			}
			c := newClient(t, b, nil)
			_, err := c.Mutex("k").Acquire(after(t, 4*time.Second))
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, pawl.ErrHeld) {
				t.Errorf("got %v, want the deadline and who holds", err)
			}
			if got := attempts.Load(); got != 2 {
				t.Errorf("got %d attempts, want 2", got)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			lease.Release(t.Context())
			wantFree(t, store, "k")
		})
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

// Cancelling returns at once, whatever the backend does with its context.
func TestCancellingDoesNotWaitForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		stuck := make(chan struct{})
		b := &faulty{Backend: memory.New(store)}
		b.acquire = func(_ context.Context, c driver.Claim) (driver.Grant, error) {
			<-stuck
			return b.Backend.Acquire(context.Background(), c) // a store that knows no deadlines
		}
		var released recorder
		b.release = func(ctx context.Context, c driver.Claim) error {
			released.note(c)
			return b.Backend.Release(ctx, c)
		}
		c := newClient(t, b, nil)
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(200*time.Millisecond, cancel)
		_, err := c.Mutex("k").Acquire(ctx)
		if got := time.Since(start); got != 200*time.Millisecond {
			t.Errorf("returned after %v, want 200ms", got)
		}
		if !errors.Is(err, context.Canceled) || errors.Is(err, pawl.ErrHeld) {
			t.Errorf("got %v, want the cancellation and nothing about a holder", err)
		}
		time.Sleep(time.Millisecond)
		close(stuck) // granted after all
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantFree(t, store, "k")
		if got := released.all(); len(got) != 1 || got[0].Grant.Token == 0 {
			t.Errorf("got releases %+v, want one, of what was granted", got)
		}
	})
}

// The context of the wait has no say once the lock is granted.
func TestTheWaitDoesNotOwnTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(nil), nil)
		defer c.Close()
		type key struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "v"), time.Second)
		lease, err := c.Mutex("k").Acquire(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if !lease.Valid() || lease.Context().Err() != nil {
			t.Errorf("the lease ended with the wait: %v", context.Cause(lease.Context()))
		}
		if got := lease.Context().Value(key{}); got != "v" {
			t.Errorf("value: got %v, want v", got)
		}
		if _, ok := lease.Context().Deadline(); ok {
			t.Error("the lease's context has the deadline of the wait")
		}
		if err := lease.Release(ctx); err != nil { // cancelled long ago
			t.Error(err)
		}
	})
}

// Who cancels with a cause finds it in the error, beside the error of package
// context.
func TestTheCauseOfACancellationIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(nil), nil)
		defer c.Close()
		lease := acquire(t, c.Mutex("k"))
		defer lease.Release(t.Context())
		errShift := errors.New("the shift is over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errShift)
		defer cancel()
		_, err := c.Mutex("k").Acquire(ctx)
		for _, want := range []error{errShift, context.DeadlineExceeded, pawl.ErrHeld} {
			if !errors.Is(err, want) {
				t.Errorf("got %v, want it to be %v", err, want)
			}
		}
		if _, err = c.Mutex("k").TryAcquire(ctx); !errors.Is(err, errShift) || errors.Is(err, pawl.ErrHeld) {
			t.Errorf("try with a dead context: got %v, want its cause alone", err)
		}
	})
}
