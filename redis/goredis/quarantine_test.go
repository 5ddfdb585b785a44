package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/redis"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

// brief is a quarantine as short as can be.
var brief = redis.Quarantine{MaxTTL: 1900 * time.Millisecond, Slack: 100 * time.Millisecond}

// newGuarded returns a client with a quarantine, which has begun.
func newGuarded(t testing.TB, addr string, q redis.Quarantine) *client {
	c := newClient(t, addr)
	c.Close()
	o := &redis.Options{Quarantine: &q}
	if err := redis.Bootstrap(t.Context(), adapter.NewNode(c.rdb), o); err != nil {
		t.Fatal(err)
	}
	b, err := redis.New(adapter.NewNode(c.rdb), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	c.Backend = b
	return c
}

// short is a mutex for as long as brief allows.
func (c *client) short(key string) driver.Claim {
	claim := c.mutex(key)
	claim.TTL = c.Traits().MaxTTL
	return claim
}

// refusedFor returns how long the server says that it grants nothing.
func refusedFor(t *testing.T, c *client, key string) time.Duration {
	t.Helper()
	_, err := c.Acquire(t.Context(), c.short(key))
	var q *redis.QuarantineError
	if !errors.As(err, &q) || !errors.Is(err, driver.ErrRefused) {
		t.Fatalf("Acquire of %q: got %v, want a *QuarantineError, which is ErrRefused", key, err)
	}
	return q.Left
}

// acquireSoon tries until the quarantine is over.
func (c *client) acquireSoon(t *testing.T, key string) driver.Claim {
	t.Helper()
	claim := c.short(key)
	await(t, "the quarantine is over", func() bool {
		var q *redis.QuarantineError
		g, err := c.Acquire(t.Context(), claim)
		if err != nil && !errors.As(err, &q) {
			t.Fatalf("Acquire of %q: %v", key, err)
		}
		claim.Grant = g
		return err == nil
	})
	return claim
}

// Whatever a server has forgotten, nobody gets it before the lease has ended that
// was on it, and the token rises.
// Cases G07, R02.
func TestWhatAServerForgotIsNotGrantedAgainTooSoon(t *testing.T) {
	for _, fault := range []struct {
		name string
		do   func(s *testserver.Redis)
	}{
		{"killed and started empty", func(s *testserver.Redis) { s.Kill(); s.Start() }},
		{"killed and started with an old snapshot", func(s *testserver.Redis) { s.Kill(); s.Start() }},
		{"flushed", func(s *testserver.Redis) { s.Do("FLUSHALL") }},
		{"marker deleted", func(s *testserver.Redis) { s.Do("DEL", keyOf("lock"), "pawl.node:lock:") }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			s := testserver.StartRedis(t, testserver.RedisOptions{})
			c := newGuarded(t, s.Addr, brief)
			earlier := c.must(t, c.short("k"))
			c.release(t, earlier)
			if strings.HasSuffix(fault.name, "snapshot") {
				s.Do("SAVE")
			}
			began := time.Now()
			held := c.must(t, c.short("k"))
			fault.do(s)
			if left := refusedFor(t, c, "k"); left <= 0 || left > 2*time.Second {
				t.Errorf("time left: got %v, want up to 2s", left)
			}
			if _, err := c.Renew(t.Context(), held); !errors.Is(err, driver.ErrLost) {
				t.Errorf("Renew of what was forgotten: got %v, want ErrLost", err)
			}
			refusedFor(t, c, "another")
			next := c.acquireSoon(t, "k")
			if took := time.Since(began); took < held.TTL {
				t.Errorf("the key was granted again %v after the forgotten grant, want %v at least", took, held.TTL)
			}
			if next.Grant.Token <= held.Grant.Token {
				t.Errorf("token after %d: got %d, want more", held.Grant.Token, next.Grant.Token)
			}
			c.release(t, next)
			c.release(t, c.must(t, c.short("another")))
		})
	}
}

func TestForgettingTheScriptsIsNoRestart(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newGuarded(t, s.Addr, brief)
	s.Do("SCRIPT", "FLUSH")
	c.release(t, c.must(t, c.short("k")))
}

func TestANewStoreBeginsWithAQuarantine(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newGuarded(t, s.Addr, brief)
	s.Do("FLUSHALL")
	refusedFor(t, c, "k")
	if err := redis.Bootstrap(t.Context(), adapter.NewNode(c.rdb), &redis.Options{Quarantine: &brief}); err != nil {
		t.Fatalf("Bootstrap: %v", err)
	}
	c.must(t, c.short("k"))
	if err := redis.Bootstrap(t.Context(), adapter.NewNode(c.rdb), nil); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Bootstrap without a quarantine: got %v, want ErrInvalid", err)
	}
	if life := s.Do("PTTL", "pawl.node:lock:").(int64); life <= 0 || life > 90*24*3600*1000 {
		t.Errorf("life of the marker: got %d ms, want up to 90 days", life)
	}
}

// A replica that is promoted has the marker of the master. Those whose lock has
// been replicated go on; nobody gets one that may not have been.
// Case G01.
func TestAFailoverLosesNoLockToAnother(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		t.Run(fmt.Sprintf("quarantine=%v", guarded), func(t *testing.T) {
			t.Parallel()
			master, replica := startReplicated(t)
			q := redis.Quarantine{MaxTTL: 5 * time.Second, Slack: time.Millisecond}
			before, after := newClient(t, master.Addr), newClient(t, replica.Addr)
			if guarded {
				before = newGuarded(t, master.Addr, q)
				b, err := redis.New(adapter.NewNode(after.rdb), &redis.Options{Quarantine: &q})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { b.Close() })
				after.Backend = b
			}
			claim := func(key string) driver.Claim {
				c := before.mutex(key)
				c.TTL = q.MaxTTL
				return c
			}
			survivor := before.must(t, claim("survives"))
			awaitReplica(t, master, 1)
			replica.Do("REPLICAOF", "127.0.0.1", "1") // it hears nothing from now on
			began := time.Now()
			lost := before.must(t, claim("lost"))
			master.Kill()
			replica.Do("REPLICAOF", "NO", "ONE")

			// The old holder is told at its next renewal, the other one goes on.
			if _, err := after.Renew(t.Context(), lost); !errors.Is(err, driver.ErrLost) {
				t.Errorf("Renew of the lock that was lost: got %v, want ErrLost", err)
			}
			if _, err := after.Renew(t.Context(), survivor); err != nil {
				t.Errorf("Renew of the lock that survived: %v", err)
			}
			var next driver.Claim
			if guarded {
				if left := refusedFor(t, after, "lost"); left <= 0 || left > 5001*time.Millisecond {
					t.Errorf("time left: got %v, want up to 5.001s", left)
				}
				refusedFor(t, after, "survives")
				if _, err := after.Renew(t.Context(), survivor); err != nil {
					t.Errorf("Renew during the quarantine: %v", err)
				}
				next = after.acquireSoon(t, "lost")
				if took := time.Since(began); took < lost.TTL {
					t.Errorf("the key was granted again after %v, want %v at least", took, lost.TTL)
				}
			} else {
				next = after.must(t, claim("lost"))
				if took := time.Since(began); took >= lost.TTL {
					t.Skip("the machine is too slow to show what a failover loses")
				}
			}
			if next.Grant.Token <= lost.Grant.Token {
				t.Errorf("token after %d: got %d, want more", lost.Grant.Token, next.Grant.Token)
			}
			after.release(t, next)
			if err := after.Release(t.Context(), lost); err != nil && !errors.Is(err, driver.ErrLost) {
				t.Errorf("Release of the lock that was lost: %v", err)
			}
		})
	}
}

// startReplicated returns a master and a replica that follows it.
func startReplicated(t testing.TB) (master, replica *testserver.Redis) {
	master = testserver.StartRedis(t, testserver.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})
	host, port, _ := net.SplitHostPort(master.Addr)
	replica = testserver.StartRedis(t, testserver.RedisOptions{Args: []string{"--replicaof", host, port, "--repl-diskless-sync-delay", "0"}})
	await(t, "the replica follows", func() bool {
		return strings.Contains(replica.Do("INFO", "replication").(string), "master_link_status:up")
	})
	return master, replica
}

// awaitReplica waits until n replicas have all that the master had.
func awaitReplica(t testing.TB, master *testserver.Redis, n int64) {
	t.Helper()
	c := master.Client()
	await(t, "the replicas have it", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := c.Do(ctx, "SET", "seen", "1", "PX", "60000"); err != nil {
			t.Fatal(err)
		}
		got, err := c.Do(ctx, "WAIT", n, 1000)
		return err == nil && got.(int64) >= n
	})
}

func TestClientsThatDisagreeAreTold(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newGuarded(t, s.Addr, redis.Quarantine{MaxTTL: time.Minute, Config: "n1,n2, n3"})
	c.must(t, c.short("k"))
	for _, q := range []redis.Quarantine{
		{MaxTTL: 30 * time.Second, Config: "n1,n2, n3"},
		{MaxTTL: time.Minute, Slack: 2 * time.Second, Config: "n1,n2, n3"},
		{MaxTTL: time.Minute, Config: "n1,n2"},
	} {
		b, err := redis.New(adapter.NewNode(c.rdb), &redis.Options{Quarantine: &q})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		claim := c.short("other")
		claim.TTL = time.Second
		_, err = b.Acquire(t.Context(), claim)
		var d *redis.DisagreementError
		theirs := redis.Quarantine{MaxTTL: time.Minute, Slack: time.Second, Config: "n1,n2, n3"}
		if !errors.As(err, &d) || !errors.Is(err, driver.ErrInvalid) || d.Theirs != theirs {
			t.Errorf("Acquire with %+v: got %v, want a *DisagreementError with %+v", q, err, theirs)
		}
	}
	claim := c.short("k")
	claim.TTL += time.Millisecond
	if _, err := c.Acquire(t.Context(), claim); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Acquire for longer than MaxTTL: got %v, want ErrInvalid", err)
	}
}

func TestAClusterLetsTokensLeap(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{Args: []string{"--cluster-enabled", "yes", "--cluster-port", freePort(t)}})
	s.Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	await(t, "the cluster is up", func() bool {
		return strings.Contains(s.Do("CLUSTER", "INFO").(string), "cluster_state:ok")
	})
	rdb := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{s.Addr}, ContextTimeoutEnabled: true})
	defer rdb.Close()
	node := adapter.NewNode(rdb)
	o := &redis.Options{Quarantine: &redis.Quarantine{MaxTTL: time.Minute}}
	b, err := redis.New(node, o)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s.Do("SET", keyOf("fence"), "5000000000000000:01234567:x", "PX", "60000")
	g, err := b.Acquire(t.Context(), (&client{ids: driver.NewIdentity("t")}).mutex("k"))
	if want := uint64(5000000000000000 + 1<<20); err != nil || g.Token != want {
		t.Errorf("Acquire after a failover: got %d, %v, want the token %d", g.Token, err, want)
	}
	if got := s.Do("EXISTS", "pawl.node:lock:"); got != int64(0) {
		t.Errorf("the marker is there: want none on a cluster")
	}
	if err := redis.Bootstrap(t.Context(), node, o); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("Bootstrap of a cluster: got %v, want ErrUnsupported", err)
	}
}

// freePort returns a port that was free.
func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// Case N05.
func TestAQuarantineTakesTheRightToInfo(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	var rule []any
	for _, word := range aclRule(t) {
		rule = append(rule, word)
	}
	s.Do(rule...)
	c := newGuarded(t, s.Addr, brief)
	as := goredis.NewClient(&goredis.Options{Addr: s.Addr, Username: "locker", Password: "secret"})
	defer as.Close()
	b, err := redis.New(adapter.NewNode(as), &redis.Options{Quarantine: &brief})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Acquire(t.Context(), c.short("k")); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "+info") {
		t.Errorf("Acquire without the right to INFO: got %v, want ErrUnsupported and the right", err)
	}
	s.Do("ACL", "SETUSER", "locker", "+info")
	if _, err := b.Acquire(t.Context(), c.short("k")); err != nil {
		t.Errorf("Acquire with the right to INFO: %v", err)
	}
}
