package pawl_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

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
