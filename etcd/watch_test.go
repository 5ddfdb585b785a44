package etcd

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
)

// The claim ahead goes after the line was read and before the watch has begun: the
// watch tells of it all the same. Case D04.
func TestAWatchBeginsWhereTheReadEnded(t *testing.T) {
	t.Parallel()
	server := testserver.StartEtcd(t, testserver.EtcdOptions{})[0]
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	b, ids := New(client, nil).(*backend), driver.NewIdentity("t")
	var line []driver.Claim
	for range 3 {
		c := driver.Claim{Key: "k", ID: ids.Next(), Weight: 1, Capacity: 1, TTL: 20 * time.Second, Queue: true}
		c.Grant, _ = b.Acquire(t.Context(), c) // the first is granted, the others refused
		line = append(line, c)
	}
	for i, waits := range line[1:] { // behind a holder, and behind one that waits
		l, err := b.read(t.Context(), "k", waits.ID)
		if err != nil || len(l.entries) != 3-i {
			t.Fatalf("got %+v, %v, want %d claims", l, err, 3-i)
		}
		if err := b.Release(t.Context(), line[i]); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := b.watch(ctx, l, l.index(waits.ID)); err != nil {
			t.Errorf("watch of number %d, with the one ahead gone: %v", i+1, err)
		}
	}
}

// An arrival behind a waiter wakes nobody, and a release one: no herd.
func TestAReleaseWakesTheNextAlone(t *testing.T) {
	t.Parallel()
	server := testserver.StartEtcd(t, testserver.EtcdOptions{})[0]
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	b, ids := New(client, nil).(*backend), driver.NewIdentity("t")
	const claims = 6
	var line []driver.Claim
	woken := make(chan int, claims)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for i := range claims {
		c := driver.Claim{Key: "k", ID: ids.Next(), Weight: 1, Capacity: 1, TTL: 20 * time.Second, Queue: true}
		c.Grant, _ = b.Acquire(t.Context(), c)
		line = append(line, c)
		if i == 0 {
			continue
		}
		l, err := b.read(t.Context(), "k", c.ID)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if b.watch(ctx, l, l.index(c.ID)) == nil {
				woken <- i
			}
		}()
	}
	select {
	case i := <-woken:
		t.Fatalf("number %d was woken by the arrival of those behind it", i)
	case <-time.After(300 * time.Millisecond):
	}
	if err := b.Release(t.Context(), line[0]); err != nil {
		t.Fatal(err)
	}
	select {
	case i := <-woken:
		if i != 1 {
			t.Errorf("number %d was woken, want number 1", i)
		}
	case <-ctx.Done():
		t.Fatal("nobody was woken")
	}
	select {
	case i := <-woken:
		t.Errorf("number %d was woken too", i)
	case <-time.After(300 * time.Millisecond):
	}
}

// An Acquire has read the line and is slow to go on. Meanwhile another of the same
// claim is granted, and ended by force or released: the slow one is not granted
// after that.
func TestASlowDuplicateIsNotGrantedAfterTheEnd(t *testing.T) {
	t.Parallel()
	server := testserver.StartEtcd(t, testserver.EtcdOptions{})[0]
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	slow, ids := New(client, nil).(*backend), driver.NewIdentity("t")
	quick := slow
	for _, how := range []string{"forced elsewhere", "released"} {
		c := driver.Claim{Key: how, ID: ids.Next(), Weight: 1, Capacity: 1, TTL: 20 * time.Second}
		l, err := slow.read(t.Context(), c.Key, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		if how == "forced elsewhere" {
			quick = New(client, nil).(*backend) // another process: nothing is remembered here
		}
		granted := c
		if granted.Grant, err = quick.Acquire(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if how == "forced elsewhere" {
			err = quick.Revoke(t.Context(), c.Key, c.ID, driver.Notice{Force: true, By: "ops"})
		} else {
			err = slow.Release(t.Context(), granted)
		}
		if err != nil {
			t.Fatal(err)
		}
		a := &attempt{backend: slow, claim: c, id: leaseID(c.Key, c.ID), key: slow.names.claim(c.Key, c.ID)}
		if g, err := a.take(t.Context(), l); err == nil {
			t.Errorf("%s: the slow one got %+v, want none", how, g)
		}
	}
}
