package goredis_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/quorum"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

func probed(t *testing.T, addrs []string) []quorum.Node {
	nodes := nodesAt(t, addrs)
	for i := range nodes {
		rdb := goredis.NewClient(&goredis.Options{Addr: addrs[i], ContextTimeoutEnabled: true})
		t.Cleanup(func() { rdb.Close() })
		nodes[i].Probe = adapter.Probe(rdb)
	}
	return nodes
}

// Servers that are no independent nodes are found by asking them.
func TestServersThatCanBeNoNodesAreRefused(t *testing.T) {
	r := startRedlock(t, 3)
	addrs := r.addrs()
	quorumOf(t, probed(t, addrs), nil)

	refused := func(want string, addrs []string, o *quorum.Options) {
		t.Helper()
		// New gives the servers a second, which a busy machine may need for itself.
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			b, err := quorum.New(probed(t, addrs), o)
			if err == nil {
				b.Close()
			}
			if errors.Is(err, driver.ErrInvalid) && strings.Contains(err.Error(), want) {
				return
			}
			if time.Now().After(deadline) {
				t.Errorf("New: got %v, want ErrInvalid that says %q", err, want)
				return
			}
		}
	}
	refused("same server", []string{addrs[0], addrs[1], strings.Replace(addrs[0], "127.0.0.1", "localhost", 1)}, nil)
	refused("other nodes or another MaxTTL", addrs, &quorum.Options{MaxTTL: 7 * time.Second})

	host, port, _ := net.SplitHostPort(addrs[0])
	replica := testserver.StartRedis(t, testserver.RedisOptions{Args: []string{"--replicaof", host, port}})
	refused("replica", []string{replica.Addr, addrs[1], addrs[2]}, nil)
	cluster := testserver.StartRedis(t, testserver.RedisOptions{Args: []string{"--cluster-enabled", "yes", "--cluster-port", freePort(t)}})
	refused("cluster", []string{cluster.Addr, addrs[1], addrs[2]}, nil)

	r.servers[1].Kill() // which by itself is no reason
	refused("same server", []string{addrs[0], addrs[1], strings.Replace(addrs[0], "127.0.0.1", "localhost", 1)}, nil)
	quorumOf(t, probed(t, addrs), nil)
}

// What a server keeps of a quorum ends a day after its last client, and is
// another's as little before as after a probe of somebody else's.
func TestTheConfigurationOutlivesItsClients(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	rdb := goredis.NewClient(&goredis.Options{Addr: s.Addr, ContextTimeoutEnabled: true})
	defer rdb.Close()
	probe := adapter.Probe(rdb)
	keeps := func(mine, want string) {
		t.Helper()
		f, err := probe(t.Context(), mine)
		if err != nil || f.Config != want || f.Server == "" || f.Replica || f.Cluster {
			t.Errorf("Probe with %s: got %+v, %v, want the configuration %s", mine, f, err, want)
		}
	}
	life := func() time.Duration {
		return time.Duration(s.Do("PTTL", "pawl.quorum:lock:").(int64)) * time.Millisecond
	}
	keeps("a", "a")
	s.Do("PEXPIRE", "pawl.quorum:lock:", 60000)
	keeps("b", "a")
	if got := life(); got <= 0 || got > time.Minute {
		t.Errorf("life of the configuration after another's probe: got %v, want what it was, a minute", got)
	}
	keeps("a", "a")
	if got := life(); got < adapter.ConfigLife-time.Minute || got > adapter.ConfigLife {
		t.Errorf("life of the configuration after its own probe: got %v, want %v", got, adapter.ConfigLife)
	}
	if f, err := adapter.ProbePrefix(rdb, "app:")(t.Context(), "b"); err != nil || f.Config != "b" {
		t.Errorf("Probe under another prefix: got %+v, %v, want its own configuration", f, err)
	}
	s.Do("DEL", "pawl.quorum:lock:")
	keeps("b", "b")
}

// A server that does not answer tells nothing of itself.
func TestASilentServerIsNotCalledUnfit(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	rdb := goredis.NewClient(&goredis.Options{Addr: s.Addr, ContextTimeoutEnabled: true})
	defer rdb.Close()
	s.Stop()
	defer s.Continue()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if f, err := adapter.Probe(rdb)(ctx, "a"); err == nil || f != (driver.Facts{}) {
		t.Errorf("Probe of a server that is stopped: got %+v, %v, want an error", f, err)
	}
	many := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{s.Addr}})
	defer many.Close()
	if f, err := adapter.Probe(many)(ctx, "a"); err != nil || !f.Cluster {
		t.Errorf("Probe through a client of a cluster: got %+v, %v, want Cluster", f, err)
	}
}
