package goredis_test

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/quorum"
	"github.com/pawlock/pawl/redis"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

// redlock is a number of servers, and the quorums on them.
type redlock struct{ servers []*testserver.Redis }

func startRedlock(t testing.TB, n int) *redlock {
	t.Helper()
	r := &redlock{servers: make([]*testserver.Redis, n)}
	for i := range r.servers {
		r.servers[i] = testserver.StartRedis(t, testserver.RedisOptions{})
	}
	return r
}

func (r *redlock) addrs() []string {
	var addrs []string
	for _, s := range r.servers {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// nodesAt returns the nodes at addrs, and frees them when the test has ended.
func nodesAt(t testing.TB, addrs []string) []quorum.Node { return nodesWith(t, addrs, nil) }

func nodesWith(t testing.TB, addrs []string, o *redis.Options) []quorum.Node {
	var nodes []quorum.Node
	for i, addr := range addrs {
		rdb := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: true})
		b, err := redis.New(adapter.NewNode(rdb), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			b.Close()
			rdb.Close()
		})
		nodes = append(nodes, quorum.Node{Name: fmt.Sprintf("n%d", i), Backend: b})
	}
	return nodes
}

func quorumOf(t testing.TB, nodes []quorum.Node, o *quorum.Options) *quorum.Backend {
	t.Helper()
	b, err := quorum.New(nodes, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// A quorum of real servers keeps what it promises, with as many dead as may be,
// from the start or since it was made.
func TestConformanceOfAQuorum(t *testing.T) {
	if os.Getenv("PAWL_ALONE") == "" && os.Getenv("PAWL_SOAK") == "" {
		t.Skip("takes a minute, most of it asleep: make quorum runs it")
	}
	const ttl = 3 * time.Second
	o := &quorum.Options{Timeout: ttl / 3, MaxTTL: 30 * ttl}
	for _, test := range []struct {
		name  string
		dead  int
		later bool
	}{{"AllUp", 0, false}, {"TwoDead", 2, false}, {"TwoDieLater", 2, true}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := startRedlock(t, 5)
			kill := sync.OnceFunc(func() {
				for _, s := range r.servers[:test.dead] {
					s.Kill()
				}
			})
			if !test.later {
				kill()
			}
			nodes := nodesAt(t, r.addrs())
			drivertest.Run(t, drivertest.Harness{
				New: func(t *testing.T) drivertest.Store {
					return drivertest.Store{Connect: func() driver.Backend {
						defer kill()
						return persistent{quorumOf(t, nodes, o)}
					}}
				},
				TTL: ttl,
			})
		})
	}
}
