package pawl_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

// One timer and no goroutine keeps any number of leases.
func TestManyLeasesCostNoGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		var renewals atomic.Int64
		c := newClient(t, memory.New(nil), &pawl.Options{Observer: &pawl.Observer{
			Renewed: func(*pawl.Lease, time.Duration, time.Duration) { renewals.Add(1) },
		}})
		defer c.Close()
		before := runtime.NumGoroutine()
		leases := make([]*pawl.Lease, n)
		for i := range leases {
			leases[i] = acquire(t, c.Mutex(fmt.Sprint(i)))
		}
		time.Sleep(8 * time.Second) // the second renewal is at 7.333 s, if it is late
		synctest.Wait()
		if got := runtime.NumGoroutine() - before; got > 10 {
			t.Errorf("%d goroutines for %d leases between renewals, want none", got, n)
		}
		if got := renewals.Load(); got < 2*n {
			t.Errorf("%d renewals, want 2 for each", got)
		}
		for i, lease := range leases {
			if !lease.Valid() {
				t.Fatalf("lease %d is lost: %v", i, context.Cause(lease.Context()))
			}
		}
	})
}

// An observer that is slow, or asks the lease, keeps nobody else's loss from
// being told.
func TestASlowObserverKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &faulty{Backend: memory.New(nil)}
		b.renew = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			if c.Key == "cut off" {
				return driver.Grant{}, errDown
			}
			return b.Backend.Renew(ctx, c)
		}
		slow := func(lease *pawl.Lease, _, _ time.Duration) {
			lease.Check(0)
			time.Sleep(time.Minute)
		}
		c := newClient(t, b, &pawl.Options{Observer: &pawl.Observer{Renewed: slow}})
		start := time.Now()
		fine, lost := acquire(t, c.Mutex("fine")), acquire(t, c.Mutex("cut off"))
		<-lost.Context().Done()
		if got, want := time.Since(start), 8898*time.Millisecond; got != want {
			t.Errorf("loss told after %v, want %v", got, want)
		}
		time.Sleep(time.Minute)
		if !fine.Valid() {
			t.Errorf("lost: %v", context.Cause(fine.Context()))
		}
		fine.Release(t.Context())
		c.Close()
		time.Sleep(2 * time.Minute)
	})
}
