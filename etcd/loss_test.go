package etcd_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/etcd"
	"github.com/pawlock/pawl/internal/testserver"
)

// lostBecause waits until the lease has ended, and checks why.
func lostBecause(t testing.TB, lease *pawl.Lease, reason string) {
	t.Helper()
	select {
	case <-lease.Context().Done():
	case <-time.After(patience):
		t.Fatalf("the holder was not told within %v", patience)
	}
	var lost *pawl.LostError
	if err := context.Cause(lease.Context()); !errors.As(err, &lost) || lost.Reason != reason {
		t.Errorf("the holder was told %v, want a loss: %s", err, reason)
	}
}

// An operator ends the lease behind a lock. The holder is told at its next
// renewal, its Release says so, and the same client gets a new lease. Cases A06,
// A08.
func TestARevokedLeaseIsLoss(t *testing.T) {
	releases(t, func(t *testing.T, current bool) {
		etcdctl := testserver.EtcdProgram(t, "etcdctl", current)
		server := testserver.StartEtcd(t, testserver.EtcdOptions{Current: current})[0]
		store := connect(t, server.Addr)
		client := newClient(t, etcd.New(store, nil), 6*time.Second)
		lease := mustTry(t, client.Mutex("k"))
		before := lease.Token()
		kvs, err := store.Get(t.Context(), "k/", clientv3.WithPrefix())
		if err != nil || len(kvs.Kvs) != 1 {
			t.Fatalf("got %v, %v, want the key of one claim", kvs, err)
		}
		revoke(t, etcdctl, server.Addr, kvs.Kvs[0].Lease)
		lostBecause(t, lease, driver.Expired)
		if err := lease.Release(t.Context()); !errors.Is(err, pawl.ErrLost) {
			t.Errorf("Release after that: got %v, want ErrLost", err)
		}
		lease = mustTry(t, client.Mutex("k"))
		if lease.Token() <= before {
			t.Errorf("token after that: got %d, want more than %d", lease.Token(), before)
		}
		if err := lease.Renew(t.Context()); err != nil {
			t.Errorf("Renew of the new lease: %v", err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		nothingLeft(t, store)
	})
}

// An operator deletes the key, and another gets the lock: the holder is told that
// at its next renewal, and nothing that it does touches the other. Case A07.
func TestADeletedKeyIsLoss(t *testing.T) {
	t.Parallel()
	server := testserver.StartEtcd(t, testserver.EtcdOptions{})[0]
	store := connect(t, server.Addr)
	a := newClient(t, etcd.New(store, nil), 6*time.Second)
	b := newClient(t, etcd.New(store, nil), 6*time.Second)
	first, alone := mustTry(t, a.Mutex("k")), mustTry(t, a.Mutex("alone"))
	if _, err := store.Delete(t.Context(), "", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	second := mustTry(t, b.Mutex("k"))
	lostBecause(t, first, driver.Stolen)
	lostBecause(t, alone, driver.Deleted)
	if err := first.Release(t.Context()); !errors.Is(err, pawl.ErrLost) {
		t.Errorf("Release of the first: got %v, want ErrLost", err)
	}
	if err := second.Renew(t.Context()); err != nil {
		t.Errorf("Renew of the second: %v", err)
	}
	if second.Token() <= first.Token() {
		t.Errorf("tokens: got %d after %d", second.Token(), first.Token())
	}
}

// A claim whose lease ends while it waits is not granted afterwards on the ground
// of what it was: it is told at once, and goes to the end of the line. Case A10.
func TestAWaiterWhoseLeaseEndsGoesToTheEnd(t *testing.T) {
	t.Parallel()
	server := testserver.StartEtcd(t, testserver.EtcdOptions{})[0]
	store := connect(t, server.Addr)
	b, ids := etcd.New(store, nil), driver.NewIdentity("t")
	holder, first, second := claim(ids), claim(ids), claim(ids)
	var err error
	if holder.Grant, err = b.Acquire(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	held := refused(t, b, first)
	refused(t, b, second)
	woken := make(chan error, 1)
	go func() { woken <- b.Wait(t.Context(), first, held) }()
	kvs, err := store.Get(t.Context(), "k/", clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil || len(kvs.Kvs) != 3 {
		t.Fatalf("got %v, %v, want three claims", kvs, err)
	}
	if _, err := store.Revoke(t.Context(), clientv3.LeaseID(kvs.Kvs[1].Lease)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-woken:
		if err != nil {
			t.Errorf("Wait: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("Wait did not notice that its own claim had ended")
	}
	if held := refused(t, b, first); held.Place != 2 {
		t.Errorf("place after that: got %d, want 2, behind the one that was behind it", held.Place)
	}
	if err := b.Release(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	refused(t, b, first)
	if second.Grant, err = b.Acquire(t.Context(), second); err != nil {
		t.Errorf("Acquire of the next in line: %v", err)
	}
}

// What a waiter would have been told of has been compacted while it was cut off:
// it reads the line anew, and is served.
func TestCompactionWhileWaiting(t *testing.T) {
	releases(t, func(t *testing.T, current bool) {
		server := testserver.StartEtcd(t, testserver.EtcdOptions{Current: current})[0]
		store := connect(t, server.Addr)
		proxy := testserver.StartProxy(t, server.Addr)
		b, cutOff, ids := etcd.New(store, nil), etcd.New(connect(t, proxy.Addr), nil), driver.NewIdentity("t")
		holder, waiter := claim(ids), claim(ids)
		var err error
		if holder.Grant, err = b.Acquire(t.Context(), holder); err != nil {
			t.Fatal(err)
		}
		held := refused(t, cutOff, waiter)
		woken := make(chan error, 1)
		go func() { woken <- cutOff.Wait(t.Context(), waiter, held) }()
		time.Sleep(200 * time.Millisecond) // it watches by now; if not, the test is easier
		proxy.Refuse()
		proxy.Cut()
		if err := b.Release(t.Context(), holder); err != nil {
			t.Fatal(err)
		}
		var revision int64
		for range 50 {
			resp, err := store.Put(t.Context(), "other", "x")
			if err != nil {
				t.Fatal(err)
			}
			revision = resp.Header.Revision
		}
		if _, err := store.Compact(t.Context(), revision, clientv3.WithCompactPhysical()); err != nil {
			t.Fatal(err)
		}
		proxy.Heal()
		select {
		case err := <-woken:
			if err != nil {
				t.Errorf("Wait: %v", err)
			}
		case <-time.After(patience):
			t.Fatal("Wait slept through a release that has been compacted")
		}
		if waiter.Grant, err = cutOff.Acquire(t.Context(), waiter); err != nil {
			t.Errorf("Acquire after that: %v", err)
		}
	})
}

// The answer to an Acquire is lost after the store has granted it: the same claim
// finds its grant, and a withdrawal leaves nothing. Case H02.
func TestAGrantWhoseAnswerWasLostIsFound(t *testing.T) {
	t.Parallel()
	server := testserver.StartEtcd(t, testserver.EtcdOptions{})[0]
	store := connect(t, server.Addr)
	ids := driver.NewIdentity("t")
	for n := range 8 { // the answer that is lost is to the nth exchange
		proxy := testserver.StartProxy(t, server.Addr)
		client := connect(t, proxy.Addr)
		await(t, client)
		b := etcd.New(client, nil)
		for _, again := range []bool{true, false} {
			c := claim(ids)
			proxy.Delay(testserver.Replies, 20*time.Millisecond)
			heal := dropAfter(time.Duration(n)*10*time.Millisecond, proxy, testserver.Replies)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			g, err := b.Acquire(ctx, c)
			cancel()
			heal()
			await(t, client)
			if again {
				found, err2 := b.Acquire(t.Context(), c)
				if err2 != nil || err == nil && found.Token != g.Token {
					t.Errorf("Acquire again after %v: got %+v, %v, want the grant", err, found, err2)
				}
				c.Grant = found
			} else if err == nil {
				c.Grant = g
			}
			if err := b.Release(t.Context(), c); err != nil {
				t.Errorf("Release: %v", err)
			}
			nothingLeft(t, store)
		}
	}
}

// The store deletes the claim and the answer is lost, or never learns of the
// release: repeating it is right in both cases, and leaves nothing. Case H08.
func TestAReleaseIsRepeatedUntilItIsConfirmed(t *testing.T) {
	t.Parallel()
	server := testserver.StartEtcd(t, testserver.EtcdOptions{})[0]
	store := connect(t, server.Addr)
	for _, lost := range []testserver.Direction{testserver.Requests, testserver.Replies} {
		proxy := testserver.StartProxy(t, server.Addr)
		client := connect(t, proxy.Addr)
		b, c := etcd.New(client, nil), claim(driver.NewIdentity("t"))
		var err error
		if c.Grant, err = b.Acquire(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		proxy.Delay(testserver.Replies, 20*time.Millisecond)
		heal := dropAfter(30*time.Millisecond, proxy, lost)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := b.Release(ctx, c); err == nil {
			t.Log("the release was answered before the line was cut")
		}
		cancel()
		heal()
		await(t, client)
		if err := b.Release(t.Context(), c); err != nil {
			t.Errorf("Release again: got %v, want nil", err)
		}
		nothingLeft(t, store)
	}
}

// A try whose context ends on the way leaves neither a key nor a lease, and
// nobody is blocked by it. Case E08.
func TestATryWhoseContextEndsLeavesNothing(t *testing.T) {
	t.Parallel()
	server := testserver.StartEtcd(t, testserver.EtcdOptions{})[0]
	store := connect(t, server.Addr)
	client := newClient(t, etcd.New(store, nil), 6*time.Second)
	mustRelease(t, mustTry(t, client.Mutex("k")))
	for n := range 40 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*200*time.Microsecond)
		lease, err := client.Mutex("k").TryAcquire(ctx)
		cancel()
		if err == nil {
			mustRelease(t, lease)
		}
	}
	if err := client.Close(); err != nil { // waits for what is being withdrawn
		t.Fatal(err)
	}
	nothingLeft(t, store)
}

// Two operators force the same holder at the same time, again and again: one has
// done it, the other is told that it has gone. Case O08.
func TestForcingTwiceIsToldApart(t *testing.T) {
	t.Parallel()
	server := testserver.StartEtcd(t, testserver.EtcdOptions{})[0]
	store := connect(t, server.Addr)
	b, ids := etcd.New(store, nil), driver.NewIdentity("t")
	for range 10 {
		c := claim(ids)
		g, err := b.Acquire(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		outcomes := make(chan error, 3)
		for range 3 {
			all.Go(func() {
				outcomes <- b.Revoke(t.Context(), c.Key, g.Holder, driver.Notice{Force: true, By: "ops"})
			})
		}
		all.Wait()
		close(outcomes)
		done := 0
		for err := range outcomes {
			if err == nil {
				done++
			} else if !errors.Is(err, driver.ErrLost) {
				t.Errorf("Revoke: got %v, want nil or ErrLost", err)
			}
		}
		if done != 1 {
			t.Errorf("three forced one holder: got %d successes, want 1", done)
		}
	}
}

// A TTL is rounded up to what the server counts in, and never below its minimum,
// and the grant tells. Case J10.
func TestTheGrantTellsTheTTLOfTheStore(t *testing.T) {
	t.Parallel()
	quick := testserver.StartEtcd(t, testserver.EtcdOptions{})[0]
	slow := testserver.StartEtcd(t, testserver.EtcdOptions{Args: []string{"--heartbeat-interval", "500", "--election-timeout", "5000"}})[0]
	for _, x := range []struct {
		server    *testserver.Etcd
		ask, want time.Duration
	}{
		{quick, 2 * time.Second, 2 * time.Second},
		{quick, 2*time.Second + 1, 3 * time.Second},
		{quick, 90500 * time.Millisecond, 91 * time.Second},
		{slow, 2 * time.Second, 8 * time.Second},
	} {
		b, c := etcd.New(connect(t, x.server.Addr), nil), claim(driver.NewIdentity("t"))
		c.TTL = x.ask
		for _, what := range []string{"Acquire", "Acquire again", "Renew"} {
			var err error
			if what == "Renew" {
				c.Grant, err = b.Renew(t.Context(), c)
			} else {
				c.Grant, err = b.Acquire(t.Context(), c)
			}
			if err != nil || c.Grant.TTL != x.want {
				t.Errorf("%s for %v: got a TTL of %v, %v, want %v", what, x.ask, c.Grant.TTL, err, x.want)
			}
		}
		if err := b.Release(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
}

// dropAfter lets the proxy lose what comes after d, until heal is called. What was
// lost never comes: the connections are cut.
func dropAfter(d time.Duration, proxy *testserver.Proxy, dir testserver.Direction) (heal func()) {
	var all sync.WaitGroup
	healed := make(chan struct{})
	all.Go(func() {
		select {
		case <-time.After(d):
			proxy.Drop(dir)
		case <-healed:
		}
	})
	return func() {
		close(healed)
		all.Wait()
		proxy.Heal()
		proxy.Cut()
	}
}

func claim(ids *driver.Identity) driver.Claim {
	return driver.Claim{Key: "k", ID: ids.Next(), Label: "t", Weight: 1, Capacity: 1, TTL: 20 * time.Second, Queue: true}
}

func refused(t testing.TB, b driver.Backend, c driver.Claim) *driver.HeldError {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := b.Acquire(ctx, c)
	var held *driver.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("Acquire with no room: got %v, want a *HeldError", err)
	}
	return held
}

func mustRelease(t testing.TB, lease *pawl.Lease) {
	t.Helper()
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func revoke(t testing.TB, etcdctl, addr string, lease int64) {
	t.Helper()
	if out, err := run(etcdctl, "--endpoints", addr, "lease", "revoke", strconv.FormatInt(lease, 16)); err != nil || !strings.Contains(out, "revoked") {
		t.Fatalf("etcdctl lease revoke: %v: %s", err, out)
	}
}
