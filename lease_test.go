package pawl_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

func TestLeaseIsRenewedUntilItIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(nil), nil)
		defer c.Close()
		lease := acquire(t, c.Mutex("k"))
		time.Sleep(time.Hour)
		if !lease.Valid() {
			t.Fatalf("after an hour the lease is not valid: %v", context.Cause(lease.Context()))
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("second release: %v", err)
		}
		if got := context.Cause(lease.Context()); got != pawl.ErrReleased {
			t.Errorf("cause after release: got %v, want ErrReleased", got)
		}
		if lease.Valid() {
			t.Error("a released lease is valid")
		}
	})
}

// The holder of a 10 s lease is cut off right after the grant. The store keeps
// the key until 10 s; the holder gives 1 % and 2 ms for clocks and a margin of
// 1 s, and must know at 8.898 s, to the nanosecond.
// Cases A01, T1, T9, V55.
func TestLeaseEndsBeforeTheStoreForgetsIt(t *testing.T) {
	for _, err := range []error{errDown, driver.ErrRefused} {
		synctest.Test(t, func(t *testing.T) {
			store := new(memory.Store)
			b := &faulty{Backend: memory.New(store)}
			b.renew = func(context.Context, driver.Claim) (driver.Grant, error) { return driver.Grant{}, err }
			c := newClient(t, b, nil)
			defer c.Close()
			other := newClient(t, memory.New(store), nil)
			defer other.Close()

			start := time.Now()
			lease := acquire(t, c.Mutex("k"))
			if got, want := lease.Deadline().Sub(start), 8898*time.Millisecond; got != want {
				t.Errorf("deadline: got %v, want %v", got, want)
			}
			next := make(chan time.Duration)
			go func() {
				second := acquire(t, other.Mutex("k"))
				next <- time.Since(start)
				second.Release(t.Context())
			}()
			<-lease.Context().Done()
			if got, want := time.Since(start), 8898*time.Millisecond; got != want {
				t.Errorf("loss told after %v, want %v", got, want)
			}
			var lost *pawl.LostError
			if cause := context.Cause(lease.Context()); !errors.As(cause, &lost) || lost.Reason != driver.Expired || !errors.Is(cause, pawl.ErrLost) {
				t.Errorf("cause: got %v, want a LostError that says expired", cause)
			}
			if got, want := <-next, 10*time.Second; got != want {
				t.Errorf("the next holder came after %v, want %v", got, want)
			}
			if err := lease.Release(t.Context()); !errors.Is(err, pawl.ErrLost) {
				t.Errorf("release of a lost lease: got %v, want ErrLost", err)
			}
		})
	}
}

// A renewal that hangs for ever must not keep the loss from being told.
// Cases A02, T2.
func TestLossDoesNotWaitForARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		b := &faulty{Backend: memory.New(nil)}
		b.renew = func(context.Context, driver.Claim) (driver.Grant, error) {
			<-stuck // not even for its context
			return driver.Grant{}, errDown
		}
		c := newClient(t, b, nil)
		defer c.Close()
		start := time.Now()
		lease := acquire(t, c.Mutex("k"))
		<-lease.Context().Done()
		if got, want := time.Since(start), 8898*time.Millisecond; got != want {
			t.Errorf("loss told after %v, want %v", got, want)
		}
		close(stuck)
	})
}

// Validity counts from the sending of a renewal: one whose answer takes 1.5 s
// gives 8.898 s from when it was sent, not from when it came.
// Cases A10, A14, U14, V52.
func TestValidityCountsFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &faulty{Backend: memory.New(nil)}
		b.acquire = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			g, err := b.Backend.Acquire(ctx, c)
			time.Sleep(1500 * time.Millisecond) // the answer is slow
			return g, err
		}
		b.renew = func(context.Context, driver.Claim) (driver.Grant, error) { return driver.Grant{}, errDown }
		c := newClient(t, b, nil)
		defer c.Close()
		start := time.Now()
		lease := acquire(t, c.Mutex("k"))
		// Two round trips of 1.5 s are a margin of 3 s.
		if got, want := lease.Deadline().Sub(start), 10*time.Second-102*time.Millisecond-3*time.Second; got != want {
			t.Errorf("deadline: got %v after the request, want %v", got, want)
		}
	})
}

// Cases P04, S01.
func TestRenewalThatSaysNoIsLossAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		defer c.Close()
		admin := newClient(t, memory.New(store), &pawl.Options{Label: "admin"})
		defer admin.Close()
		start := time.Now()
		lease := acquire(t, c.Mutex("k"))
		time.Sleep(time.Second)
		if err := admin.ForceRelease(t.Context(), "k", lease.Holder(), "stuck"); err != nil {
			t.Fatal(err)
		}
		<-lease.Context().Done()
		if got, want := time.Since(start), 10*time.Second/3; got != want {
			t.Errorf("loss told after %v, want at the first renewal, %v", got, want)
		}
		var lost *pawl.LostError
		if !errors.As(context.Cause(lease.Context()), &lost) || lost.Reason != driver.Forced {
			t.Fatalf("cause: got %v, want forced", context.Cause(lease.Context()))
		}
		if n := lost.Notice; n == nil || n.By != "admin" || n.Why != "stuck" {
			t.Errorf("notice: got %+v, want by admin, why stuck", n)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, pawl.ErrLost) {
			t.Errorf("release: got %v, want ErrLost", err)
		}
	})
}
