package zookeeper_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/zookeeper"
)

var faultsFor = flag.Duration("zookeeper.faults", 8*time.Second, "how long the servers and wires of an ensemble are made to fail")

// An ensemble is three servers, some of which may be down.
type ensemble []*testserver.ZooKeeper

// find waits until a server is in mode, leader or follower, and returns it.
func (e ensemble) find(t *testing.T, mode string) *testserver.ZooKeeper {
	t.Helper()
	var found *testserver.ZooKeeper
	await(t, "there is a "+mode, func() error {
		for _, s := range e {
			if m, err := s.Mode(); err == nil && m == mode {
				found = s
				return nil
			}
		}
		return errors.New("there is none")
	})
	return found
}

// A station is a client with wires of its own to all servers.
type station struct {
	client  *pawl.Client
	proxies []*testserver.Proxy
}

// station connects a client to first, and lets it know of the others.
func (e ensemble) station(t *testing.T, ttl, session time.Duration, first *testserver.ZooKeeper) *station {
	t.Helper()
	s := new(station)
	var addrs []string
	for _, server := range e {
		p := testserver.StartProxy(t, server.Addr)
		if first != nil && server != first {
			p.Refuse()
		}
		s.proxies, addrs = append(s.proxies, p), append(addrs, p.Addr)
	}
	b, err := zookeeper.New(addrs, &zookeeper.Options{SessionTimeout: session, TickTime: testserver.ZooKeeperTick})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the client is connected", func() error {
		_, err := b.Inspect(t.Context(), "none", 1)
		return err
	})
	s.heal()
	if s.client, err = pawl.New(b, &pawl.Options{TTL: ttl, RenewEvery: min(ttl/3, time.Second)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.client.Close()
		b.Close()
	})
	return s
}

func (s *station) all(do func(*testserver.Proxy)) {
	for _, p := range s.proxies {
		do(p)
	}
}

func (s *station) heal() { s.all((*testserver.Proxy).Heal) }

// Three servers, of which one is down or silent now and then. Case G13.
func TestThreeServers(t *testing.T) {
	t.Parallel()
	servers := ensemble(testserver.StartZooKeeper(t, 3))
	t.Run("a lock survives the loss of one", func(t *testing.T) { survives(t, servers) })
	t.Run("a session lasts for as long as was granted", func(t *testing.T) { lasts(t, servers) })
	t.Run("one of three grants nothing", func(t *testing.T) { minority(t, servers) })
	t.Run("what clients saw is sound", func(t *testing.T) { sound(t, servers) })
}

// survives: a lock goes on while one of the servers is lost, the one that its
// holder used or the leader, killed or frozen.
func survives(t *testing.T, servers ensemble) {
	const ttl = 15 * time.Second
	for _, fault := range []struct {
		name, mode   string
		strike, mend func(*testserver.ZooKeeper)
	}{
		{"a follower is killed", "follower", (*testserver.ZooKeeper).Kill, (*testserver.ZooKeeper).Start},
		{"a follower freezes", "follower", (*testserver.ZooKeeper).Stop, (*testserver.ZooKeeper).Continue},
		{"the leader is killed", "leader", (*testserver.ZooKeeper).Kill, (*testserver.ZooKeeper).Start},
		{"the leader freezes", "leader", (*testserver.ZooKeeper).Stop, (*testserver.ZooKeeper).Continue},
	} {
		t.Run(fault.name, func(t *testing.T) {
			victim := servers.find(t, fault.mode)
			holder, other := servers.station(t, ttl, 40*time.Second, victim), servers.station(t, ttl, 40*time.Second, nil)
			lease, err := holder.client.Mutex(fault.name).Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			fault.strike(victim)
			struck := time.Now()
			await(t, "the lease is renewed at another server", func() error {
				switch {
				case lease.Context().Err() != nil:
					t.Fatalf("%v after the fault: %v", time.Since(struck), context.Cause(lease.Context()))
				case lease.Deadline().Before(struck.Add(ttl + time.Second)): // sent a second after it at the earliest
					return fmt.Errorf("it ends %v after the fault", lease.Deadline().Sub(struck))
				}
				return nil
			})
			t.Logf("renewed within %v", time.Since(struck))
			await(t, "the other is told that it is held", func() error {
				_, err := other.client.Mutex(fault.name).TryAcquire(t.Context())
				if err == nil {
					t.Fatal("the other was granted what is held")
				}
				if !errors.Is(err, pawl.ErrHeld) {
					return err
				}
				return nil
			})
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("Release: %v", err)
			}
			fault.mend(victim)
			next, err := other.client.Mutex(fault.name).Acquire(t.Context())
			if err != nil || next.Token() <= lease.Token() {
				t.Fatalf("the next: got %v, %v, want a token above %d", next, err, lease.Token())
			}
			next.Release(t.Context())
		})
	}
}

// A holder that is cut off from all servers is told before another has the lock,
// also if his session goes on for long after. A01, A02.
func TestAPartitionedHolderIsToldFirst(t *testing.T) {
	t.Parallel()
	servers := ensemble(testserver.StartZooKeeper(t, 1))
	const ttl = 2 * time.Second
	for _, session := range []time.Duration{3 * time.Second, 40 * time.Second} { // either may end the claim
		t.Run(session.String(), func(t *testing.T) {
			holder, other := servers.station(t, ttl, session, nil), servers.station(t, ttl, session, nil)
			key := session.String()
			lease, err := holder.client.Mutex(key).Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			granted := make(chan time.Time, 1)
			go func() {
				next, err := other.client.Mutex(key).Acquire(t.Context())
				granted <- time.Now()
				if err != nil || next.Token() <= lease.Token() {
					t.Errorf("the other: got %v, %v, want a token above %d", next, err, lease.Token())
				}
			}()
			holder.all((*testserver.Proxy).Blackhole)
			var told time.Time
			select {
			case <-lease.Context().Done():
				told = time.Now()
			case <-granted:
				t.Fatal("the other has the lock, and the holder knows nothing")
			}
			if cause := context.Cause(lease.Context()); !errors.Is(cause, pawl.ErrLost) {
				t.Errorf("cause: got %v, want ErrLost", cause)
			}
			at := <-granted
			t.Logf("told %v before the other was granted the lock", at.Sub(told))
			holder.heal()
			if _, err := holder.client.Mutex(key).TryAcquire(t.Context()); !errors.Is(err, pawl.ErrHeld) {
				await(t, "the holder hears of the other", func() error { // its connection may be that of before
					_, err := holder.client.Mutex(key).TryAcquire(t.Context())
					if errors.Is(err, pawl.ErrHeld) {
						return nil
					}
					return fmt.Errorf("got %w", err)
				})
			}
			if err := lease.Release(t.Context()); !errors.Is(err, pawl.ErrLost) {
				t.Errorf("Release of the lost lease: got %v, want ErrLost", err)
			}
		})
	}
}

// When a session has expired its claims are gone, and the same backend takes new
// ones, in a new session. It holds by no node of the old one. A08, G10, M05.
func TestASessionThatExpired(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t, 1)[0]
	proxy := testserver.StartProxy(t, server.Addr)
	b, err := zookeeper.New([]string{proxy.Addr}, &zookeeper.Options{SessionTimeout: 5 * time.Second, TickTime: testserver.ZooKeeperTick})
	if err != nil {
		t.Fatal(err)
	}
	u := user{b, t, driver.NewIdentity("t")}
	t.Cleanup(func() { u.Close() })
	raw := rawClient(t, server.Addr)
	nodes := func() []string {
		names, _, err := raw.Children("/pawl/k")
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	const ttl = 3500 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	held := u.await(ctx, u.mutex("k", ttl))
	waits := u.mutex("k", ttl)
	u.refuse(waits)
	proxy.Blackhole()
	await(t, "the session expires", func() error {
		if left := nodes(); len(left) > 0 {
			return fmt.Errorf("%q are there", left)
		}
		return nil
	})
	proxy.Heal()
	await(t, "the holder is told", func() error {
		_, err := u.Renew(t.Context(), held)
		if errors.Is(err, driver.ErrLost) {
			return nil
		}
		return fmt.Errorf("got %w", err)
	})
	if err := u.Release(t.Context(), held); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Release of what was lost: got %v, want ErrLost", err)
	}
	next := u.await(ctx, waits) // who waited joins again
	if next.Grant.Token <= held.Grant.Token {
		t.Errorf("token in the new session: got %d, want more than %d", next.Grant.Token, held.Grant.Token)
	}
	if left := nodes(); len(left) != 1 {
		t.Errorf("nodes: got %q, want one", left)
	}
}

// endOf is when a client stops to rely on a lease: now, or when it ended before.
func endOf(lease *pawl.Lease) time.Time {
	now := time.Now()
	if end := lease.Deadline(); end.Before(now) {
		return end
	}
	return now
}

// sound: servers are killed and frozen, clients cut off, their connections broken,
// one fault about every second: what the clients saw is sound, with no exception.
func sound(t *testing.T, servers ensemble) {
	if testing.Short() {
		t.Skip("takes 15 s")
	}
	var (
		history  drivertest.History
		stations []*station
		mu       sync.Mutex
		top      = make(map[string]uint64)
		all      sync.WaitGroup
		faults   = make(map[string]int)
		end      = time.Now().Add(*faultsFor)
		seed     = rand.Uint64()
		random   = rand.New(rand.NewPCG(seed, 0))
	)
	write := func(key string, lease *pawl.Lease) {
		mu.Lock()
		defer mu.Unlock()
		ok := lease.Token() >= top[key]
		if ok {
			top[key] = lease.Token()
		}
		history.Wrote(drivertest.Write{Key: key, Token: lease.Token(), Accepted: ok})
	}
	for range 4 {
		stations = append(stations, servers.station(t, 2*time.Second, 40*time.Second, nil))
	}
	for i, s := range stations {
		r := rand.New(rand.NewPCG(seed, uint64(i+1)))
		all.Go(func() {
			for time.Now().Before(end) {
				key := []string{"x", "y"}[r.IntN(2)]
				ctx, cancel := context.WithDeadline(t.Context(), end.Add(2*time.Second))
				sent := time.Now()
				lease, err := s.client.Mutex(key).Acquire(ctx)
				cancel()
				if err != nil {
					continue // an outage
				}
				c := driver.Claim{Key: key, ID: lease.Holder(), Weight: 1, Capacity: 1, Grant: driver.Grant{Token: lease.Token(), TTL: time.Hour}}
				h := history.Granted(c, sent, time.Now())
				for range 1 + r.IntN(4) {
					if !lease.Valid() {
						break
					}
					write(key, lease)
					time.Sleep(time.Duration(r.Int64N(int64(600 * time.Millisecond))))
				}
				history.Ended(h, endOf(lease))
				lease.Release(context.Background())
			}
		})
	}
	pause := func(least, most time.Duration) { time.Sleep(least + time.Duration(random.Int64N(int64(most-least)))) }
	for time.Now().Before(end) {
		pause(300*time.Millisecond, 1200*time.Millisecond)
		server, s := servers[random.IntN(3)], stations[random.IntN(len(stations))]
		switch random.IntN(5) {
		case 0:
			faults["killed"]++
			server.Kill()
			pause(0, time.Second)
			server.Start()
		case 1:
			faults["frozen"]++
			server.Stop()
			pause(200*time.Millisecond, 3*time.Second)
			server.Continue()
		case 2:
			faults["cut off"]++
			s.all((*testserver.Proxy).Blackhole)
			pause(200*time.Millisecond, 3*time.Second)
			s.heal()
		case 3:
			faults["replies lost"]++
			s.all(func(p *testserver.Proxy) { p.Drop(testserver.Replies) })
			pause(50*time.Millisecond, 500*time.Millisecond)
			s.all((*testserver.Proxy).Cut)
			s.heal()
			s.all((*testserver.Proxy).Cut)
		case 4:
			faults["reset"]++
			for range 5 {
				s.all((*testserver.Proxy).Reset)
				pause(10*time.Millisecond, 100*time.Millisecond)
			}
		}
	}
	all.Wait()
	t.Logf("seed %d: %d leases, faults %v", seed, history.Holds(), faults)
	for _, v := range history.Check() {
		t.Error(v)
	}
	if history.Holds() < 5 {
		t.Errorf("leases: got %d, want at least 5", history.Holds())
	}
	// Nothing is left: whoever comes now is served.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, key := range []string{"x", "y"} {
		if lease, err := stations[0].client.Mutex(key).Acquire(ctx); err != nil {
			t.Errorf("Acquire of %q afterwards: %v", key, err)
		} else {
			lease.Release(ctx)
		}
	}
}
