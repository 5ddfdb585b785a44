package goredis_test

import (
	"context"
	"errors"
	"slices"
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
		c := newLocks(t, newClient(t, p.Addr).Backend, &pawl.Options{TTL: patience})
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
			t.Errorf("Close: %v", err)
		}
	}
	if st, err := holder.Inspect(t.Context(), "k", 10); err != nil || st.Waiting != 0 {
		t.Errorf("after %d waits: got %d in line, %v, want none", tries.Load(), st.Waiting, err)
	}
	holder.release(t, held)
	holder.release(t, holder.must(t, holder.mutex("k"))) // at the first attempt
}

// Two processes take a lock in turns: while both are at it, neither gets it more
// often than the other.
// Case E10.
func TestTwoProcessesTakeTurns(t *testing.T) {
	t.Parallel()
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	const rounds = 300
	var mu sync.Mutex // the detector of races does not know the lock
	var turns []int
	var all sync.WaitGroup
	for i := range 2 {
		c := newLocks(t, newClient(t, s.Addr).Backend, nil)
		all.Go(func() {
			for range rounds {
				lease, err := c.Mutex("k").Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				turns = append(turns, i)
				mu.Unlock()
				time.Sleep(2 * time.Millisecond) // the other comes meanwhile
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	first, last := turns[0], turns[len(turns)-1]
	from := slices.Index(turns, 1-first)                     // both have begun
	to := len(turns) - slices.Index(reversed(turns), 1-last) // none has ended
	var counts [2]int
	for _, i := range turns[from:to] {
		counts[i]++
	}
	t.Logf("holds: %v while both were at it, of %d each", counts, rounds)
	if got := min(counts[0], counts[1]); got < max(counts[0], counts[1])*95/100 || got < rounds/2 {
		t.Errorf("holds: got %v while both were at it, want a difference of 5 %% at most", counts)
	}
}

func reversed(s []int) []int {
	s = slices.Clone(s)
	slices.Reverse(s)
	return s
}
