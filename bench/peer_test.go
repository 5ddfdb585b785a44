package bench_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	syncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/quorum"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

// ttl is how long all peers have their locks kept.
const ttl = 10 * time.Second

// A peer is a lock library, set up on servers.
type peer struct {
	name  string
	keys  string   // pattern of the keys that are its locks
	takes []string // commands that it acquires with

	// lock takes key, waiting for it, and returns how to let it go. The token is
	// 0 if the library has none.
	lock func(ctx context.Context, key string) (unlock func(context.Context) error, token uint64, err error)

	acquires, rounds *atomic.Int64 // of pawl's quorum, nil for the others
}

// quiet keeps go-redis from telling of every dial to a server that is dead.
type quiet struct{}

// Printf implements the logger of go-redis.
func (quiet) Printf(context.Context, string, ...any) {}

// clients returns a client of go-redis for each server, closed with the test.
func clients(t testing.TB, addrs []string, contexts bool) []*goredis.Client {
	var all []*goredis.Client
	for _, addr := range addrs {
		rdb := goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: 32, ContextTimeoutEnabled: contexts})
		t.Cleanup(func() { rdb.Close() })
		all = append(all, rdb)
	}
	return all
}

// newPawl is the client of pawl on a quorum of the servers, with default options.
func newPawl(t testing.TB, addrs []string) *peer {
	var nodes []quorum.Node
	for i, rdb := range clients(t, addrs, true) {
		b := adapter.New(rdb)
		t.Cleanup(func() { b.Close() })
		nodes = append(nodes, quorum.Node{Name: fmt.Sprint("n", i), Backend: b, Probe: adapter.Probe(rdb)})
	}
	p := &peer{name: "pawl", keys: "lock:*", takes: []string{"evalsha", "eval"}, acquires: new(atomic.Int64), rounds: new(atomic.Int64)}
	q, err := quorum.New(nodes, &quorum.Options{Observer: &quorum.Observer{Decided: func(d quorum.Decision) {
		if d.Op == "acquire" && d.Outcome == "won" {
			p.acquires.Add(1)
			p.rounds.Add(int64(d.Rounds))
		}
	}}})
	if err != nil {
		t.Fatal(err)
	}
	client, err := pawl.New(q, &pawl.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		q.Close()
	})
	p.lock = func(ctx context.Context, key string) (func(context.Context) error, uint64, error) {
		lease, err := client.Mutex(key).Acquire(ctx)
		if err != nil {
			return nil, 0, err
		}
		return lease.Release, lease.Token(), nil
	}
	return p
}

// newRedsync is go-redsync. With contexts its clients keep to its time-outs, as
// pawl's do; go-redis ignores them by default.
func newRedsync(t testing.TB, addrs []string, name string, contexts bool, options ...redsync.Option) *peer {
	var pools []syncredis.Pool
	for _, rdb := range clients(t, addrs, contexts) {
		pools = append(pools, syncgoredis.NewPool(rdb))
	}
	rs := redsync.New(pools...)
	options = append([]redsync.Option{redsync.WithExpiry(ttl), redsync.WithTries(1 << 20)}, options...)
	prefix := name + ":"
	return &peer{name: name, keys: prefix + "*", takes: []string{"set"}, lock: func(ctx context.Context, key string) (func(context.Context) error, uint64, error) {
		m := rs.NewMutex(prefix+key, options...)
		if err := m.LockContext(ctx); err != nil {
			return nil, 0, err
		}
		return func(ctx context.Context) error {
			ok, err := m.UnlockContext(ctx)
			if err == nil && !ok {
				err = fmt.Errorf("%s was not unlocked", key)
			}
			return err
		}, 0, nil
	}}
}

// takeFenced and freeFenced are the least that a lock with a number for each grant
// takes of a server.
var (
	takeFenced = goredis.NewScript(`if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local n = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return n`)
	freeFenced = goredis.NewScript(`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)
)

// newTwoScripts is no lock library but what is below any: the scripts above, sent to all
// servers at once and waited for. Nothing is decided, retried, timed or renewed, and
// the numbers that the servers count are no tokens.
func newTwoScripts(t testing.TB, addrs []string) *peer {
	all := clients(t, addrs, true)
	var ids atomic.Int64
	return &peer{name: "two scripts", keys: "floor:*", takes: []string{"evalsha", "eval"}, lock: func(ctx context.Context, key string) (func(context.Context) error, uint64, error) {
		id := fmt.Sprint("floor/", ids.Add(1))
		send := func(ctx context.Context, script *goredis.Script, keys []string, args ...any) error {
			answers := make(chan error, len(all))
			for _, rdb := range all {
				go func() {
					n, err := script.Run(ctx, rdb, keys, args...).Int()
					if err == nil && n == 0 {
						err = fmt.Errorf("%s was not ours", key)
					}
					answers <- err
				}()
			}
			var failed error
			for range all {
				if err := <-answers; err != nil {
					failed = err
				}
			}
			return failed
		}
		if err := send(ctx, takeFenced, []string{"floor:" + key, "floor.fence:" + key}, id, ttl.Milliseconds()); err != nil {
			return nil, 0, err
		}
		return func(ctx context.Context) error { return send(ctx, freeFenced, []string{"floor:" + key}, id) }, 0, nil
	}}
}

// A guard stands in the critical sections: it sees two inside at once, and tokens
// that do not rise.
type guard struct {
	t      testing.TB
	mu     sync.Mutex
	inside map[string]bool   // guarded by mu
	last   map[string]uint64 // guarded by mu
}

func newGuard(t testing.TB) *guard {
	return &guard{t: t, inside: make(map[string]bool), last: make(map[string]uint64)}
}

func (g *guard) enter(p *peer, key string, token uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := p.name + "/" + key
	if g.inside[name] {
		g.t.Errorf("%s: two are inside", name)
	}
	g.inside[name] = true
	if token != 0 && token <= g.last[name] {
		g.t.Errorf("%s: token %d after %d", name, token, g.last[name])
	}
	g.last[name] = token
}

func (g *guard) leave(p *peer, key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.inside, p.name+"/"+key)
}

// cycle takes a lock, passes the guard, lets it go, and returns what each took.
func (p *peer) cycle(g *guard, key string) (acquire, release time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	began := time.Now()
	unlock, token, err := p.lock(ctx, key)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: lock: %w", p.name, err)
	}
	had := time.Now()
	g.enter(p, key, token)
	g.leave(p, key)
	letting := time.Now()
	if err := unlock(ctx); err != nil {
		return 0, 0, fmt.Errorf("%s: unlock: %w", p.name, err)
	}
	return had.Sub(began), time.Since(letting), nil
}

// occupy takes a lock, does what is to be done inside, and returns how long it
// waited.
func (p *peer) occupy(g *guard, key string, inside func()) (waited time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	began := time.Now()
	unlock, token, err := p.lock(ctx, key)
	if err != nil {
		return 0, fmt.Errorf("%s: lock: %w", p.name, err)
	}
	waited = time.Since(began)
	g.enter(p, key, token)
	inside()
	g.leave(p, key)
	if err := unlock(ctx); err != nil {
		return 0, fmt.Errorf("%s: unlock: %w", p.name, err)
	}
	return waited, nil
}
