package pawl_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

// Close ends what is held and what waits, and the store is clean when it
// returns.
// Cases O07, P04.
func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		lease, other := acquire(t, c.Mutex("k")), acquire(t, c.Mutex("other"))
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				_, err := c.Mutex("k").Acquire(t.Context())
				if !errors.Is(err, pawl.ErrClosed) || !errors.Is(err, pawl.ErrHeld) {
					t.Errorf("a waiter got %v, want ErrClosed and what it was waiting for", err)
				}
				wantOneError(t, err, "acquire")
			})
		}
		synctest.Wait()
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if got := time.Since(start); got != 0 {
			t.Errorf("Close took %v", got)
		}
		wantFree(t, store, "k")
		wantFree(t, store, "other")
		wg.Wait()
		for _, l := range []*pawl.Lease{lease, other} {
			var lost *pawl.LostError
			if cause := context.Cause(l.Context()); !errors.As(cause, &lost) || lost.Reason != driver.Closed {
				t.Errorf("cause: got %v, want closed", cause)
			}
			if err := l.Release(t.Context()); !errors.Is(err, pawl.ErrLost) {
				t.Errorf("release after Close: got %v, want ErrLost", err)
			}
		}
		if err := c.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		if _, err := c.Mutex("k").Acquire(t.Context()); !errors.Is(err, pawl.ErrClosed) {
			t.Errorf("acquire after Close: got %v, want ErrClosed", err)
		}
		if _, err := c.Mutex("k").TryAcquire(t.Context()); !errors.Is(err, pawl.ErrClosed) {
			t.Errorf("try after Close: got %v, want ErrClosed", err)
		}
		wantFree(t, store, "k")
	})
}

// An acquire that is under way when Close is called may be granted after it:
// Close waits until that is undone.
func TestCloseWaitsForWhatItInterrupts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		b := &faulty{Backend: memory.New(store)}
		b.acquire = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			time.Sleep(time.Second)
			g, err := b.Backend.Acquire(ctx, c)
			time.Sleep(time.Second)
			return g, err
		}
		c := newClient(t, b, nil)
		failed := make(chan error, 1)
		go func() {
			_, err := c.Mutex("k").Acquire(t.Context())
			failed <- err
		}()
		time.Sleep(500 * time.Millisecond)
		start := time.Now()
		done := make(chan time.Duration)
		go func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			done <- time.Since(start)
		}()
		if err := <-failed; !errors.Is(err, pawl.ErrClosed) || time.Since(start) != 0 {
			t.Errorf("got %v after %v, want ErrClosed at once", err, time.Since(start))
		}
		if got, want := <-done, 1500*time.Millisecond; got != want {
			t.Errorf("Close took %v, want %v", got, want)
		}
		wantFree(t, store, "k")
	})
}

// Whoever Close finds at the moment of the grant gets nothing, and leaves
// nothing.
func TestCloseAtTheInstantOfTheGrant(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			store := new(memory.Store)
			b := &faulty{Backend: memory.New(store)}
			b.acquire = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
				g, err := b.Backend.Acquire(ctx, c)
				time.Sleep(time.Second)
				return g, err
			}
			var mu sync.Mutex
			events := map[*pawl.Lease]string{}
			c := newClient(t, b, &pawl.Options{Observer: &pawl.Observer{
				Acquired: func(l *pawl.Lease, _ time.Duration, _ int) { mu.Lock(); events[l] += "acquired "; mu.Unlock() },
				Lost:     func(l *pawl.Lease, err *pawl.LostError) { mu.Lock(); events[l] += err.Reason; mu.Unlock() },
			}})
			var wg sync.WaitGroup
			wg.Go(func() {
				lease, err := c.Mutex("k").Acquire(t.Context())
				if (lease == nil) == (err == nil) {
					t.Errorf("got lease %v and error %v, want exactly one", lease, err)
				}
			})
			time.Sleep(time.Second)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			wg.Wait()
			synctest.Wait()
			wantFree(t, store, "k")
			mu.Lock()
			defer mu.Unlock()
			for _, got := range events {
				if got != "acquired closed" {
					t.Errorf("the observer was told %q, want a loss for each grant", got)
				}
			}
		})
	}
}

// Close does not wait for ever for a store that is gone, and says what it left.
func TestCloseOfAClientWhoseStoreIsGone(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{
		"reset":     func(context.Context) error { return errDown },
		"blackhole": func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
		"deaf":      func(context.Context) error { time.Sleep(time.Hour); return errDown },
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &faulty{Backend: memory.New(nil)}
			b.release = func(ctx context.Context, _ driver.Claim) error { return fail(ctx) }
			c := newClient(t, b, &pawl.Options{TTL: time.Hour})
			lease := acquire(t, c.Mutex("invoice/42"))
			start := time.Now()
			err := c.Close()
			if got := time.Since(start); got > 5*time.Second {
				t.Errorf("%s: Close took %v, want at most 5s", name, got)
			}
			var e *pawl.Error
			if !errors.As(err, &e) || e.Key != "invoice/42" || e.Op != "release" {
				t.Errorf("%s: got %v, want an error that names the key", name, err)
			}
			if lease.Valid() {
				t.Errorf("%s: the lease is valid after Close", name)
			}
			time.Sleep(2 * time.Hour)
		})
	}
}

// A lease that has expired unseen when Close comes was lost to the clock.
func TestCloseDoesNotHideAnEarlierLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := new(offset)
		c := newClient(t, memory.New(nil), &pawl.Options{Clock: clock})
		lease := acquire(t, c.Mutex("k"))
		clock.sleep(time.Minute)
		c.Close()
		var lost *pawl.LostError
		if cause := context.Cause(lease.Context()); !errors.As(cause, &lost) || lost.Reason != driver.Suspended {
			t.Errorf("cause: got %v, want suspended", cause)
		}
	})
}
