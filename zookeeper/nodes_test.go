package zookeeper_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
)

// nodes returns the names below path.
func nodes(t *testing.T, raw *zk.Conn, path string) []string {
	t.Helper()
	names, _, err := raw.Children(path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	return names
}

// Somebody deletes a holder's node: the next in line has the key, the holder is
// told at its next renewal, and to force out what is gone changes nothing. Cases
// A06, A07, O08.
func TestANodeIsDeletedByHand(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t, 1)[0]
	raw := rawClient(t, server.Addr)
	a, b := newUser(t, server.Addr), newUser(t, server.Addr)
	held, waits := a.take(a.mutex("k", 20*time.Second)), b.mutex("k", 20*time.Second)
	b.refuse(waits)
	if err := raw.Delete(held.Grant.Ref, -1); err != nil {
		t.Fatal(err)
	}
	next := b.take(waits)
	var lost *driver.LostError
	if _, err := a.Renew(t.Context(), held); !errors.As(err, &lost) || lost.Reason != driver.Stolen {
		t.Errorf("Renew: got %v, want that another has it", err)
	}
	for range 2 {
		if err := a.Release(t.Context(), held); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Release: got %v, want ErrLost", err)
		}
		if err := a.Revoke(t.Context(), "k", held.ID, driver.Notice{Force: true}); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Revoke: got %v, want ErrLost", err)
		}
	}
	if _, err := b.Renew(t.Context(), next); err != nil {
		t.Errorf("Renew of the next: %v", err)
	}
	// Two at once force out the same holder, and a third deletes its node.
	done := make(chan error, 2)
	for range 2 {
		go func() { done <- a.Revoke(t.Context(), "k", next.ID, driver.Notice{Force: true}) }()
	}
	raw.Delete(next.Grant.Ref, -1)
	for range 2 {
		if err := <-done; err != nil && !errors.Is(err, driver.ErrLost) {
			t.Errorf("Revoke: got %v, want nil or ErrLost", err)
		}
	}
	a.take(a.mutex("k", 20*time.Second))
}

// The node ahead vanishes at any moment around the start of the wait. Case D04.
func TestTheNodeAheadVanishesAsItIsWatched(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t, 1)[0]
	raw := rawClient(t, server.Addr)
	a, b := newUser(t, server.Addr), newUser(t, server.Addr)
	for range 40 {
		held, waits := a.take(a.mutex("k", 20*time.Second)), b.mutex("k", 20*time.Second)
		h := b.refuse(waits)
		woken := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		go func() { woken <- b.Wait(ctx, waits, h) }()
		time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond)
		if err := raw.Delete(held.Grant.Ref, -1); err != nil {
			t.Fatal(err)
		}
		if err := <-woken; err != nil {
			t.Fatalf("Wait: got %v, want that it is woken", err)
		}
		cancel()
		if err := b.Release(t.Context(), b.take(waits)); err != nil {
			t.Fatal(err)
		}
	}
}

// The answer to a create is lost: the next attempt of the claim finds its node, and
// a release leaves none. Cases H01, H02.
func TestACreateWithoutAnAnswerIsFoundAgain(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t, 1)[0]
	raw := rawClient(t, server.Addr)
	proxy := testserver.StartProxy(t, server.Addr)
	a, b := newUser(t, server.Addr), newUser(t, proxy.Addr)
	held := a.take(a.mutex("k", 20*time.Second))
	for i := range 3 {
		c := b.mutex("k", 20*time.Second)
		if _, err := b.Inspect(t.Context(), "k", 1); err != nil { // it is connected
			t.Fatal(err)
		}
		// The two reads before the create are answered, as far as it goes.
		proxy.Delay(testserver.Replies, time.Duration(i+1)*15*time.Millisecond)
		failed := make(chan error, 1)
		go func() {
			_, err := b.Acquire(t.Context(), c)
			failed <- err
		}()
		await(t, "the node is made", func() error {
			if n := len(nodes(t, raw, "/pawl/k")); n != 2 {
				return fmt.Errorf("%d nodes", n)
			}
			return nil
		})
		proxy.Drop(testserver.Replies)
		proxy.Cut()
		proxy.Heal()
		if err := <-failed; err == nil {
			t.Fatal("Acquire of what is held: got a grant")
		}
		await(t, "the claim has its place", func() error {
			_, err := b.Acquire(t.Context(), c)
			var held *driver.HeldError
			if !errors.As(err, &held) {
				return fmt.Errorf("got %w", err)
			}
			if held.Place != 1 {
				t.Fatalf("place: got %d, want 1", held.Place)
			}
			return nil
		})
		if names := nodes(t, raw, "/pawl/k"); len(names) != 2 {
			t.Errorf("nodes: got %q, want one for each claim", names)
		}
		if err := b.Release(t.Context(), c); err != nil {
			t.Error(err)
		}
		if names := nodes(t, raw, "/pawl/k"); len(names) != 1 {
			t.Errorf("nodes: got %q, want the holder's", names)
		}
	}
	a.Release(t.Context(), held)
}

// Connections break all the time while locks are acquired, released, and given up
// at random: nothing is left behind but what somebody holds, no lock of later is
// the worse for it, and a closed client leaves nothing at all. Cases B16, E07, E08,
// G11, H08, O07, P10.
func TestBrokenConnectionsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t, 1)[0]
	raw := rawClient(t, server.Addr)
	proxy := testserver.StartProxy(t, server.Addr)
	b := connect(t, proxy.Addr)
	defer b.Close()
	const ttl = 2 * time.Second
	client, err := pawl.New(b, &pawl.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(rand.IntN(150)) * time.Millisecond):
				proxy.Cut()
			}
		}
	}()
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(200))*time.Millisecond)
		if lease, err := client.Mutex("k").Acquire(ctx); err == nil {
			dead, kill := context.WithCancel(t.Context())
			kill()
			lease.Release(dead) // which works on a context that is over
		}
		cancel()
	}
	close(stop)
	<-stopped
	await(t, "what was given up is gone", func() error {
		if left := nodes(t, raw, "/pawl/k"); len(left) > 0 {
			return fmt.Errorf("%q are there", left)
		}
		return nil
	})
	var lease *pawl.Lease
	await(t, "a lock is granted afterwards", func() (err error) { // the last connection may just be made anew
		lease, err = client.Mutex("k").Acquire(t.Context())
		return err
	})
	if lease.Context().Err() != nil {
		t.Error("the lease is over at once")
	}
	client.Close()
	await(t, "a closed client holds nothing", func() error {
		if left := nodes(t, raw, "/pawl/k"); len(left) > 0 {
			return fmt.Errorf("%q are there", left)
		}
		return nil
	})
}
