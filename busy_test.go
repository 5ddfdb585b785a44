package pawl_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/memory"
)

// A process that burns its only processor for several TTLs goes on renewing, or
// knows that it does not hold before anybody else does. This is on the real clock,
// and the scheduler is the fault.
// Case B14.
func TestABusyProcessRenewsOrKnows(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	store := new(memory.Store)
	const ttl = 200 * time.Millisecond
	c := newClient(t, memory.New(store), &pawl.Options{TTL: ttl})
	defer c.Close()
	other := newClient(t, memory.New(store), nil)
	defer other.Close()
	lease := acquire(t, c.Mutex("k"))

	stop := make(chan struct{})
	var burning, waiting sync.WaitGroup
	for range 8 {
		burning.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	waiting.Go(func() {
		next := acquire(t, other.Mutex("k"))
		if lease.Valid() {
			t.Error("another holds, and the lease is valid")
		}
		if err := next.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(5 * ttl)
	valid := lease.Valid()
	close(stop)
	burning.Wait()
	t.Logf("after five TTLs under load the lease is valid: %v", valid)
	lease.Release(t.Context()) // ErrLost if it was not renewed in time
	waiting.Wait()
}
