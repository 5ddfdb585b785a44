package etcd_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
)

// newClient returns a client of the core, which ends with the test.
func newClient(t testing.TB, b driver.Backend, ttl time.Duration) *pawl.Client {
	t.Helper()
	client, err := pawl.New(b, &pawl.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func mustTry(t testing.TB, lock *pawl.Lock) *pawl.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lease, err := lock.TryAcquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// acquireLater acquires in the background.
func acquireLater(t testing.TB, lock *pawl.Lock) <-chan *pawl.Lease {
	got := make(chan *pawl.Lease, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	done := make(chan struct{})
	go func() {
		defer close(done)
		lease, err := lock.Acquire(ctx)
		if err != nil {
			t.Errorf("Acquire: %v", err)
			close(got)
			return
		}
		got <- lease
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return got
}

// patience bounds what ought to come soon.
const patience = 30 * time.Second

func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}

// nothingLeft checks that the store has neither keys nor leases any more. A lease
// whose end was not confirmed ends by itself.
func nothingLeft(t testing.TB, store *clientv3.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	keys, err := store.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range keys.Kvs {
		t.Errorf("left behind: the key %q", kv.Key)
	}
	leases, err := store.Leases(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases.Leases {
		t.Errorf("left behind: the lease %x", int64(l.ID))
	}
}
