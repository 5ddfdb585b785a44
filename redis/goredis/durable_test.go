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

func newDurable(t testing.TB, addr string, d redis.Durability, options ...func(*goredis.Options)) *client {
	c := newClient(t, addr, options...)
	c.Close()
	b, err := redis.New(adapter.NewNode(c.rdb), &redis.Options{Durability: d})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	c.Backend = b
	return c
}

// What was granted is on the replica before anybody hears of it, so that it
// survives the master's end.
func TestAnAcknowledgedGrantSurvivesAFailover(t *testing.T) {
	master, replica := startReplicated(t)
	c := newDurable(t, master.Addr, redis.Durability{Replicas: 1, Timeout: 10 * time.Second})
	held := c.must(t, c.mutex("k"))
	if got := replica.Do("GET", keyOf("lock")); got != fmt.Sprintf("%s:%d", held.ID, held.Grant.Token) {
		t.Errorf("the lock on the replica after Acquire: got %v, want it", got)
	}
	held.TTL = 2 * time.Minute
	if _, err := c.Renew(t.Context(), held); err != nil {
		t.Fatalf("Renew: %v", err)
	}
	if left := replica.Do("PTTL", keyOf("lock")).(int64); left < 90_000 {
		t.Errorf("life of the lock on the replica after Renew: got %d ms, want near 120000", left)
	}
	master.Kill()
	replica.Do("REPLICAOF", "NO", "ONE")
	after := newClient(t, replica.Addr)
	if _, err := after.Acquire(t.Context(), after.mutex("k")); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("Acquire of another after the failover: got %v, want ErrHeld", err)
	}
	if _, err := after.Renew(t.Context(), held); err != nil {
		t.Errorf("Renew after the failover: %v", err)
	}
}

// A replica that does not answer costs the grant, and leaves nothing.
// Case G04.
func TestWhatNoReplicaAcknowledgesIsUndone(t *testing.T) {
	for _, bounded := range []bool{false, true} {
		t.Run(fmt.Sprintf("ContextTimeoutEnabled=%v", bounded), func(t *testing.T) {
			t.Parallel()
			master, replica := startReplicated(t)
			set := func(o *goredis.Options) { o.ContextTimeoutEnabled = bounded }
			c := newDurable(t, master.Addr, redis.Durability{Replicas: 1, Timeout: 5 * time.Second}, set)
			held := c.must(t, c.mutex("held"))
			replica.Stop()
			t.Cleanup(replica.Continue)
			impatient := newDurable(t, master.Addr, redis.Durability{Replicas: 1, Timeout: 100 * time.Millisecond}, set)

			claim := impatient.mutex("k")
			began := time.Now()
			_, err := impatient.Acquire(t.Context(), claim)
			var d *redis.DurabilityError
			if !errors.As(err, &d) || !errors.Is(err, driver.ErrRefused) || d.Replicas != 0 || d.Asked.Replicas != 1 {
				t.Errorf("Acquire with a frozen replica: got %v, want a *DurabilityError, none of 1, which is ErrRefused", err)
			}
			if took := time.Since(began); took < 100*time.Millisecond {
				t.Errorf("Acquire gave up after %v, want 100ms at least", took)
			}
			if got := master.Do("EXISTS", keyOf("lock")); got != int64(0) {
				t.Errorf("the lock is there after the Acquire: want nothing")
			}
			if _, err := impatient.Renew(t.Context(), held); !errors.As(err, &d) || errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrLost) {
				t.Errorf("Renew with a frozen replica: got %v, want a *DurabilityError that leaves the outcome open", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			began = time.Now()
			if _, err := c.Acquire(ctx, c.mutex("soon")); err == nil {
				t.Errorf("Acquire with a frozen replica and little time: got no error")
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("Acquire with 300ms returned after %v", took)
			}

			replica.Continue()
			if _, err := c.Renew(t.Context(), held); err != nil {
				t.Errorf("Renew when the replica is back: %v", err)
			}
			c.release(t, c.must(t, c.mutex("k")))
			if n := c.rdb.PoolStats().TotalConns; n > 3 {
				t.Errorf("connections: got %d, want those that were used given back", n)
			}
		})
	}
}

// The server counts from the last command of the connection that asks. That is why
// the write and the wait share one.
// Case G02.
func TestAWaitOnAnotherConnectionLies(t *testing.T) {
	master, replica := startReplicated(t)
	replica.Stop()
	t.Cleanup(replica.Continue)
	ctx := t.Context()
	rdb := goredis.NewClient(&goredis.Options{Addr: master.Addr})
	defer rdb.Close()
	writer, other := rdb.Conn(), rdb.Conn()
	defer writer.Close()
	defer other.Close()
	if err := other.Ping(ctx).Err(); err != nil { // as one in a pool that was used before
		t.Fatal(err)
	}
	if err := writer.Set(ctx, "x", "1", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	truth, err1 := writer.Wait(ctx, 1, 100*time.Millisecond).Result()
	lie, err2 := other.Wait(ctx, 1, 100*time.Millisecond).Result()
	if err1 != nil || err2 != nil || truth != 0 || lie != 1 {
		t.Errorf("WAIT 1 for what a frozen replica can't have: got %d, %v where it was written, and %d, %v elsewhere; want 0 and 1", truth, err1, lie, err2)
	}
}

// A connection that broke after the write is not replaced by one that lies.
// Case G02.
func TestAPinnedConnectionStaysTheSame(t *testing.T) {
	master, replica := startReplicated(t)
	c := newClient(t, master.Addr)
	conn, err := adapter.NewNode(c.rdb).Pin(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Eval(t.Context(), "return redis.call('SET', KEYS[1], '1', 'PX', 60000)", []string{"x"}); err != nil {
		t.Fatal(err)
	}
	replica.Stop()
	t.Cleanup(replica.Continue)
	master.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	for range 2 {
		if n, err := conn.Wait(t.Context(), 1, 100*time.Millisecond); err == nil {
			t.Errorf("Wait on a connection that was killed: got %d, want an error", n)
		}
	}
}

func TestAServerWithoutReplicasGrantsNothingThatNeedsOne(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newDurable(t, s.Addr, redis.Durability{Replicas: 1, Timeout: 50 * time.Millisecond})
	if _, err := c.Acquire(t.Context(), c.mutex("k")); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("Acquire: got %v, want ErrRefused", err)
	}
	other := newClient(t, s.Addr)
	other.release(t, other.must(t, other.mutex("k")))
}

func TestWhatIsOnDiskIsAskedOfServersThatKnow(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{Args: []string{"--appendonly", "yes"}})
	c := newDurable(t, s.Addr, redis.Durability{Disk: true, Timeout: 10 * time.Second})
	claim := c.mutex("k")
	g, err := c.Acquire(t.Context(), claim)
	if _, old := s.Try("WAITAOF", 0, 0, 1); old == nil {
		if err != nil {
			t.Errorf("Acquire: %v", err)
		}
		claim.Grant = g
		c.release(t, claim)
		s.Do("CONFIG", "SET", "appendonly", "no")
		_, err = c.Acquire(t.Context(), c.mutex("k"))
	}
	if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "7.2") {
		t.Errorf("Acquire where nothing is on disk: got %v, want ErrUnsupported and what it takes", err)
	}
	if got := s.Do("EXISTS", keyOf("lock")); got != int64(0) {
		t.Errorf("the lock is there after the Acquire: want nothing")
	}
}

// Case N05.
func TestTheRightToWaitIsMissed(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	var rule []any
	for _, word := range aclRule(t) {
		rule = append(rule, word)
	}
	s.Do(rule...)
	c := newDurable(t, s.Addr, redis.Durability{Replicas: 1}, func(o *goredis.Options) { o.Username, o.Password = "locker", "secret" })
	if _, err := c.Acquire(t.Context(), c.mutex("k")); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "wait") {
		t.Errorf("Acquire without the right to WAIT: got %v, want ErrRefused and the command", err)
	}
	if got := s.Do("EXISTS", keyOf("lock")); got != int64(0) {
		t.Errorf("the lock is there after the Acquire: want nothing")
	}
}

func TestARingHasNoConnectionToPin(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	ring := goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": l.Addr().String()}})
	defer ring.Close()
	b, err := redis.New(adapter.NewNode(ring), &redis.Options{Durability: redis.Durability{Replicas: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Acquire(t.Context(), (&client{ids: driver.NewIdentity("t")}).mutex("k")); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("Acquire: got %v, want ErrUnsupported", err)
	}
}
