package goredis_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/internal/testserver"
)

// Three clients come for a short time each, again and again, and for half of it
// hear no answers: when they have gone nothing of theirs is in line, and who comes
// next is granted at once.
// Case E01.
func TestWaitersThatGaveUpHoldUpNobody(t *testing.T) {
	t.Parallel()
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	holder := newClient(t, s.Addr)
	held := holder.must(t, holder.mutex("k"))
	var all sync.WaitGroup
	var proxies []*testserver.Proxy
	var clients []*pawl.Client
	var tries atomic.Int32
	for range 3 {
		p := testserver.StartProxy(t, s.Addr)
		c := newLocks(t, newClient(t, p.Addr).Backend, &pawl.Options{TTL: 2 * patience})
		proxies, clients = append(proxies, p), append(clients, c)
		all.Go(func() {
			for range 40 {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				_, err := c.Mutex("k").Acquire(ctx)
				cancel()
				if err == nil || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Acquire of what is held: got %v, want the deadline", err)
				}
				tries.Add(1)
			}
		})
	}
	await(t, "half of the time has passed", func() bool { return tries.Load() > 60 })
	for _, p := range proxies {
		p.Drop(testserver.Replies)
	}
	all.Wait()
	for _, p := range proxies {
		p.Heal()
		p.Cut() // what was sent is not answered any more
	}
	for _, c := range clients {
		if err := c.Close(); err != nil {
			t.Logf("Close: %v", err) // it goes on
		}
	}
	await(t, "nobody is in line", func() bool { // long before their places end by themselves
		st, err := holder.Inspect(t.Context(), "k", 10)
		return err == nil && st.Waiting == 0
	})
	holder.release(t, held)
	holder.release(t, holder.must(t, holder.mutex("k"))) // at the first attempt
}

// Two processes take a lock again and again, and each holds it until the other is
// in line: they take turns.
// Case E10.
func TestTwoProcessesTakeTurns(t *testing.T) {
	t.Parallel()
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	const rounds = 200
	var (
		all   sync.WaitGroup
		mu    sync.Mutex // the detector of races does not know the lock
		turns []int
		ended atomic.Int32
	)
	for i := range 2 {
		b := newClient(t, s.Addr)
		c := newLocks(t, b.Backend, &pawl.Options{TTL: time.Minute})
		all.Go(func() {
			defer ended.Add(1)
			for range rounds {
				lease, err := c.Mutex("k").Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				turns = append(turns, i)
				mu.Unlock()
				for end := time.Now().Add(patience); ended.Load() == 0 && time.Now().Before(end); {
					if st, err := b.Inspect(t.Context(), "k", 0); err == nil && st.Waiting == 1 {
						break
					}
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if len(turns) != 2*rounds {
		t.Fatalf("got %d holds, want %d", len(turns), 2*rounds)
	}
	twice := 0
	for i, who := range turns[1:] {
		if who == turns[i] && i+2 < len(turns) { // the last may be alone
			twice++
		}
	}
	// Whoever is called and does not come within a second may be passed over.
	if t.Logf("%d of %d holds went to the one before", twice, len(turns)); twice > len(turns)*5/100 {
		t.Errorf("%d of %d holds went to the one before though the other waited, want 5 %% at most", twice, len(turns))
	}
}
