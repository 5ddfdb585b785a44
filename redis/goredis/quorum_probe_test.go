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
)

// probe asks a server for what makes it fit or unfit to be a node. The server
// keeps the quorum's configuration in a key.
func probe(rdb *goredis.Client) func(context.Context, string) (quorum.Facts, error) {
	return func(ctx context.Context, config string) (quorum.Facts, error) {
		info, err := rdb.Info(ctx).Result()
		if err != nil {
			return quorum.Facts{}, err
		}
		field := func(name string) string {
			_, rest, _ := strings.Cut(info, "\n"+name+":")
			value, _, _ := strings.Cut(rest, "\r")
			return value
		}
		f := quorum.Facts{Server: field("run_id"), Replica: field("role") != "master", Cluster: field("cluster_enabled") == "1"}
		if f.Replica || f.Cluster {
			return f, nil
		}
		if err := rdb.SetNX(ctx, "pawl.quorum", config, 0).Err(); err != nil {
			return quorum.Facts{}, err
		}
		f.Config, err = rdb.Get(ctx, "pawl.quorum").Result()
		return f, err
	}
}

func probed(t *testing.T, addrs []string) []quorum.Node {
	nodes := nodesAt(t, addrs)
	for i := range nodes {
		rdb := goredis.NewClient(&goredis.Options{Addr: addrs[i], ContextTimeoutEnabled: true})
		t.Cleanup(func() { rdb.Close() })
		nodes[i].Probe = probe(rdb)
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
	cluster := testserver.StartRedis(t, testserver.RedisOptions{Args: []string{"--cluster-enabled", "yes"}})
	refused("cluster", []string{cluster.Addr, addrs[1], addrs[2]}, nil)

	r.servers[1].Kill() // which by itself is no reason
	refused("same server", []string{addrs[0], addrs[1], strings.Replace(addrs[0], "127.0.0.1", "localhost", 1)}, nil)
	quorumOf(t, probed(t, addrs), nil)
}
