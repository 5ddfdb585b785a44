package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/redis"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

// checked returns the findings as "severity id", sorted, and what was found.
func checked(t *testing.T, rdb goredis.UniversalClient, o *redis.Options) (short []string, all []redis.Finding) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	all, err := redis.Check(ctx, adapter.NewNode(rdb), o)
	var unfit *redis.UnfitError
	if err != nil && !errors.As(err, &unfit) {
		t.Fatalf("Check: %v", err)
	}
	faults := 0
	for i, f := range all {
		short = append(short, fmt.Sprintf("%v %s", f.Severity, f.ID))
		if f.Severity == redis.Fault {
			faults++
		}
		if f.What == "" || f.Do == "" || i > 0 && f.Severity > all[i-1].Severity {
			t.Errorf("finding %d: got %+v, want what and what to do, worst first", i, f)
		}
	}
	if (unfit != nil) != (faults > 0) || unfit != nil && (len(unfit.Faults) != faults || !errors.Is(err, driver.ErrUnsupported)) {
		t.Errorf("Check: got %v for %d faults", err, faults)
	}
	slices.Sort(short)
	return slices.Compact(short), all
}

func dial(t *testing.T, addr string, options ...func(*goredis.Options)) *goredis.Client {
	o := &goredis.Options{Addr: addr}
	for _, set := range options {
		set(o)
	}
	rdb := goredis.NewClient(o)
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

func asLocker(o *goredis.Options) { o.Username, o.Password = "locker", "secret" }

func TestCheckFindsNothingWhereNothingIs(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newGuarded(t, s.Addr, brief)
	if got, all := checked(t, c.rdb, &redis.Options{Quarantine: &brief}); got != nil {
		t.Errorf("a server in order: got %+v, want nothing", all)
	}
	if keys := s.Do("KEYS", "*"); !reflect.DeepEqual(keys, []any{"pawl.node:lock:"}) {
		t.Errorf("keys after Check: got %v, want the marker only", keys)
	}
	await(t, "the subscription has ended", func() bool { return s.Do("CLIENT", "LIST", "TYPE", "pubsub") == "" })
}

// Case N02.
func TestCheckJudgesTheSettings(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	rdb := dial(t, s.Addr)
	expect := func(what string, o *redis.Options, want ...string) {
		t.Helper()
		if got, all := checked(t, rdb, o); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q: %+v", what, got, want, all)
		}
	}
	guarded := &redis.Options{Quarantine: &brief}
	expect("without a quarantine", nil, "risk restart")
	expect("no marker", guarded, "risk quarantine")
	newGuarded(t, s.Addr, brief)
	expect("others have a quarantine", nil, "risk quarantine", "risk restart")
	expect("others have another quarantine", &redis.Options{Quarantine: &redis.Quarantine{MaxTTL: time.Hour}}, "fault quarantine")
	expect("another prefix", &redis.Options{Prefix: "x:"}, "risk restart")

	s.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	expect("eviction of nothing", guarded, "note eviction")
	s.Do("CONFIG", "SET", "maxmemory", "100mb")
	expect("eviction", guarded, "risk eviction")
	s.Do("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
	expect("eviction of what expires", guarded, "risk eviction")
	s.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	expect("no eviction", guarded)
	s.Do("CONFIG", "SET", "maxmemory", "1")
	expect("a full server", guarded, "fault refuses")
	s.Do("CONFIG", "SET", "maxmemory", "0", "min-replicas-to-write", "1")
	expect("a server that wants replicas", guarded, "fault refuses")
	s.Do("CONFIG", "SET", "min-replicas-to-write", "0")

	expect("no replica", &redis.Options{Quarantine: &brief, Durability: redis.Durability{Replicas: 1}}, "fault durability")
	expect("no disk", &redis.Options{Quarantine: &brief, Durability: redis.Durability{Disk: true}}, "fault durability")

	s.Do("FLUSHALL")
	refusedFor(t, newGuardedLater(t, s.Addr, brief), "k")
	expect("in quarantine", guarded, "risk quarantine")
	s.Kill()
	s.Start()
	expect("restarted", guarded, "risk quarantine")
	s.Do("REPLICAOF", "127.0.0.1", "1")
	expect("a replica", guarded, "fault role")
}

// newGuardedLater returns a client whose quarantine has not begun.
func newGuardedLater(t testing.TB, addr string, q redis.Quarantine) *client {
	c := newClient(t, addr)
	c.Close()
	b, err := redis.New(adapter.NewNode(c.rdb), &redis.Options{Quarantine: &q})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	c.Backend = b
	return c
}

func TestCheckCountsReplicas(t *testing.T) {
	master, replica := startReplicated(t)
	rdb := dial(t, master.Addr)
	if got, all := checked(t, rdb, nil); !slices.Equal(got, []string{"risk restart"}) || !strings.Contains(all[0].What, "1 replicas") {
		t.Errorf("a master with a replica: got %+v, want that a failover may lose locks", all)
	}
	o := &redis.Options{Durability: redis.Durability{Replicas: 1}}
	if got, all := checked(t, rdb, o); !slices.Equal(got, []string{"risk restart"}) {
		t.Errorf("a master with a replica that is waited for: got %+v, want a risk only", all)
	}
	if got, all := checked(t, dial(t, replica.Addr), o); !slices.Equal(got, []string{"fault role"}) || !strings.Contains(all[0].What, master.Addr) {
		t.Errorf("the replica: got %+v, want a fault that names the master", all)
	}
}

// Each right that is taken away is named.
// Cases N01, N05.
func TestCheckMissesEachRight(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	rdb := dial(t, s.Addr, asLocker)
	rule := aclRule(t)
	user := func(extra ...any) {
		var words []any
		for _, w := range rule {
			words = append(words, w)
		}
		s.Do(append(words, extra...)...)
		s.Do("SCRIPT", "FLUSH")
	}
	granted := []string{"info"}
	for _, w := range rule {
		if name, ok := strings.CutPrefix(w, "+"); ok {
			granted = append(granted, name)
		}
	}
	if len(granted) < 20 {
		t.Fatalf("rights in docs/protocol.md: got %q", granted)
	}
	for _, name := range granted {
		user("+info", "-"+name)
		want := []string{"fault rights", "risk restart"}
		switch name {
		case "ping", "hello": // of the client library, and replaced by others
			want = []string{"risk restart"}
		case "info":
			want = []string{"risk info"}
		case "publish", "subscribe":
			want = []string{"risk restart", "risk wakeups"}
		case "scan":
			want = []string{"note list", "risk restart"}
		case "eval", "evalsha":
			want = []string{"fault rights"}
		}
		got, all := checked(t, rdb, nil)
		if name == "eval" || name == "evalsha" {
			got = slices.DeleteFunc(got, func(f string) bool { return f == "risk restart" })
		}
		if !slices.Equal(got, want) || !strings.Contains(strings.ToLower(fmt.Sprint(all)), name) && len(want) > 1 {
			t.Errorf("without the right to %s: got %q, want %q: %+v", name, got, want, all)
		}
		s.Do("PING")
	}
	for _, test := range []struct {
		take string
		want []string
	}{
		{"~lock:*", []string{"fault rights"}},
		{"~pawl.*", []string{"fault rights"}},
		{"&pawl:*", []string{"risk restart", "risk wakeups"}},
	} {
		rest := slices.DeleteFunc(slices.Clone(rule), func(w string) bool { return w == test.take })
		if len(rest) == len(rule) {
			t.Fatalf("docs/protocol.md does not grant %s", test.take)
		}
		var words []any
		for _, w := range rest {
			words = append(words, w)
		}
		s.Do(append(words, "+info")...)
		got, all := checked(t, rdb, nil)
		if slices.Equal(test.want, []string{"fault rights"}) {
			got = slices.DeleteFunc(got, func(f string) bool { return f != "fault rights" })
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("without %s: got %q, want %q: %+v", test.take, got, test.want, all)
		}
	}
	user("-info")
	if got, all := checked(t, rdb, &redis.Options{Quarantine: &brief}); !slices.Equal(got, []string{"fault info", "risk info"}) {
		t.Errorf("a quarantine without the right to INFO: got %+v", all)
	}
	if keys := s.Do("KEYS", "*").([]any); slices.ContainsFunc(keys, func(k any) bool { return s.Do("TTL", k) == int64(-1) }) {
		t.Errorf("keys after Check: got %v, some of which never end", keys)
	}
}

func TestCheckComparesTheClocks(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	rdb := dial(t, s.Addr)
	rdb.AddHook(lateClock{})
	if got, all := checked(t, rdb, nil); !slices.Equal(got, []string{"risk clock", "risk restart"}) {
		t.Errorf("a server that is an hour behind: got %+v, want the clock", all)
	}
}

// lateClock sets the server's clock in the answers of scripts back by an hour.
type lateClock struct{}

func (lateClock) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (lateClock) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (lateClock) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		err := next(ctx, cmd)
		if c, ok := cmd.(interface{ Val() any }); ok { // of a script
			if v, ok := c.Val().([]any); ok && len(v) > 0 {
				if now, ok := v[0].(int64); ok {
					v[0] = now - time.Hour.Microseconds()
				}
			}
		}
		return err
	}
}

func TestCheckTellsAnOldServer(t *testing.T) {
	m := miniredis.RunT(t)
	rdb := dial(t, m.Addr(), func(o *goredis.Options) { o.DisableIdentity, o.Protocol = true, 2 })
	all, err := redis.Check(t.Context(), adapter.NewNode(rdb), nil)
	var unfit *redis.UnfitError
	if !errors.As(err, &unfit) || len(all) != 1 || all[0].ID != "version" {
		t.Errorf("Check of an old server: got %+v, %v, want the version", all, err)
	}
}

func TestCheckOfACluster(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{Args: []string{"--cluster-enabled", "yes", "--cluster-port", freePort(t)}})
	s.Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	await(t, "the cluster is up", func() bool { return strings.Contains(s.Do("CLUSTER", "INFO").(string), "cluster_state:ok") })
	rdb := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{s.Addr}})
	defer rdb.Close()
	if got, all := checked(t, rdb, nil); !slices.Equal(got, []string{"risk restart"}) {
		t.Errorf("a cluster: got %+v, want that a restart may lose locks", all)
	}
	if got, all := checked(t, rdb, &redis.Options{Quarantine: &brief}); !slices.Equal(got, []string{"note quarantine"}) {
		t.Errorf("a cluster with a quarantine: got %+v, want that it has none", all)
	}
}

func TestCheckOfNoServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, err = redis.Check(t.Context(), adapter.NewNode(dial(t, l.Addr().String(), func(o *goredis.Options) { o.DialerRetries = 1 })), nil)
	if err == nil || errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("Check of nothing: got %v, want that it could not be asked", err)
	}
	if _, err := redis.Check(t.Context(), nil, nil); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Check without a node: got %v, want ErrInvalid", err)
	}
}
