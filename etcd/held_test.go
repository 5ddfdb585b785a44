package etcd_test

import (
	"context"
	"fmt"
	"log"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/etcd"
	"github.com/pawlock/pawl/internal/testserver"
)

func ExampleNew() {
	store, err := clientv3.New(clientv3.Config{
		Endpoints:         []string{"etcd-1:2379", "etcd-2:2379", "etcd-3:2379"},
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	client, err := pawl.New(etcd.New(store, nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Mutex("invoice/42").Do(context.Background(), func(ctx context.Context, lease *pawl.Lease) error {
		return nil // alone
	})
	if err != nil {
		log.Fatal(err)
	}
}

// What is guarded is in the same etcd: the write carries a condition that only the
// holder meets, and etcd decides both in one transaction.
func ExampleHeld() {
	store, err := clientv3.New(clientv3.Config{Endpoints: []string{"etcd-1:2379", "etcd-2:2379", "etcd-3:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	client, err := pawl.New(etcd.New(store, nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Mutex("invoice/42").Do(context.Background(), func(ctx context.Context, lease *pawl.Lease) error {
		resp, err := store.Txn(ctx).
			If(etcd.Held(lease.Key(), lease.Holder(), nil)).
			Then(clientv3.OpPut("invoices/42/state", "paid")).
			Commit()
		if err == nil && !resp.Succeeded {
			err = fmt.Errorf("invoice 42 was not paid: %w", pawl.ErrLost)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A transaction of a holder that has lost its lease changes nothing, whether the
// lock is free, another's, or its own again; one of the holder does.
func TestOnlyTheHoldersTransactionIsMade(t *testing.T) {
	releases(t, func(t *testing.T, current bool) {
		server := testserver.StartEtcd(t, testserver.EtcdOptions{Current: current})[0]
		store := connect(t, server.Addr)
		o := &etcd.Options{Prefix: "locks/"}
		a, b := newClient(t, etcd.New(store, o), 6*time.Second), newClient(t, etcd.New(store, o), 6*time.Second)
		write := func(lease *pawl.Lease, value string) bool {
			resp, err := store.Txn(t.Context()).If(etcd.Held(lease.Key(), lease.Holder(), o)).Then(clientv3.OpPut("data", value)).Commit()
			if err != nil {
				t.Fatal(err)
			}
			return resp.Succeeded
		}
		stale := mustTry(t, a.Mutex("a/b"))
		if !write(stale, "by the holder") {
			t.Error("the holder's transaction was not made")
		}
		if err := stale.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !write(stale, "by the holder") {
			t.Error("the holder's transaction after a renewal was not made")
		}
		if err := b.ForceRelease(t.Context(), "a/b", stale.Holder(), "test"); err != nil {
			t.Fatal(err)
		}
		if write(stale, "stale") {
			t.Error("a transaction was made for a lease that was ended by force")
		}
		other := mustTry(t, b.Mutex("a/b"))
		if write(stale, "stale") {
			t.Error("a transaction was made for a lease that was lost to another")
		}
		mustRelease(t, other)
		if write(other, "stale") {
			t.Error("a transaction was made for a lease that was released")
		}
		mine := mustTry(t, a.Mutex("a/b"))
		if write(stale, "stale") {
			t.Error("a transaction was made for an old lease of the holder of a new one")
		}
		if !write(mine, "by the next holder") {
			t.Error("the next holder's transaction was not made")
		}
		mustRelease(t, mine)
		reader := mustTry(t, a.ReadLock("a/b"))
		if !write(reader, "by a reader") {
			t.Error("a reader's transaction was not made")
		}
		got, err := store.Get(t.Context(), "data")
		if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "by a reader" {
			t.Errorf("data: got %v, %v", got, err)
		}
	})
}
