package zookeeper

import (
	"errors"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
)

// Whoever takes a holder for dead deletes the version that he has seen: a renewal
// that arrives before, of a process that was paused say, saves the claim.
func TestARenewalSavesFromWhoeverTakesItsHolderForDead(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t, 1)[0]
	dial := func() *backend {
		b, err := New([]string{server.Addr}, &Options{TickTime: testserver.ZooKeeperTick})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b.(*backend)
	}
	holder, other := dial(), dial()
	c := driver.Claim{Key: "k", ID: driver.NewIdentity("t").Next(), Weight: 1, Capacity: 1, TTL: 20 * time.Second}
	var err error
	if c.Grant, err = holder.Acquire(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, renewed := range []bool{true, false} {
		l, err := other.look("k", true)
		if err != nil || len(l.entries) != 1 {
			t.Fatalf("look: got %+v, %v, want one claim", l, err)
		}
		e := l.entries[0]
		other.mu.Lock()
		other.seen["k"][e.path] = sighting{e.stat.Version, time.Now().Add(-time.Hour)}
		other.mu.Unlock()
		if renewed {
			if _, err := holder.Renew(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		if some, err := other.reap(l, l.entries); err != nil || !some {
			t.Fatalf("reap: got %v, %v, want that it tried", some, err)
		}
		if _, err = holder.Renew(t.Context(), c); renewed && err != nil {
			t.Errorf("Renew of a claim that was renewed in time: %v", err)
		} else if !renewed && !errors.Is(err, driver.ErrLost) {
			t.Errorf("Renew of a claim that was not: got %v, want ErrLost", err)
		}
	}
}
