package pawl_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

// A waiter whose context ends says so, and who was in the way, at that moment
// and not before.
// Cases D10, E01, T9.
func TestAcquireWaitsItsFullTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		holder := newClient(t, memory.New(store), &pawl.Options{Label: "holder"})
		defer holder.Close()
		waiter := newClient(t, memory.New(store), nil)
		defer waiter.Close()
		lease := acquire(t, holder.Mutex("k"))

		start := time.Now()
		_, err := waiter.Mutex("k").Acquire(after(t, time.Minute))
		if got, want := time.Since(start), time.Minute; got != want {
			t.Errorf("gave up after %v, want %v", got, want)
		}
		var held *pawl.HeldError
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &held) || held.Holder.Label != "holder" {
			t.Errorf("got %v, want the deadline joined with a HeldError that names the holder", err)
		}
		wantOneError(t, err, "acquire")
		synctest.Wait()
		if st, err := waiter.Inspect(t.Context(), "k"); err != nil || st.Waiting != 0 {
			t.Errorf("after the wait: got %d in line, %v, want none", st.Waiting, err)
		}
		lease.Release(t.Context())
		synctest.Wait()
		wantFree(t, store, "k")
	})
}

// Case E04.
func TestReleaseWakesTheFirstInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(nil), nil)
		defer c.Close()
		lease := acquire(t, c.Mutex("k"))
		start := time.Now()
		var order []int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				time.Sleep(time.Duration(i+1) * time.Millisecond)
				next := acquire(t, c.Mutex("k"))
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				next.Release(t.Context())
			})
		}
		time.Sleep(time.Second)
		lease.Release(t.Context())
		wg.Wait()
		if got := time.Since(start); got != time.Second {
			t.Errorf("the last came after %v, want 1s: at once", got)
		}
		for i, got := range order {
			if got != i {
				t.Fatalf("order: got %v, want that of arrival", order)
			}
		}
	})
}

// A wait of an hour, with clocks of two time zones, ends with a lease as long as
// any: it counts from the attempt that was granted. Who came first is first.
// Cases A10, D10, E05, I04, T9.
func TestALongWaitEndsWithAWholeLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		client := func(hours int) *pawl.Client {
			return newClient(t, memory.New(store), &pawl.Options{Clock: zone{time.FixedZone("", hours*3600)}})
		}
		holder, far, near := client(0), client(9), client(-9)
		defer holder.Close()
		defer far.Close()
		defer near.Close()
		lease := acquire(t, holder.Mutex("k"))
		start := time.Now()
		var wg sync.WaitGroup
		for i, c := range []*pawl.Client{far, near} {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Second) // far comes first
				next := acquire(t, c.Mutex("k"))
				if got, want := time.Since(start), time.Hour+time.Duration(i)*time.Minute; got != want {
					t.Errorf("number %d: granted after %v, want %v", i, got, want)
				}
				if got, want := time.Until(next.Deadline()), 8898*time.Millisecond; got != want {
					t.Errorf("number %d: the lease lasts %v, want %v", i, got, want)
				}
				time.Sleep(time.Minute)
				if err := next.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Hour)
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
}

// A zone is the clock of a machine in another time zone.
type zone struct{ *time.Location }

func (z zone) Now() time.Time     { return time.Now().In(z.Location) }
func (zone) Slept() time.Duration { return 0 }

// A waiter that was woken and beaten to it goes on waiting.
// Case D05.
func TestAWaiterThatWasBeatenWaitsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int32
		b := &faulty{Backend: memory.New(nil)}
		b.acquire = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			if attempts.Add(1) < 4 {
				return driver.Grant{}, &driver.HeldError{Place: 1, Left: time.Hour}
			}
			return b.Backend.Acquire(ctx, c)
		}
		b.wait = func(context.Context, driver.Claim, *driver.HeldError) error {
			time.Sleep(time.Second)
			return nil
		}
		c := newClient(t, b, nil)
		defer c.Close()
		start := time.Now()
		lease := acquire(t, c.Mutex("k"))
		if got, want := time.Since(start), 3*time.Second; got != want {
			t.Errorf("granted after %v, want %v", got, want)
		}
		lease.Release(t.Context())
	})
}

// Neither a backend that can't wait nor one that wakes for nothing makes a
// waiter spin.
func TestAcquireDoesNotSpin(t *testing.T) {
	for name, wait := range map[string]func(context.Context) error{
		"wait fails":     func(context.Context) error { return errDown },
		"wakes too soon": func(context.Context) error { return nil },
		"sleeps forever": func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Hour); return nil },
		"waits":          func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
	} {
		for bare, answer := range map[string]error{"HeldError": &driver.HeldError{}, "ErrHeld": driver.ErrHeld} {
			synctest.Test(t, func(t *testing.T) {
				var attempts atomic.Int32
				b := &faulty{Backend: memory.New(nil)}
				b.acquire = func(context.Context, driver.Claim) (driver.Grant, error) {
					attempts.Add(1)
					return driver.Grant{}, answer
				}
				b.wait = func(ctx context.Context, _ driver.Claim, _ *driver.HeldError) error { return wait(ctx) }
				c := newClient(t, b, nil)
				defer c.Close()
				start := time.Now()
				_, err := c.Mutex("k").Acquire(after(t, 20*time.Second))
				if got := time.Since(start); got != 20*time.Second {
					t.Errorf("%s, %s: gave up after %v, want 20s", name, bare, got)
				}
				if !errors.Is(err, pawl.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s, %s: got %v, want held and the deadline", name, bare, err)
				}
				// A lost wake-up costs a third of the TTL.
				if n := attempts.Load(); n < 6 || n > 4000 {
					t.Errorf("%s, %s: %d attempts in 20s, want 6 to 4000", name, bare, n)
				}
				time.Sleep(2 * time.Hour) // until the last Wait has come back
			})
		}
	}
}

// Cases J08, T5.
func TestTryAcquireMakesOneAttempt(t *testing.T) {
	for _, answer := range []error{
		&driver.HeldError{}, driver.ErrRefused, driver.ErrUnsupported, driver.ErrInvalid, driver.ErrLost, errDown,
	} {
		synctest.Test(t, func(t *testing.T) {
			attempts, released := 0, make(chan driver.Claim, 10)
			b := &faulty{Backend: memory.New(nil)}
			b.acquire = func(_ context.Context, c driver.Claim) (driver.Grant, error) {
				attempts++
				if c.Queue {
					t.Error("TryAcquire asks for a place in line")
				}
				return driver.Grant{}, answer
			}
			b.release = func(_ context.Context, c driver.Claim) error { released <- c; return nil }
			c := newClient(t, b, nil)
			start := time.Now()
			_, err := c.Mutex("k").TryAcquire(t.Context())
			if attempts != 1 || time.Since(start) != 0 {
				t.Errorf("%v: %d attempts in %v, want 1 at once", answer, attempts, time.Since(start))
			}
			if !errors.Is(err, answer) {
				t.Errorf("got %v, want %v", err, answer)
			}
			wantOneError(t, err, "acquire")
			c.Close()
			unknown := answer == errDown
			if got := len(released) > 0; unknown && !got {
				t.Errorf("%v: outcome unknown, and the claim was not withdrawn", answer)
			}
			if unknown && errors.Is(err, pawl.ErrHeld) {
				t.Errorf("an outage is reported as contention: %v", err)
			}
		})
	}
}

// Case J08.
func TestTryAcquireTakesWhatIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		defer c.Close()
		lease, err := c.Mutex("k").TryAcquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Mutex("k").TryAcquire(t.Context())
		if !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("got %v, want ErrHeld", err)
		}
		if st, _ := c.Inspect(t.Context(), "k"); len(st.Holders) != 1 || st.Waiting != 0 {
			t.Errorf("a refused try has left a trace: %+v", st)
		}
		lease.Release(t.Context())
		wantFree(t, store, "k")
	})
}

// Capacity is counted, and readers and writers keep each other out.
// Case R04.
func TestLocksExcludeWhomTheyShould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(nil), nil)
		defer c.Close()
		for _, tt := range []struct {
			lock  func(key string) *pawl.Lock
			other func(key string) *pawl.Lock
			room  int // for how many others while one is held
		}{
			{c.Mutex, c.Mutex, 0},
			{c.Mutex, c.ReadLock, 0},
			{c.WriteLock, c.WriteLock, 0},
			{c.WriteLock, c.ReadLock, 0},
			{c.ReadLock, c.WriteLock, 0},
			{c.ReadLock, c.ReadLock, 10},
			{func(k string) *pawl.Lock { return c.Semaphore(k, 3) }, func(k string) *pawl.Lock { return c.Semaphore(k, 3) }, 2},
			{func(k string) *pawl.Lock { return c.Semaphore(k, 1) }, func(k string) *pawl.Lock { return c.Semaphore(k, 1) }, 0},
		} {
			leases := []*pawl.Lease{acquire(t, tt.lock("k"))}
			for range 10 {
				if lease, err := tt.other("k").TryAcquire(t.Context()); err == nil {
					leases = append(leases, lease)
				}
			}
			if got := len(leases) - 1; got != tt.room {
				t.Errorf("%+v beside %+v: got room for %d, want %d", tt.other("k"), tt.lock("k"), got, tt.room)
			}
			last := uint64(0)
			for _, lease := range leases {
				if lease.Token() <= last {
					t.Errorf("token %d after %d, want it to rise", lease.Token(), last)
				}
				last = lease.Token()
				lease.Release(t.Context())
			}
		}
	})
}
