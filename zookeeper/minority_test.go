package zookeeper_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/internal/testserver"
)

// minority: two servers of three are lost. Holders are told in time, whoever asks
// learns of an outage and of no contention, also from a server that would serve those
// who only read, and all goes on when one is back.
func minority(t *testing.T, servers ensemble) {
	const ttl = 2 * time.Second
	holder, other := servers.station(t, ttl, 40*time.Second, nil), servers.station(t, ttl, 40*time.Second, nil)
	lease, err := holder.client.Mutex("minority").Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lost := []*testserver.ZooKeeper{servers.find(t, "leader"), servers.find(t, "follower")}
	for _, s := range lost {
		s.Kill()
	}
	<-lease.Context().Done()
	if cause := context.Cause(lease.Context()); !errors.Is(cause, pawl.ErrLost) {
		t.Errorf("the holder: got %v, want ErrLost", cause)
	}
	for _, s := range []*station{holder, other} {
		ctx, cancel := context.WithTimeout(t.Context(), ttl)
		if l, err := s.client.Mutex("minority").TryAcquire(ctx); err == nil || errors.Is(err, pawl.ErrHeld) || errors.Is(err, pawl.ErrLost) {
			t.Errorf("TryAcquire: got %v, %v, want an outage", l, err)
		}
		if st, err := s.client.Inspect(ctx, "minority"); err == nil {
			t.Errorf("Inspect: got %+v, want an outage", st)
		}
		cancel()
	}
	for _, s := range lost {
		s.Start()
	}
	next, err := other.client.Mutex("minority").Acquire(t.Context())
	if err != nil || next.Token() <= lease.Token() {
		t.Fatalf("the next: got %v, %v, want a token above %d", next, err, lease.Token())
	}
	if err := next.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
