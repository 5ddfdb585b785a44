package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
)

// A usage is what a server has done, as it counts itself.
type usage struct {
	requests int     // that clients have sent
	inner    int     // commands that scripts have called
	scripts  int     // of the requests
	took     float64 // the scripts, in µs
}

// onlyRequested are commands that no script of ours calls.
var onlyRequested = []string{"evalsha", "eval", "hello", "ping", "subscribe", "unsubscribe", "client|setinfo"}

// usageOf reads the counters of s. What the test itself asks is left out.
func usageOf(t testing.TB, s *testserver.Redis) (u usage) {
	t.Helper()
	for line := range strings.Lines(s.Do("INFO", "commandstats").(string)) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		var calls int
		var usec float64
		if n, _ := fmt.Sscanf(rest, "calls=%d,usec=%g,", &calls, &usec); n != 2 {
			continue
		}
		switch {
		case name == "evalsha" || name == "eval":
			u.scripts += calls
			u.took += usec
			u.requests += calls
		case slices.Contains(onlyRequested, name):
			u.requests += calls
		case name == "info" || name == "config|resetstat" || name == "client|list" || name == "command":
		default:
			u.inner += calls
		}
	}
	return u
}

// during returns what s does while f runs.
func during(t testing.TB, s *testserver.Redis, f func()) usage {
	t.Helper()
	s.Do("CONFIG", "RESETSTAT")
	f()
	return usageOf(t, s)
}

// listening returns how many connections to s listen to channels.
func listening(t testing.TB, s *testserver.Redis) int {
	t.Helper()
	return strings.Count(s.Do("CLIENT", "LIST", "TYPE", "pubsub").(string), "\n")
}

// queue lets n claims of c wait for key. Each lets go as soon as it holds, and is
// counted by the func that is returned.
func queue(t *testing.T, c *client, key string, n int) (served func() int) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var done atomic.Int64
	for range n {
		all.Go(func() {
			claim := c.mutex(key)
			for ctx.Err() == nil {
				g, err := c.lock(ctx, claim)
				switch {
				case err == nil:
					claim.Grant = g
					c.release(t, claim)
					done.Add(1) // the test may end with the last
					return
				case ctx.Err() == nil && !errors.Is(err, driver.ErrRefused): // it may wait for a connection in vain
					t.Errorf("Acquire: %v", err)
					return
				}
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	return func() int { return int(done.Load()) }
}

// awaitInLine waits until n claims stand in the line of key. To ask the backend, which
// looks at each, would be a load of its own.
func awaitInLine(t *testing.T, s *testserver.Redis, key string, n int) {
	t.Helper()
	await(t, fmt.Sprintf("%d claims wait for %s", n, key), func() bool {
		time.Sleep(20 * time.Millisecond)
		return s.Do("ZCARD", "pawl.line:{lock:"+key+"}") == int64(n)
	})
}

// Cases F01, F02.
func TestAThousandWhoWaitAskSeldomAndOneIsWoken(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	holder := newClient(t, s.Addr)
	other := newClient(t, s.Addr, func(o *goredis.Options) { o.PoolTimeout = patience })
	held := holder.must(t, holder.mutex("k"))
	const waiters = 1000
	served := queue(t, other, "k", waiters)
	awaitInLine(t, s, "k", waiters)

	// What they ask while nothing happens, for a period of those who ask most
	// seldom.
	began := time.Now()
	u := during(t, s, func() { <-time.After(5500 * time.Millisecond) })
	period := time.Since(began).Seconds()
	each := func(n int) float64 { return float64(n) / waiters / period }
	t.Logf("while they wait: %.2f requests/s each, and %.2f commands/s of scripts", each(u.requests), each(u.inner))
	if got := each(u.requests); got > 3 {
		t.Errorf("each of %d who wait sends %.2f requests/s, want 3 at most", waiters, got)
	}
	if u.scripts < waiters/2 {
		t.Errorf("%d who wait asked %d times within a period, want that they ask now and then", waiters, u.scripts)
	}
	if got := listening(t, s); got != 1 {
		t.Errorf("%d connections listen, want 1", got)
	}

	// Each hand-over is a release and an acquire. Requests of those who are not
	// called come on top, all the more the slower the machine is: the best of some
	// stretches counts. A herd would be in each of them.
	const stretch = 100
	var best usage
	for i := range 6 {
		u := during(t, s, func() {
			if i == 0 {
				holder.release(t, held)
			}
			await(t, "they are served", func() bool { return served() >= (i+1)*stretch })
		})
		if best.requests == 0 || u.requests < best.requests {
			best = u
		}
	}
	t.Logf("a hand-over: %.2f requests, %.1f commands of scripts", float64(best.requests)/stretch, float64(best.inner)/stretch)
	if got := float64(best.requests) / stretch; got > 5 {
		t.Errorf("a hand-over among %d takes %.2f requests, want 5 at most", waiters, got)
	}
	await(t, "all are served", func() bool { return served() == waiters })
}

// Those who wait are no burden to those who call. Case F01.
func TestACallCostsTheSameWithTenAndTenThousandWaiting(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newClient(t, s.Addr)
	type cost struct {
		inner int
		took  float64
	}
	c.release(t, c.must(t, c.mutex("warm")))
	measure := func(waiters int) map[string]cost {
		key := fmt.Sprint("k", waiters)
		claim := func(queue bool) driver.Claim {
			m := c.mutex(key)
			m.TTL, m.Queue = time.Hour, queue
			return m
		}
		held := c.must(t, claim(false))
		line := make([]driver.Claim, waiters)
		var all sync.WaitGroup
		for part := range 10 {
			all.Go(func() {
				for i := part; i < waiters; i += 10 {
					line[i] = claim(true)
					c.Acquire(t.Context(), line[i])
				}
			})
		}
		all.Wait()
		awaitInLine(t, s, key, waiters)
		costs := make(map[string]cost)
		call := func(name string, f func() error) {
			var err error
			u := during(t, s, func() { err = f() })
			if err != nil && !errors.Is(err, driver.ErrHeld) {
				t.Errorf("%s with %d waiting: %v", name, waiters, err)
			}
			old, ok := costs[name]
			if !ok {
				old.took = math.Inf(1)
			}
			costs[name] = cost{max(old.inner, u.inner), min(old.took, u.took)}
		}
		acquire := func(m *driver.Claim) func() error {
			return func() (err error) { m.Grant, err = c.Acquire(t.Context(), *m); return err }
		}
		if _, err := c.Renew(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			// A client with a deadline has to know the server's clock.
			fresh := newClient(t, s.Addr)
			call("first acquire of a client, refused", func() error {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				_, err := fresh.Acquire(ctx, claim(false))
				return err
			})
			newcomer := claim(false)
			call("acquire, refused", acquire(&newcomer))
			last := claim(true)
			call("acquire, joining the line", acquire(&last))
			call("acquire, waiting on", acquire(&last))
			call("release of the last in line", func() error { return c.Release(t.Context(), last) })
			call("renew", func() error { _, err := c.Renew(t.Context(), held); return err })
			call("inspect", func() error { _, err := c.Inspect(t.Context(), key, 1); return err })
		}
		// The head of the line is found by asking: calls came in any order.
		state, err := c.Inspect(t.Context(), key, 9)
		if err != nil || len(state.Holders) < 9 {
			t.Fatalf("Inspect: got %d holders, %v", len(state.Holders), err)
		}
		for _, next := range state.Holders[1:9] {
			next := driver.Claim{Key: key, ID: next.ID, Weight: 1, Capacity: 1, TTL: time.Hour, Queue: true}
			call("release, calling the next", func() error { return c.Release(t.Context(), held) })
			call("acquire by the one who is called", acquire(&next))
			held = next
		}
		return costs
	}
	few, many := measure(10), measure(10_000)
	for name, f := range few {
		m := many[name]
		t.Logf("%-34s %3d commands, %4.0fµs with 10 waiting; %4d, %4.0fµs with 10000", name, f.inner, f.took, m.inner, m.took)
		switch {
		case name == "inspect": // looks at no more than the first thousand
			if m.inner > 1020 {
				t.Errorf("%s: %d commands with 10000 waiting, want that it looks at 1000", name, m.inner)
			}
		case m.inner > f.inner+2: // two keys live longer if a millisecond has passed
			t.Errorf("%s: %d commands with 10000 waiting, %d with 10", name, m.inner, f.inner)
		case m.took > 5*f.took+100:
			t.Errorf("%s: at least %.0fµs with 10000 waiting, %.0fµs with 10", name, m.took, f.took)
		}
	}
}

// The keys may be as many as they like.
func TestTenThousandKeysAreWaitedForOverOneConnection(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	// Ten thousand goroutines take turns with a few connections.
	c := newClient(t, s.Addr, func(o *goredis.Options) { o.PoolTimeout = patience })
	const keys = 10_000
	// Others hold them, so that nobody is called but by the test.
	s.Do("EVAL", `for i = 1, ARGV[1] do redis.call('SET', 'lock:k' .. i, 'x', 'PX', 600000) end`, 0, keys)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var waited, served atomic.Int64
	for i := range keys {
		all.Go(func() {
			claim := c.mutex(fmt.Sprint("k", i+1))
			claim.TTL, claim.Queue = 10*time.Minute, true
			for first := true; ctx.Err() == nil; {
				_, err := c.Acquire(ctx, claim)
				h, held := err.(*driver.HeldError)
				switch {
				case err == nil:
					served.Add(1)
					return
				case !held && ctx.Err() == nil && !errors.Is(err, driver.ErrRefused): // it may wait for a connection in vain
					t.Errorf("Acquire: %v", err)
					return
				case held:
					if first {
						waited.Add(1)
						first = false
					}
					c.Wait(ctx, claim, h)
				}
			}
		})
	}
	most := 0
	await(t, "all wait", func() bool {
		most = max(most, listening(t, s))
		return waited.Load() == keys
	})
	s.Do("DEL", "lock:k1", "lock:k5000", "lock:k10000")
	await(t, "those whose keys have become free are served", func() bool { return served.Load() == 3 })
	most = max(most, listening(t, s))
	if channels := s.Do("PUBSUB", "CHANNELS", "pawl:*").([]any); most != 1 || len(channels) != 1 {
		t.Errorf("%d keys are waited for over up to %d connections and on %d channels, want one of each", keys, most, len(channels))
	}
	cancel()
	all.Wait()
}
