package goredis_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
	"github.com/pawlock/pawl/internal/testserver"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

func newSentinelClient(t testing.TB, s *testserver.Sentinel) *client {
	rdb := goredis.NewFailoverClient(&goredis.FailoverOptions{MasterName: s.Name, SentinelAddrs: s.Addrs(), ContextTimeoutEnabled: true})
	b := &client{Backend: adapter.New(rdb), rdb: rdb, ids: driver.NewIdentity("host:1")}
	t.Cleanup(func() {
		b.Close()
		rdb.Close()
	})
	return b
}

func TestConformanceThroughSentinel(t *testing.T) {
	s := testserver.StartSentinel(t, testserver.SentinelOptions{Replicas: 1})
	drivertest.Run(t, drivertest.Harness{
		New: func(t *testing.T) drivertest.Store {
			return drivertest.Store{Connect: func() driver.Backend { return newSentinelClient(t, s) }}
		},
	})
}

// A master dies that has granted what no replica has heard of: the old holder is
// told, the next one has a greater token, and those who wait go on.
// Cases G01, R02.
func TestAFailoverThatLosesALockTellsItsHolder(t *testing.T) {
	s := testserver.StartSentinel(t, testserver.SentinelOptions{})
	holder, other := newSentinelClient(t, s), newSentinelClient(t, s)
	lost := make(chan error, 1)
	locks, err := pawl.New(holder.Backend, &pawl.Options{TTL: time.Minute, RenewEvery: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	warm := other.must(t, other.mutex("warm")) // and to know the server's clock
	other.release(t, warm)

	master := s.Servers[0]
	for _, r := range s.Servers[1:] {
		r.Stop()
	}
	master.Do("CLIENT", "KILL", "TYPE", "replica") // or what was sent would arrive once they go on
	lease, err := locks.Mutex("k").Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waiting := other.wait(t, other.mutex("k"))
	other.awaitLine(t, "k", 1)
	go func() {
		<-lease.Context().Done()
		lost <- context.Cause(lease.Context())
	}()
	master.Kill()
	for _, r := range s.Servers[1:] {
		r.Continue()
	}
	killed := time.Now()
	s.Master(master)
	t.Logf("another master after %v", time.Since(killed))

	a := granted(t, waiting)
	if a.claim.Grant.Token <= lease.Token() {
		t.Errorf("token after the failover: got %d, want more than %d of the one that was lost", a.claim.Grant.Token, lease.Token())
	}
	err = <-lost
	var le *pawl.LostError
	if !errors.As(err, &le) || le.Reason != driver.Stolen && le.Reason != driver.Deleted {
		t.Errorf("what the old holder is told: got %v, want that the lock is lost: stolen, or deleted", err)
	}
	if took := time.Since(killed); took > 30*time.Second {
		t.Errorf("the old holder was told after %v, want it at its next renewal and not at the end of its TTL", took)
	}
	// Calls come from the new master, too.
	third := other.wait(t, other.mutex("k"))
	other.awaitLine(t, "k", 1)
	await(t, "it listens at the new master", func() bool {
		channels := 0 // of whichever it is by now: on a busy machine Sentinel may take it for dead too
		for _, r := range s.Servers[1:] {
			channels += len(r.Do("PUBSUB", "CHANNELS", "pawl:wake:*").([]any))
		}
		return channels == 1
	})
	other.release(t, a.claim)
	other.release(t, granted(t, third).claim)
}

// A server that is made a replica under its clients says READONLY: nothing is
// granted, and a hold is neither renewed nor said to be lost.
// Case G05.
func TestAServerThatIsNoMasterAnyMoreRefuses(t *testing.T) {
	other := testserver.StartRedis(t, testserver.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newClient(t, s.Addr)
	held := c.must(t, c.mutex("k"))
	host, port, _ := net.SplitHostPort(other.Addr)
	s.Do("REPLICAOF", host, port)
	refused := func(when string) {
		t.Helper()
		_, errRenew := c.Renew(t.Context(), held)
		_, errAcquire := c.Acquire(t.Context(), c.mutex("free"))
		for _, err := range []error{errRenew, errAcquire, c.Release(t.Context(), held)} {
			if !errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrLost) || errors.Is(err, driver.ErrHeld) {
				t.Errorf("%s: got %v, want ErrRefused alone", when, err)
			}
		}
	}
	refused("on a replica")
	await(t, "it has what its master has, nothing", func() bool { return s.Do("DBSIZE") == int64(0) })
	refused("on a replica in sync") // that the key is not there means nothing
	s.Do("CONFIG", "SET", "replica-serve-stale-data", "no")
	other.Kill()
	await(t, "its master is down", func() bool { _, err := s.Try("GET", "k"); return err != nil })
	refused("on a replica whose master is down")

	s.Do("REPLICAOF", "NO", "ONE")
	if _, err := c.Renew(t.Context(), held); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Renew at a master that has not the key: got %v, want ErrLost", err)
	}
	if next := c.must(t, c.mutex("k")); next.Grant.Token <= held.Grant.Token {
		t.Errorf("next token: got %d, want more than %d", next.Grant.Token, held.Grant.Token)
	}
}
