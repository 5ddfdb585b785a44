package pawl_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/memory"
)

// Goroutines of three clients, some of whom lose patience: never two leases at
// once, tokens that rise, and nothing left behind.
func TestCrowdWithHandOver(t *testing.T) {
	store := new(memory.Store)
	var inside, holds atomic.Int64
	var last atomic.Uint64
	var wg sync.WaitGroup
	var clients []*pawl.Client
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for range 3 {
		c := newClient(t, memory.New(store), &pawl.Options{TTL: 2 * time.Second, Handover: 1 + rand.IntN(20)})
		clients = append(clients, c)
		for range 16 {
			wg.Go(func() {
				for ctx.Err() == nil {
					patience, stop := context.WithTimeout(ctx, time.Duration(rand.IntN(5))*time.Millisecond)
					if rand.IntN(2) == 0 {
						patience = ctx
					}
					lease, err := c.Mutex("k").Acquire(patience)
					stop()
					if err != nil {
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("acquire: %v", err)
						}
						continue
					}
					n := inside.Add(1)
					if before := last.Swap(lease.Token()); n != 1 || before >= lease.Token() {
						t.Errorf("%d inside with token %d after %d", n, lease.Token(), before)
					}
					holds.Add(1)
					inside.Add(-1)
					if err := lease.Release(t.Context()); err != nil {
						t.Errorf("release: %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
	for _, c := range clients {
		if err := c.Close(); err != nil { // waits for what is being withdrawn
			t.Error(err)
		}
	}
	if holds.Load() < 100 {
		t.Errorf("%d holds: too few to have tested anything", holds.Load())
	}
	wantFree(t, store, "k")
}
