package bench_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bsm/redislock"
	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

// TestSingle compares locks on one Redis server, through one client library.
func TestSingle(t *testing.T) {
	goredis.SetLogger(quiet{})
	s := newServers(t, 1)
	addrs := s.addrs()
	r := newReport(t, "One server")
	ours := newPawlOnOne(t, addrs)
	redsync := newRedsync(t, addrs, "redsync", true)
	islock := newRedislock(t, addrs)
	plain, fenced := newFloor(t, addrs, "floor", false), newFloor(t, addrs, "fenced floor", true)

	r.throughput("Lock and unlock, nobody else wants the key", []*peer{ours, redsync, islock, plain, fenced}, 1, 64)
	for _, inside := range []time.Duration{0, time.Millisecond} {
		for _, n := range []int{16, 64} {
			r.crowded(s.all[0], fmt.Sprintf("%d goroutines of one process", n), inside, n, ours, redsync, islock)
		}
		r.crowded(s.all[0], "8 processes with 8 goroutines each", inside, 0, ours, redsync, islock)
	}
}

// newPawlOnOne is the client of pawl on one server, with default options.
func newPawlOnOne(t testing.TB, addrs []string) *peer {
	b := adapter.New(clients(t, addrs, true)[0])
	client, err := pawl.New(b, &pawl.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		b.Close()
	})
	return &peer{name: "pawl", keys: "lock:*", takes: []string{"evalsha", "eval"}, lock: func(ctx context.Context, key string) (func(context.Context) error, uint64, error) {
		lease, err := client.Mutex(key).Acquire(ctx)
		if err != nil {
			return nil, 0, err
		}
		return lease.Release, lease.Token(), nil
	}}
}

// newRedislock is bsm/redislock, which asks again after 5 ms: it has no default,
// and its documents wait for longer.
func newRedislock(t testing.TB, addrs []string) *peer {
	locker := redislock.New(clients(t, addrs, true)[0])
	return &peer{name: "redislock", keys: "redislock:*", takes: []string{"set", "evalsha"}, lock: func(ctx context.Context, key string) (func(context.Context) error, uint64, error) {
		lock, err := locker.Obtain(ctx, "redislock:"+key, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(5 * time.Millisecond)})
		if err != nil {
			return nil, 0, err
		}
		return lock.Release, 0, nil
	}}
}

var (
	compareAndDelete = goredis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`)
	fenceAndSet      = goredis.NewScript(`local n = redis.call("incr", KEYS[2]) if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then return n end return 0`)
)

// newFloor is what one would write by hand, and the least that any lock costs: a
// SET NX and a compare-and-delete, with a counter or without. It does not wait.
func newFloor(t testing.TB, addrs []string, name string, fenced bool) *peer {
	rdb := clients(t, addrs, true)[0]
	var next atomic.Uint64
	return &peer{name: name, keys: name + ":*", takes: []string{"set", "evalsha"}, lock: func(ctx context.Context, key string) (func(context.Context) error, uint64, error) {
		k, value := name+":"+key, fmt.Sprintf("%032x", next.Add(1))
		var token uint64
		var err error
		if fenced {
			token, err = fenceAndSet.Run(ctx, rdb, []string{k, k + ":fence"}, value, ttl.Milliseconds()).Uint64()
		} else {
			var ok bool
			if ok, err = rdb.SetNX(ctx, k, value, ttl).Result(); err == nil && !ok {
				err = errors.New("held")
			}
		}
		if err != nil {
			return nil, 0, err
		}
		return func(ctx context.Context) error {
			return compareAndDelete.Run(ctx, rdb, []string{k}, value).Err()
		}, token, nil
	}}
}
