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

// A release works when the work was called off, happens once however often it
// is asked for, and says the same each time.
// Cases H07, T6a.
func TestReleaseIsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		var sent atomic.Int32
		b := &faulty{Backend: memory.New(store)}
		b.release = func(ctx context.Context, c driver.Claim) error {
			if ctx.Err() != nil {
				t.Error("the store was sent a cancelled context")
			}
			sent.Add(1)
			time.Sleep(time.Second)
			return b.Backend.Release(ctx, c)
		}
		c := newClient(t, b, nil)
		defer c.Close()
		lease := acquire(t, c.Mutex("k"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if err := lease.Release(ctx); err != nil {
					t.Error(err)
				}
				wantFree(t, store, "k") // not before the store has confirmed
			})
		}
		wg.Wait()
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if got := sent.Load(); got != 1 {
			t.Errorf("the store was sent %d releases, want 1", got)
		}
	})
}

// After a release nothing is renewed, and before it is sent the lease is over.
// Cases B01, O02.
func TestNothingIsRenewedAfterTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewals atomic.Int32
		b := &faulty{Backend: memory.New(nil)}
		b.renew = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			renewals.Add(1)
			time.Sleep(500 * time.Millisecond)
			return b.Backend.Renew(ctx, c)
		}
		var lease *pawl.Lease
		b.release = func(ctx context.Context, c driver.Claim) error {
			if lease.Valid() || lease.Context().Err() == nil || context.Cause(lease.Context()) != pawl.ErrReleased {
				t.Error("the release was sent before the lease had ended")
			}
			return b.Backend.Release(ctx, c)
		}
		c := newClient(t, b, nil)
		defer c.Close()
		lease = acquire(t, c.Mutex("k"))
		time.Sleep(10*time.Second/3 + 100*time.Millisecond) // in the midst of the first renewal
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := lease.Renew(t.Context()); err != pawl.ErrReleased {
			t.Errorf("renewal of a released lease: got %v, want ErrReleased", err)
		}
		if err := lease.Check(0); err != pawl.ErrReleased {
			t.Errorf("check of a released lease: got %v, want ErrReleased", err)
		}
		time.Sleep(time.Hour)
		if got := renewals.Load(); got != 1 {
			t.Errorf("got %d renewals, want the one before the release", got)
		}
	})
}

// A release whose answer is lost is repeated, and is no error: that the claim
// has gone, or that another holds by now, is what was wanted.
// Case H05.
func TestALostAnswerToAReleaseIsNoError(t *testing.T) {
	for name, lose := range map[string]func(context.Context) error{
		"reset":     func(context.Context) error { return errDown },
		"blackhole": func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
	} {
		synctest.Test(t, func(t *testing.T) {
			store := new(memory.Store)
			other := newClient(t, memory.New(store), nil)
			defer other.Close()
			var next atomic.Pointer[pawl.Lease]
			b := &faulty{Backend: memory.New(store)}
			b.release = func(ctx context.Context, c driver.Claim) error {
				err := b.Backend.Release(ctx, c)
				if next.Load() == nil {
					next.Store(acquire(t, other.Mutex("k")))
					return lose(ctx)
				}
				return err
			}
			c := newClient(t, b, nil)
			defer c.Close()
			lease := acquire(t, c.Mutex("k"))
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("%s: got %v, want nil", name, err)
			}
			if err := next.Load().Renew(t.Context()); err != nil {
				t.Errorf("%s: the successor was freed by a repeated release: %v", name, err)
			}
			next.Load().Release(t.Context())
		})
	}
}

// What the store does not confirm within 5 s is an error, goes on in the
// background, and may be asked for again.
// Cases H04, H07, H08.
func TestAnUnconfirmedReleaseGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		b := &faulty{Backend: memory.New(store)}
		var healed atomic.Bool
		b.release = func(ctx context.Context, c driver.Claim) error {
			if healed.Load() {
				return b.Backend.Release(ctx, c)
			}
			return errDown
		}
		c := newClient(t, b, &pawl.Options{TTL: time.Minute})
		defer c.Close()
		lease := acquire(t, c.Mutex("k"))
		start := time.Now()
		err := lease.Release(t.Context())
		if got := time.Since(start); got > 5*time.Second {
			t.Errorf("Release took %v, want at most 5s", got)
		}
		if !errors.Is(err, errDown) || errors.Is(err, pawl.ErrLost) {
			t.Errorf("got %v, want the store's error", err)
		}
		wantOneError(t, err, "release")
		if lease.Valid() {
			t.Error("the lease is valid while its release is unconfirmed")
		}
		if _, err := c.Mutex("k").TryAcquire(t.Context()); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("in the same process, while the store has it: got %v, want ErrHeld", err)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, errDown) {
			t.Errorf("again: got %v, want the store's error", err)
		}
		healed.Store(true)
		time.Sleep(2 * time.Second)
		wantFree(t, store, "k")
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("confirmed by now: got %v, want nil", err)
		}
	})
}

// The release of a lease that was lost says so each time, frees nobody else, and
// takes back what the store may still have of it.
// Cases A06, C01, P08.
func TestReleaseOfALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		b := &faulty{Backend: memory.New(store)}
		b.renew = func(context.Context, driver.Claim) (driver.Grant, error) { return driver.Grant{}, errDown }
		var troubles atomic.Int32
		c := newClient(t, b, &pawl.Options{Observer: &pawl.Observer{Trouble: func(string, string, error) { troubles.Add(1) }}})
		defer c.Close()
		other := newClient(t, memory.New(store), nil)
		defer other.Close()

		lease := acquire(t, c.Mutex("k"))
		<-lease.Context().Done()
		for range 2 {
			err := lease.Release(t.Context())
			if !errors.Is(err, pawl.ErrLost) {
				t.Errorf("got %v, want ErrLost", err)
			}
			wantOneError(t, err, "release")
		}
		synctest.Wait()
		wantFree(t, store, "k") // a second before the store would have let it go

		lease = acquire(t, c.Mutex("k"))
		time.Sleep(20 * time.Second)
		next := acquire(t, other.Mutex("k"))
		if err := lease.Release(t.Context()); !errors.Is(err, pawl.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
		synctest.Wait()
		if err := next.Renew(t.Context()); err != nil {
			t.Errorf("a late release has freed the successor: %v", err)
		}
		next.Release(t.Context())
		if got := troubles.Load(); got != 0 {
			t.Errorf("the observer was told of %d troubles, and there was none", got)
		}
	})
}

// A key stays taken for MinHold, counted from the grant.
func TestMinHoldOutlastsTheRelease(t *testing.T) {
	for _, held := range []time.Duration{0, 20 * time.Second, time.Minute, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, memory.New(nil), &pawl.Options{MinHold: time.Minute})
			defer c.Close()
			start := time.Now()
			lease := acquire(t, c.Mutex("k"))
			time.Sleep(held)
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			next := acquire(t, c.Mutex("k"))
			if got, want := time.Since(start), max(held, time.Minute); got != want {
				t.Errorf("held for %v: the next came after %v, want %v", held, got, want)
			}
			next.Release(t.Context())
		})
	}
}
