package pawl_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

// The moment of the grant is that of the cancellation: either is right, both or
// none is not.
// Case H11.
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

// Cancelling returns at once, whatever the backend does with its context.
// Cases D16, T6b.
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
// Cases H10, T7.
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
// Case D10.
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
