package zookeeper_test

import (
	"errors"
	"fmt"
	"path"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/zookeeper"
)

// The answer to a create is lost, and nobody asks for the claim again, or takes it
// back. The session goes on, and so would the node: it ends with the TTL of the claim
// as soon as there is a connection again. H02.
func TestACreateOfWhichNobodyHears(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t, 1)[0]
	raw := rawClient(t, server.Addr)
	proxy := testserver.StartProxy(t, server.Addr)
	a, b := newUser(t, server.Addr), newUser(t, proxy.Addr)
	held := a.take(a.mutex("k", 30*time.Second))
	await(t, "the answer is lost", func() error {
		c := b.mutex("k", time.Second)
		if _, err := b.Inspect(t.Context(), "k", 1); err != nil { // it is connected
			return err
		}
		proxy.Delay(testserver.Replies, 100*time.Millisecond)
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
		isolate(proxy)
		if err := <-failed; errors.Is(err, driver.ErrHeld) { // the answer was faster
			proxy.Heal()
			return errors.Join(errors.New("there was an answer"), b.Release(t.Context(), c))
		}
		return nil
	})
	proxy.Heal()
	await(t, "the node ends", func() error {
		if left := nodes(t, raw, "/pawl/k"); len(left) != 1 || left[0] != path.Base(held.Grant.Ref) {
			return fmt.Errorf("%q are there, want the holder's alone", left)
		}
		return nil
	})
}

// The same for a claim that another process has renewed, and so taken over.
func TestATakeoverOfWhichNobodyHears(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t, 1)[0]
	raw := rawClient(t, server.Addr)
	proxy := testserver.StartProxy(t, server.Addr)
	a, b := newUser(t, server.Addr), newUser(t, proxy.Addr)
	await(t, "the answer is lost", func() error {
		c := a.take(a.mutex("k", 3*time.Second))
		if _, err := b.Inspect(t.Context(), "k", 1); err != nil { // it is connected
			return err
		}
		proxy.Delay(testserver.Replies, 100*time.Millisecond)
		failed := make(chan error, 1)
		go func() {
			_, err := b.Renew(t.Context(), c)
			failed <- err
		}()
		await(t, "the claim goes over", func() error {
			if there, _, err := raw.Exists(c.Grant.Ref); err != nil || there {
				return fmt.Errorf("its node is there, or %v", err)
			}
			return nil
		})
		isolate(proxy)
		if err := <-failed; err == nil || errors.Is(err, driver.ErrLost) {
			proxy.Heal()
			return errors.Join(fmt.Errorf("there was an answer: %v", err), a.Release(t.Context(), c))
		}
		return nil
	})
	proxy.Heal()
	await(t, "the node ends", func() error {
		if left := nodes(t, raw, "/pawl/k"); len(left) != 0 {
			return fmt.Errorf("%q are there", left)
		}
		return nil
	})
}

// Who does not wait, but tries again and again, ends the claim of a dead process as a
// waiter does, and not sooner.
func TestWhoTriesAgainEndsTheClaimOfTheDead(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t, 1)[0]
	proxy := testserver.StartProxy(t, server.Addr)
	dead, other := newUser(t, proxy.Addr), newUser(t, server.Addr)
	const ttl = time.Second
	sent := time.Now()
	dead.take(dead.mutex("k", ttl))
	proxy.Blackhole()
	for {
		c := other.mutex("k", ttl)
		c.Queue = false
		_, err := other.Acquire(t.Context(), c)
		if err == nil {
			break
		}
		if !errors.Is(err, driver.ErrHeld) || time.Since(sent) > 20*time.Second {
			t.Fatalf("a try, %v after the last sign of life: got %v, want ErrHeld, and a grant soon", time.Since(sent), err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if took := time.Since(sent); took < ttl {
		t.Errorf("granted %v after the last sign of life, want not before its TTL of %v", took, ttl)
	}
}

// A backend that was closed takes nothing any more, and ends what it has kept with
// its TTL, unless it is released before.
func TestAClosedBackendTakesNothing(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t, 1)[0]
	raw := rawClient(t, server.Addr)
	u := newUser(t, server.Addr)
	long, short := u.take(u.mutex("long", 20*time.Second)), u.take(u.mutex("short", time.Second))
	u.Close()
	if g, err := u.Acquire(t.Context(), u.mutex("another", time.Second)); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("Acquire: got %+v, %v, want ErrRefused", g, err)
	}
	gone := func(c driver.Claim) {
		t.Helper()
		await(t, "the claim on "+c.Key+" ends", func() error {
			if left := nodes(t, raw, "/pawl/"+c.Key); len(left) != 0 {
				return fmt.Errorf("%q are there", left)
			}
			return nil
		})
	}
	gone(short)
	if left := nodes(t, raw, "/pawl/long"); len(left) != 1 {
		t.Errorf("the other: got %q, want that it is there", left)
	}
	if err := u.Release(t.Context(), long); err != nil {
		t.Errorf("Release: %v", err)
	}
	gone(long)
	await(t, "the session has ended", func() error {
		if _, err := u.Inspect(t.Context(), "k", 1); err == nil {
			return errors.New("it is served")
		}
		return nil
	})
}

// isolate loses what is under way to the client, and lets it connect no more.
func isolate(p *testserver.Proxy) {
	p.Drop(testserver.Replies)
	p.Refuse()
	p.Cut()
}

// lasts: a follower is lost together with the holder, at once after it has answered
// a renewal, so that the leader need not know of that. The claim outlasts its grant,
// which is for the longest TTL that there is.
func lasts(t *testing.T, servers ensemble) {
	const session = 6 * time.Second
	victim, leader := servers.find(t, "follower"), servers.find(t, "leader")
	raw := rawClient(t, leader.Addr)
	b, err := zookeeper.New([]string{victim.Addr}, &zookeeper.Options{SessionTimeout: session, TickTime: testserver.ZooKeeperTick})
	if err != nil {
		t.Fatal(err)
	}
	u := user{b, t, driver.NewIdentity("t")}
	defer u.Close()
	await(t, "the client is connected", func() error {
		_, err := u.Inspect(t.Context(), "lasts", 1)
		return err
	})
	c := u.take(u.mutex("lasts", u.Traits().MaxTTL))
	time.Sleep(session/3 - 200*time.Millisecond) // just before the client pings
	sent := time.Now()
	g, err := u.Renew(t.Context(), c)
	victim.Kill()
	if err != nil {
		t.Fatal(err)
	}
	if least := session / 3; g.TTL < least {
		t.Errorf("TTL: got %v, want %v at least", g.TTL, least)
	}
	await(t, "the session ends", func() error {
		if there, _, err := raw.Exists(c.Grant.Ref); err != nil || there {
			return fmt.Errorf("its node is there, or %v", err)
		}
		return nil
	})
	if lasted := time.Since(sent); lasted < g.TTL {
		t.Errorf("the claim ended %v after its renewal was sent, and was granted %v", lasted, g.TTL)
	} else {
		t.Logf("granted %v, lasted %v", g.TTL, lasted)
	}
	victim.Start()
}
