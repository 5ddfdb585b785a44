package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
)

func TestALateRequestGrantsNothing(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		t.Run(fmt.Sprintf("fresh=%v", fresh), func(t *testing.T) {
			s := testserver.StartRedis(t, testserver.RedisOptions{})
			c := newClient(t, s.Addr)
			if c.rdb.Ping(t.Context()); !fresh {
				c.release(t, c.must(t, c.mutex("before"))) // it learns the server's clock
			}
			before := evaluations(t, s)
			s.Do("CLIENT", "PAUSE", "600", "WRITE")
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			claim := c.mutex("k")
			claim.Queue = true
			began := time.Now()
			_, err := c.Acquire(ctx, claim)
			if took := time.Since(began); err == nil || errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrRefused) != fresh || took > 5*time.Second {
				t.Errorf("Acquire on a paused server: got %v after %v, want an error at the deadline", err, took)
			}
			await(t, "the late request has been answered", func() bool { return evaluations(t, s) > before })
			if got := s.Do("KEYS", "*lock:k*"); !reflect.DeepEqual(got, []any{}) {
				t.Errorf("after the late request: got the keys %v, want none", got)
			}
		})
	}
}

// Case D02.
func TestABrokenSubscriptionLosesNoCall(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	holder, waiter := newClient(t, s.Addr), newClient(t, s.Addr)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 5 {
		held := holder.must(t, holder.mutex("k"))
		claim := waiter.mutex("k")
		granted := make(chan error, 1)
		go func() {
			g, err := waiter.lock(ctx, claim)
			claim.Grant = g
			granted <- err
		}()
		await(t, "the waiter listens", func() bool {
			return strings.Contains(s.Do("CLIENT", "LIST", "TYPE", "pubsub").(string), " sub=1 ")
		})
		s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		began := time.Now()
		holder.release(t, held)
		if err := <-granted; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the waiter was granted %v after the release, want soon", took)
		}
		waiter.release(t, claim)
	}
}

// Case A02.
func TestCallsReturnAtTheDeadline(t *testing.T) {
	for _, bounded := range []bool{false, true} {
		t.Run(fmt.Sprintf("ContextTimeoutEnabled=%v", bounded), func(t *testing.T) {
			s := testserver.StartRedis(t, testserver.RedisOptions{})
			p := testserver.StartProxy(t, s.Addr)
			c := newClient(t, p.Addr, func(o *goredis.Options) {
				o.ContextTimeoutEnabled = bounded
				o.ReadTimeout = 2 * time.Second
			})
			held := c.must(t, c.mutex("held"))
			p.Blackhole()
			for name, call := range map[string]func(context.Context) error{
				"Acquire": func(ctx context.Context) error { _, err := c.Acquire(ctx, c.mutex("k")); return err },
				"Renew":   func(ctx context.Context) error { _, err := c.Renew(ctx, held); return err },
				"Release": func(ctx context.Context) error { return c.Release(ctx, held) },
				"Inspect": func(ctx context.Context) error { _, err := c.Inspect(ctx, "k", 1); return err },
			} {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				began := time.Now()
				err := call(ctx)
				cancel()
				if took := time.Since(began); took > time.Second || err == nil || errors.Is(err, driver.ErrRefused) {
					t.Errorf("%s through a wire that lets nothing pass: got %v after %v, want an unknown outcome after 100ms", name, err, took)
				}
			}
			p.Heal()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			await(t, "the user's client works again", func() bool { return c.rdb.Ping(ctx).Err() == nil })
			c.release(t, c.must(t, c.mutex("after")))
		})
	}
}

// Case P10.
func TestARequestIsSentOnce(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	p := testserver.StartProxy(t, s.Addr)
	c := newClient(t, p.Addr)
	c.release(t, c.must(t, c.mutex("before")))
	before := evaluations(t, s)
	p.Drop(testserver.Replies)
	outcome := make(chan error, 1)
	go func() { _, err := c.Acquire(t.Context(), c.mutex("k")); outcome <- err }()
	await(t, "the request has arrived", func() bool { return evaluations(t, s) > before })
	p.Heal()
	p.Cut()
	if err := <-outcome; err == nil || errors.Is(err, driver.ErrRefused) {
		t.Errorf("Acquire whose answer was lost: got %v, want an unknown outcome", err)
	}
	if err := c.rdb.Ping(t.Context()).Err(); err != nil { // the user's own commands are repeated
		t.Errorf("Ping through the same client: %v", err)
	}
	if got := evaluations(t, s) - before; got != 1 {
		t.Errorf("the server got the request %d times, want once", got)
	}
}

// evaluations counts the scripts that s has run.
func evaluations(t *testing.T, s *testserver.Redis) (n int) {
	for _, line := range strings.Split(s.Do("INFO", "commandstats").(string), "\r\n") {
		var calls int
		for _, name := range []string{"eval", "evalsha"} {
			if _, err := fmt.Sscanf(line, "cmdstat_"+name+":calls=%d,", &calls); err == nil {
				n += calls
			}
		}
	}
	return n
}

// Case N03.
func TestAFullServerStillRenewsAndReleases(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newClient(t, s.Addr)
	held := c.must(t, c.mutex("k"))
	share := c.must(t, driver.Claim{Key: "s", ID: c.ids.Next(), Weight: 1, Capacity: 2, TTL: time.Minute})
	forced := c.must(t, c.mutex("f"))
	s.Do("CONFIG", "SET", "maxmemory", "1")
	_, err := c.Acquire(t.Context(), c.mutex("other"))
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("Acquire on a full server: got %v, want ErrRefused and the server's OOM", err)
	}
	for _, claim := range []driver.Claim{held, share} {
		if _, err := c.Renew(t.Context(), claim); err != nil {
			t.Errorf("Renew of %q on a full server: %v", claim.Key, err)
		}
		if _, err := c.Inspect(t.Context(), claim.Key, 1); err != nil {
			t.Errorf("Inspect of %q on a full server: %v", claim.Key, err)
		}
		c.release(t, claim)
	}
	if err := c.Revoke(t.Context(), "f", forced.ID, driver.Notice{Force: true}); err != nil {
		t.Errorf("Revoke on a full server: %v", err)
	}
}

func TestAReplicaRefuses(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newClient(t, s.Addr)
	held := c.must(t, c.mutex("k"))
	s.Do("REPLICAOF", "127.0.0.1", "1") // nobody is there
	_, errAcquire := c.Acquire(t.Context(), c.mutex("x"))
	_, errRenew := c.Renew(t.Context(), held)
	for i, err := range []error{errAcquire, errRenew, c.Release(t.Context(), held)} {
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "READONLY") {
			t.Errorf("call %d on a replica: got %v, want ErrRefused and READONLY", i, err)
		}
	}
}

func TestAServerThatIsNotThereRefuses(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newClient(t, s.Addr, func(o *goredis.Options) { o.DialerRetries = 1 })
	s.Kill()
	_, err := c.Acquire(t.Context(), c.mutex("k"))
	if !errors.Is(err, driver.ErrRefused) {
		t.Errorf("Acquire: got %v, want ErrRefused", err)
	}
	s.Start()
	c.release(t, c.must(t, c.mutex("k")))
	c.rdb.Close()
	if _, err := c.Acquire(t.Context(), c.mutex("k")); !errors.Is(err, driver.ErrRefused) || !errors.Is(err, goredis.ErrClosed) {
		t.Errorf("Acquire with a closed client: got %v, want ErrRefused and ErrClosed", err)
	}
}
