package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/redis"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

const ttl = 1200 * time.Millisecond

// quarantine is as short as can be.
var quarantine = redis.Quarantine{MaxTTL: 1900 * time.Millisecond, Slack: 100 * time.Millisecond}

// An arena is the servers of a round, and their clients.
type arena struct {
	t        *testing.T
	server   *testserver.Redis // nil in a cluster
	sentinel *testserver.Sentinel
	cluster  *testserver.Cluster
	replica  *testserver.Redis
	stations []*station // the last one's proxy is never harmed
	password atomic.Value
	user     string
	child    *child
	rec      *recorder
	duped    sync.WaitGroup
	dupes    atomic.Int64 // requests sent twice

	mu   sync.Mutex
	live []*testserver.Redis // whose keys are sampled; guarded by mu
	seen map[string]int      // what requests of clients met; guarded by mu
}

// A station is a client of pawl with connections of its own.
type station struct {
	rdb    goredis.UniversalClient
	proxy  *testserver.Proxy // nil with Sentinel and in a cluster
	client *pawl.Client
	holder *pawl.Client // of the same backend, for the witness
	close  func()
}

// layout says which servers a fault needs, and how clients connect.
type layout struct {
	sentinel, replica, acl, child, twice bool
	cluster                              int // replicas + 1, 0 for none
	args                                 []string
}

func build(t *testing.T, f fault, guarded bool, wrap func(driver.Backend, goredis.UniversalClient) driver.Backend) *arena {
	l := f.layout
	a := &arena{t: t, rec: newRecorder(), seen: make(map[string]int)}
	switch {
	case l.sentinel:
		a.sentinel = testserver.StartSentinel(t, testserver.SentinelOptions{Replicas: 1})
		a.server = a.sentinel.Servers[0]
		a.sample(a.server)
	case l.cluster > 0:
		a.cluster = testserver.StartCluster(t, testserver.ClusterOptions{Replicas: l.cluster - 1})
		a.sample(a.cluster.Nodes...)
	default:
		a.server = testserver.StartRedis(t, testserver.RedisOptions{Args: l.args})
		a.sample(a.server)
	}
	if l.replica {
		a.replica = testserver.StartRedis(t, testserver.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})
	}
	if l.acl {
		rule := rights(t)
		a.server.Do(rule...)
		a.user = rule[2].(string)
		a.password.Store("secret")
	}
	if guarded {
		rdb := a.dial("")
		defer rdb.Close()
		if err := redis.Bootstrap(t.Context(), adapter.NewNode(rdb), &redis.Options{Quarantine: &quarantine}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		a.stations = append(a.stations, a.station(f, guarded, wrap))
	}
	if l.child {
		a.child = startChild(t, a.server.Addr)
	}
	return a
}

// sample makes servers those whose keys are looked at.
func (a *arena) sample(servers ...*testserver.Redis) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.live = servers
}

func (a *arena) sampled() []*testserver.Redis {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.live
}

// dial returns a client through the proxy at addr, or of the server itself.
func (a *arena) dial(addr string) goredis.UniversalClient {
	switch {
	case a.cluster != nil:
		return goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: a.cluster.Addrs(), ContextTimeoutEnabled: true})
	case a.sentinel != nil:
		return goredis.NewFailoverClient(&goredis.FailoverOptions{MasterName: a.sentinel.Name, SentinelAddrs: a.sentinel.Addrs(), ContextTimeoutEnabled: true})
	case addr == "":
		addr = a.server.Addr
	}
	o := &goredis.Options{Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1}
	if a.user != "" {
		o.DisableIdentity = true
		o.CredentialsProvider = func() (string, string) { return a.user, a.password.Load().(string) }
	}
	return goredis.NewClient(o)
}

func (a *arena) station(f fault, guarded bool, wrap func(driver.Backend, goredis.UniversalClient) driver.Backend) *station {
	s := new(station)
	if a.cluster == nil && a.sentinel == nil {
		s.proxy = testserver.StartProxy(a.t, a.server.Addr)
		s.rdb = a.dial(s.proxy.Addr)
	} else {
		s.rdb = a.dial("")
	}
	s.rdb.AddHook(watch{a})
	if f.layout.twice {
		s.rdb.AddHook(&twice{a: a, second: a.dial("")})
	}
	o := new(redis.Options)
	if guarded {
		o.Quarantine = &quarantine
	}
	b, err := redis.New(adapter.NewNode(s.rdb), o)
	if err != nil {
		a.t.Fatal(err)
	}
	if wrap != nil {
		b = wrap(b, s.rdb)
	}
	locks := &pawl.Options{TTL: ttl}
	if !f.excludes(guarded) {
		// Until it is told, a client whose lock the server has forgotten hands it over with
		// tokens of before, behind those that others have got.
		locks.Handover = 1
	}
	if s.client, err = pawl.New(b, locks); err != nil {
		a.t.Fatal(err)
	}
	if s.holder, err = pawl.New(b, f.holding(guarded)); err != nil {
		a.t.Fatal(err)
	}
	s.close = sync.OnceFunc(func() {
		s.client.Close()
		s.holder.Close()
		b.Close()
		s.rdb.Close()
	})
	a.t.Cleanup(s.close)
	return s
}

// victims are the stations whose wires a fault may harm, the witness's among them.
func (a *arena) victims(r *rand.Rand) []*testserver.Proxy {
	v := []*testserver.Proxy{a.stations[0].proxy}
	if r.IntN(2) == 0 {
		v = append(v, a.stations[1].proxy)
	}
	return v
}

// What requests of clients meet beside the errors of the server, which are told by
// their first words.
const (
	slow   = "slow"   // an answer after 150ms or more
	broken = "broken" // no connection, or no answer
)

// watch is a hook that counts what requests meet.
type watch struct{ a *arena }

func (h watch) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (h watch) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (h watch) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmd)
		var sent goredis.Error
		switch {
		case errors.As(err, &sent):
			word, _, _ := strings.Cut(sent.Error(), " ")
			h.a.met(word)
		case err != nil:
			h.a.met(broken)
		case time.Since(began) >= 150*ms:
			h.a.met(slow)
		}
		return err
	}
}

func (a *arena) met(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen[what]++
}

// count returns how often requests of clients met one of what.
func (a *arena) count(what ...string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range what {
		n += a.seen[w]
	}
	return n
}

// refusals returns how often servers have answered so, by their own counters.
func (a *arena) refusals(words ...string) (n int) {
	for _, s := range a.sampled() {
		stats, _ := s.Try("INFO", "errorstats")
		text, _ := stats.(string)
		for line := range strings.Lines(text) {
			for _, w := range words {
				var count int
				if c, _ := fmt.Sscanf(line, "errorstat_"+w+":count=%d", &count); c == 1 {
					n += count
				}
			}
		}
	}
	return n
}

// twice is a hook that sends each script a second time, a moment later and over
// another connection.
type twice struct {
	a      *arena
	second goredis.UniversalClient
}

func (h *twice) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (h *twice) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (h *twice) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			args := append([]any(nil), cmd.Args()...)
			h.a.duped.Go(func() {
				time.Sleep(rand.N(300 * time.Millisecond))
				if h.second.Do(context.Background(), args...).Err() == nil {
					h.a.dupes.Add(1)
				}
			})
		}
		return next(ctx, cmd)
	}
}

// rights returns the command of docs/protocol.md that makes a user.
func rights(t *testing.T) (rule []any) {
	doc, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(doc)) {
		if words := strings.Fields(line); len(words) > 3 && words[0] == "ACL" && words[1] == "SETUSER" && words[3] == "on" {
			for _, w := range words {
				rule = append(rule, w)
			}
			return rule
		}
	}
	t.Fatal("docs/protocol.md has no ACL SETUSER")
	return nil
}
