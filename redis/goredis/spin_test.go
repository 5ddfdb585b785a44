package goredis_test

import (
	"sync"
	"testing"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/internal/testserver"
)

// A server that stands still for a while has all waiters' requests and messages
// come at once. Afterwards they ask as seldom as before.
// Case D13.
func TestAPauseMakesNobodySpin(t *testing.T) {
	t.Parallel()
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	const waiters = 20
	holder := newClient(t, s.Addr)
	held := holder.must(t, holder.mutex("k"))
	var all sync.WaitGroup
	for range waiters {
		c, err := pawl.New(newClient(t, s.Addr).Backend, &pawl.Options{TTL: 6 * time.Second}) // a request is given up after 2s
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		all.Go(func() {
			lease, err := c.Mutex("k").Acquire(t.Context())
			if err != nil {
				t.Errorf("Acquire: %v", err)
				return
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("Release: %v", err)
			}
		})
	}
	holder.awaitLine(t, "k", waiters)
	asked := func(d time.Duration) float64 { // by each waiter, in a second
		before, began := evaluations(t, s), time.Now()
		time.Sleep(d)
		return float64(evaluations(t, s)-before) / waiters / time.Since(began).Seconds()
	}
	calm := asked(time.Second)
	s.Do("CLIENT", "PAUSE", "2500", "ALL")
	await(t, "the server goes on", func() bool { _, err := s.Try("PING"); return err == nil })
	after := asked(2 * time.Second)
	t.Logf("%.2f scripts/s by each waiter before the pause, %.2f after it", calm, after)
	if after > 3 {
		t.Errorf("after a pause: each waiter asks %.1f times a second, want 3 at most", after)
	}
	holder.release(t, held)
	all.Wait()
}
