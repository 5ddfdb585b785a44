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

// An offset is the clock of a machine that can be put to sleep.
type offset struct{ slept atomic.Int64 }

func (o *offset) Now() time.Time          { return time.Now() }
func (o *offset) Slept() time.Duration    { return time.Duration(o.slept.Load()) }
func (o *offset) sleep(d time.Duration)   { o.slept.Add(int64(d)) }
func (o *offset) asOfBoot() time.Duration { return 42 * time.Hour }

// A machine that slept past the end of a lease wakes up to none: at the first
// look, before any timer has fired.
// Cases I08, Q01.
func TestALeaseDoesNotSurviveASuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := new(offset)
		clock.sleep(clock.asOfBoot()) // before the client was made: of no account
		c := newClient(t, memory.New(nil), &pawl.Options{Clock: clock})
		defer c.Close()
		start := time.Now()
		lease := acquire(t, c.Mutex("k"))
		time.Sleep(time.Second)
		synctest.Wait() // the keeper glances at the clock every second
		clock.sleep(7 * time.Second)
		if !lease.Valid() {
			t.Error("a short sleep ended the lease")
		}
		if got, want := time.Until(lease.Deadline()), 898*time.Millisecond; got != want {
			t.Errorf("deadline: got %v from now, want %v", got, want)
		}
		clock.sleep(898 * time.Millisecond)
		if lease.Valid() {
			t.Error("valid after a sleep past its end")
		}
		if got := lease.Context().Err(); got == nil {
			t.Error("the context has not ended though the loss was seen")
		}
		var lost *pawl.LostError
		if cause := context.Cause(lease.Context()); !errors.As(cause, &lost) || lost.Reason != driver.Suspended {
			t.Errorf("cause: got %v, want suspended", cause)
		}
		if err := lease.Renew(t.Context()); !errors.Is(err, pawl.ErrLost) {
			t.Errorf("renew: got %v, want ErrLost", err)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, pawl.ErrLost) {
			t.Errorf("release: got %v, want ErrLost", err)
		}
		if got := time.Since(start); got != time.Second {
			t.Errorf("all that took %v, want 1s", got)
		}
	})
}

// Nobody looks: the first timer after the sleep sees it, and no store is asked.
// Case I08.
func TestASuspensionIsSeenByTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := new(offset)
		var renewals atomic.Int32
		b := &faulty{Backend: memory.New(nil)}
		b.renew = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			renewals.Add(1)
			return b.Backend.Renew(ctx, c)
		}
		c := newClient(t, b, &pawl.Options{Clock: clock})
		defer c.Close()
		start := time.Now()
		lease := acquire(t, c.Mutex("k"))
		clock.sleep(time.Hour)
		<-lease.Context().Done()
		if got, want := time.Since(start), time.Second; got > want {
			t.Errorf("told after %v awake, want %v at most", got, want)
		}
		if got := renewals.Load(); got != 0 {
			t.Errorf("%d renewals of a lease that is over", got)
		}
	})
}

// A suspension while the request is under way is counted too.
// Case I08.
func TestASuspensionDuringTheAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := new(offset)
		store := new(memory.Store)
		first := true
		b := &faulty{Backend: memory.New(store)}
		b.acquire = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			g, err := b.Backend.Acquire(ctx, c)
			if first {
				first = false
				clock.sleep(time.Minute)
			}
			return g, err
		}
		c := newClient(t, b, nil)
		defer c.Close()
		timed := newClient(t, b, &pawl.Options{Clock: clock})
		defer timed.Close()
		lease, err := timed.Mutex("k").TryAcquire(t.Context())
		if err == nil {
			t.Fatalf("got a lease until %v, want an error: a minute has passed", lease.Deadline())
		}
		if errors.Is(err, pawl.ErrHeld) || errors.Is(err, pawl.ErrLost) {
			t.Errorf("got %v, want neither held nor lost", err)
		}
		synctest.Wait()
		wantFree(t, store, "k")
	})
}

// A lease that is renewed without fault ends all the same after MaxHold. The
// key stays taken until the holder lets go, or the TTL runs out.
func TestMaxHoldEndsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), &pawl.Options{MaxHold: time.Minute})
		defer c.Close()
		start := time.Now()
		lease := acquire(t, c.Mutex("k"))
		<-lease.Context().Done()
		if got := time.Since(start); got != time.Minute {
			t.Errorf("ended after %v, want 1m", got)
		}
		var lost *pawl.LostError
		if cause := context.Cause(lease.Context()); !errors.As(cause, &lost) || lost.Reason != driver.MaxHold {
			t.Errorf("cause: got %v, want max-hold", cause)
		}
		if _, err := c.Mutex("k").TryAcquire(t.Context()); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("while the holder may be at work: got %v, want ErrHeld", err)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, pawl.ErrLost) {
			t.Errorf("release: got %v, want ErrLost", err)
		}
		synctest.Wait()
		wantFree(t, store, "k")
	})
}

// What clocks of unequal rate may differ by is given away by the holder.
// Case I07.
func TestDriftIsTheHoldersLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(nil), &pawl.Options{Drift: 0.45, RenewEvery: 5 * time.Second})
		defer c.Close()
		start := time.Now()
		lease := acquire(t, c.Mutex("k"))
		if got, want := lease.Deadline().Sub(start), 4498*time.Millisecond; got != want {
			t.Errorf("deadline: got %v, want %v", got, want)
		}
		time.Sleep(time.Hour) // RenewEvery alone would be too late
		if !lease.Valid() {
			t.Errorf("lost: %v", context.Cause(lease.Context()))
		}
		lease.Release(t.Context())
	})
}

// With Grace the store keeps the key longer than the holder has it, and a clean
// release gives it back at once.
// Case S05.
func TestGraceIsForAnUncleanEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		b := &faulty{Backend: memory.New(store)}
		b.renew = func(context.Context, driver.Claim) (driver.Grant, error) { return driver.Grant{}, errDown }
		c := newClient(t, b, &pawl.Options{Grace: 30 * time.Second})
		defer c.Close()
		other := newClient(t, memory.New(store), nil)
		defer other.Close()

		lease := acquire(t, c.Mutex("k"))
		lease.Release(t.Context())
		start := time.Now()
		lease = acquire(t, c.Mutex("k"))
		if got := time.Since(start); got != 0 {
			t.Errorf("after a release the next came after %v, want at once", got)
		}
		if got, want := lease.Deadline().Sub(start), 8898*time.Millisecond; got != want {
			t.Errorf("deadline: got %v, want %v", got, want)
		}
		next := acquire(t, other.Mutex("k"))
		if got, want := time.Since(start), 40*time.Second; got != want {
			t.Errorf("after a loss the next came after %v, want %v", got, want)
		}
		next.Release(t.Context())
	})
}
