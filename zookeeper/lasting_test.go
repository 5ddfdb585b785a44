package zookeeper_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
)

// A user is a backend and an identity, as of a process of its own.
type user struct {
	driver.Backend
	t   *testing.T
	ids *driver.Identity
}

func newUser(t *testing.T, addrs ...string) user {
	t.Helper()
	u := user{connect(t, addrs...), t, driver.NewIdentity("t")}
	t.Cleanup(func() { u.Close() })
	return u
}

func (u user) mutex(key string, ttl time.Duration) driver.Claim {
	return driver.Claim{Key: key, ID: u.ids.Next(), Weight: 1, Capacity: 1, TTL: ttl, Queue: true}
}

// take acquires c, which must be granted at once, and returns it with its grant.
func (u user) take(c driver.Claim) driver.Claim {
	u.t.Helper()
	g, err := u.Acquire(u.t.Context(), c)
	if err != nil {
		u.t.Fatalf("Acquire of %q: got %v, want a grant", c.Key, err)
	}
	c.Grant = g
	return c
}

// refuse acquires c, for which there must be no room.
func (u user) refuse(c driver.Claim) *driver.HeldError {
	u.t.Helper()
	g, err := u.Acquire(u.t.Context(), c)
	var held *driver.HeldError
	if !errors.As(err, &held) {
		u.t.Fatalf("Acquire of %q, which is held: got %+v, %v, want a *HeldError", c.Key, g, err)
	}
	return held
}

// await waits for c as the core does, and returns it with its grant.
func (u user) await(ctx context.Context, c driver.Claim) driver.Claim {
	u.t.Helper()
	for {
		g, err := u.Acquire(ctx, c)
		var held *driver.HeldError
		switch {
		case err == nil:
			c.Grant = g
			return c
		case ctx.Err() != nil:
			u.t.Fatalf("%q: not granted in time: %v", c.Key, err)
		case errors.As(err, &held):
			bounded, cancel := context.WithTimeout(ctx, c.TTL/3)
			u.Wait(bounded, c, held)
			cancel()
		default:
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// A raw client sees the nodes as other programs do.
func rawClient(t *testing.T, addrs ...string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(addrs, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range events {
		}
	}()
	t.Cleanup(conn.Close)
	return conn
}

// The node of a key is a container, which the store drops when it is empty. What
// was said of a claim that was ended by force survives that, and so do floors.
func TestWhatOutlivesTheNodeOfAKey(t *testing.T) {
	server := testserver.StartZooKeeper(t, 1)[0]
	raw := rawClient(t, server.Addr)
	dropped := func(key string) {
		t.Helper()
		await(t, "the server drops the empty node of "+key, func() error {
			there, _, err := raw.Exists("/pawl/" + key)
			if err == nil && there {
				err = errors.New("it is there")
			}
			return err
		})
	}
	a, b := newUser(t, server.Addr), newUser(t, server.Addr)

	forced := a.take(a.mutex("forced", 20*time.Second))
	if err := b.Revoke(t.Context(), "forced", forced.ID, driver.Notice{Force: true, By: "ops", Why: "stuck"}); err != nil {
		t.Fatal(err)
	}
	dropped("forced")
	for range 2 {
		_, renewed := a.Renew(t.Context(), forced)
		_, acquired := a.Acquire(t.Context(), forced)
		for what, err := range map[string]error{"Renew": renewed, "Acquire": acquired, "Release": a.Release(t.Context(), forced)} {
			var lost *driver.LostError
			if !errors.As(err, &lost) || lost.Reason != driver.Forced || lost.Notice == nil || lost.Notice.By != "ops" || lost.Notice.Why != "stuck" {
				t.Errorf("%s of a claim that was ended by force: got %v, want that ops forced it", what, err)
			}
		}
		b.Release(t.Context(), b.take(b.mutex("forced", 20*time.Second))) // with a new node
		dropped("forced")
	}
	if st, err := b.Inspect(t.Context(), "forced", 1); err != nil || len(st.Notices) != 1 {
		t.Errorf("Inspect: got %+v, %v, want the notice", st, err)
	}

	lifted := a.take(a.mutex("lifted", 20*time.Second))
	lifted.Floor = lifted.Grant.Token + 1<<40
	if _, err := a.Renew(t.Context(), lifted); err != nil {
		t.Fatal(err)
	}
	a.Release(t.Context(), lifted)
	last := lifted.Floor
	for range 2 {
		dropped("lifted")
		next := b.take(b.mutex("lifted", 20*time.Second))
		if next.Grant.Token <= last {
			t.Errorf("token after the floor %d, the node of the key dropped since: got %d, want more", last, next.Grant.Token)
		}
		last = next.Grant.Token
		b.Release(t.Context(), next)
	}

	a.Release(t.Context(), a.take(a.mutex("plain", 20*time.Second)))
	if names, _, err := raw.Children("/pawl/%kept"); err != nil || len(names) != 2 {
		t.Errorf("what is remembered: got %q, %v, want the two that have to be", names, err)
	}
	for holder, err := range a.List(t.Context(), "") {
		t.Errorf("List: got %+v, %v, want nobody", holder, err)
	}
}

// A process that is gone holds up those who wait for its TTL, and not for the
// session, which is longer. It relies on nothing after that either.
// Cases A08, M05.
func TestTheDeadEndWithTheirTTL(t *testing.T) { // M05, A08
	server := testserver.StartZooKeeper(t, 1)[0]
	proxy := testserver.StartProxy(t, server.Addr)
	dead, alive := newUser(t, proxy.Addr), newUser(t, server.Addr)
	const ttl = 4 * time.Second
	held := dead.take(dead.mutex("k", ttl))
	dead.refuse(dead.mutex("k", ttl)) // and one in line, between the holder and the living
	waits := alive.mutex("k", ttl)
	alive.refuse(waits)
	sent := time.Now()
	g, err := dead.Renew(t.Context(), held)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Blackhole()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // half of the session
	defer cancel()
	next := alive.await(ctx, waits)
	if since := time.Since(sent); since < g.TTL {
		t.Errorf("the next was granted %v after the holder's last renewal was sent, want %v at least", since, g.TTL)
	}
	if next.Grant.Token <= held.Grant.Token {
		t.Errorf("token of the next: got %d, want more than %d", next.Grant.Token, held.Grant.Token)
	}
	proxy.Heal()
	await(t, "the dead is told", func() error {
		_, err := dead.Renew(t.Context(), held)
		if errors.Is(err, driver.ErrLost) {
			return nil
		}
		return errors.Join(err, errors.New("not lost"))
	})
	if _, err := alive.Renew(t.Context(), next); err != nil {
		t.Errorf("Renew of the next: %v", err)
	}
	dead.refuse(dead.mutex("k", ttl)) // a new claim of the same process
}

// A renewal that comes while others watch keeps the claim: only a version that
// nobody has changed for the whole TTL is ended.
// Case D14.
func TestTheSlowAreNotTakenForDead(t *testing.T) { // D14
	server := testserver.StartZooKeeper(t, 1)[0]
	a, b := newUser(t, server.Addr), newUser(t, server.Addr)
	const ttl = 3 * time.Second
	held := a.take(a.mutex("k", ttl))
	waits := b.mutex("k", 10*time.Second)
	h := b.refuse(waits)
	ctx, cancel := context.WithTimeout(t.Context(), 3*ttl/2)
	defer cancel()
	woken := make(chan error, 1)
	go func() { woken <- b.Wait(ctx, waits, h) }()
	for sent := time.Now(); ctx.Err() == nil; {
		last := sent
		sent = time.Now()
		if _, err := a.Renew(t.Context(), held); err != nil {
			if time.Since(last) > ttl {
				t.Skipf("the machine is so busy that a renewal took %v", time.Since(sent))
			}
			t.Fatalf("Renew in time: %v", err)
		}
		select {
		case err := <-woken:
			if ctx.Err() == nil {
				t.Fatalf("Wait while the holder renews: returned %v, want that it waits", err)
			}
		case <-time.After(ttl / 6):
		}
	}
}

// Another process renews, and asks in the place of a claim that waits: the claims
// keep their order in line, go over to its session, and outlive the first one.
// Case G11.
func TestClaimsGoOverToTheProcessThatAsks(t *testing.T) {
	server := testserver.StartZooKeeper(t, 1)[0]
	raw := rawClient(t, server.Addr)
	proxy := testserver.StartProxy(t, server.Addr)
	a, b := newUser(t, proxy.Addr), newUser(t, server.Addr)
	const ttl = 3 * time.Second
	first := a.take(a.mutex("k", ttl))
	second, third := a.mutex("k", 10*ttl), b.mutex("k", 10*ttl)
	a.refuse(second)
	b.refuse(third)
	before, _, err := raw.Children("/pawl/k")
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Renew(t.Context(), first)
	if err != nil || g.Token != first.Grant.Token {
		t.Fatalf("Renew by another process: got %+v, %v, want the same token, %d", g, err, first.Grant.Token)
	}
	b.refuse(second)
	after, _, err := raw.Children("/pawl/k")
	if err != nil || len(after) != len(before) {
		t.Fatalf("nodes: got %q, %v, before it was %q", after, err, before)
	}
	owners := make(map[int64]bool)
	for _, name := range after {
		_, st, err := raw.Get("/pawl/k/" + name)
		if err != nil {
			t.Fatal(err)
		}
		owners[st.EphemeralOwner] = true
		if !strings.Contains(strings.Join(before, " "), "-lock-"+name[len(name)-10:]) {
			t.Errorf("the node %s has no sequence number of before: %q", name, before)
		}
	}
	if len(owners) != 1 {
		t.Errorf("the claims belong to %d sessions, want that of the process which asked last", len(owners))
	}
	proxy.Blackhole() // and the first process ends nothing by its timers
	for range 6 {
		time.Sleep(ttl / 4)
		if _, err := b.Renew(t.Context(), first); err != nil {
			t.Fatalf("Renew of a claim that has gone over: %v", err)
		}
	}
	b.refuse(third)
	if err := b.Release(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	b.refuse(third)
	got := b.take(second)
	if got.Grant.Token <= first.Grant.Token {
		t.Errorf("token of the second: got %d, want more than %d", got.Grant.Token, first.Grant.Token)
	}
	b.Release(t.Context(), got)
	if last := b.take(third); last.Grant.Token <= got.Grant.Token {
		t.Errorf("token of the third: got %d, want more than %d", last.Grant.Token, got.Grant.Token)
	}
}

// An attempt whose time is over takes nothing back: another one of the same claim
// may have been granted what it sees.
func TestALateAttemptUndoesNoOther(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t, 1)[0]
	proxy := testserver.StartProxy(t, server.Addr)
	a, b := newUser(t, server.Addr), newUser(t, proxy.Addr)
	for range 5 {
		held, waits := a.take(a.mutex("k", 20*time.Second)), b.mutex("k", 20*time.Second)
		b.refuse(waits)
		if err := a.Release(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		proxy.Hold(testserver.Requests, 200*time.Millisecond)
		late := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := b.Acquire(ctx, waits)
			late <- err
		}()
		waits = b.take(waits)
		if err := <-late; err == nil || errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrLost) {
			t.Errorf("Acquire after its deadline: got %v, want an error that leaves the outcome open", err)
		}
		if _, err := b.Renew(t.Context(), waits); err != nil {
			t.Errorf("Renew of what the other attempt was granted: %v", err)
		}
		if err := b.Release(t.Context(), waits); err != nil {
			t.Error(err)
		}
	}
}
