package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/redis"
)

func TestAHandMadeLockExcludesPawl(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newClient(t, s.Addr)
	if got := s.Do("SET", "lock:x", "me", "NX", "PX", "5000"); got != "OK" {
		t.Fatalf("SET NX of a free key: got %v, want OK", got)
	}
	for _, claim := range []driver.Claim{c.mutex("x"), {Key: "x", ID: c.ids.Next(), Weight: 1, Capacity: driver.Unlimited, TTL: time.Minute}} {
		_, err := c.Acquire(t.Context(), claim)
		var h *driver.HeldError
		if !errors.As(err, &h) || !h.Holder.Foreign || h.Holder.ID != "me" || h.Left <= 0 || h.Left > 5*time.Second {
			t.Errorf("Acquire of what a foreign client holds: got %#v, want a *HeldError that says so", err)
		}
	}
	st, err := c.Inspect(t.Context(), "x", 10)
	if err != nil || len(st.Holders) != 1 || !st.Holders[0].Foreign || !st.Holders[0].Held || st.Holders[0].ID != "me" {
		t.Errorf("Inspect: got %+v, %v, want the foreign holder me", st, err)
	}

	// The textbook's release: compare and delete.
	const compareAndDelete = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`
	if got := s.Do("EVAL", compareAndDelete, "1", "lock:x", "me"); got != int64(1) {
		t.Errorf("compare and delete: got %v, want 1", got)
	}
	held := c.must(t, c.mutex("x"))
	if got := s.Do("SET", "lock:x", "me", "NX", "PX", "5000"); got != nil {
		t.Errorf("SET NX of what pawl holds: got %v, want nothing", got)
	}
	if got := s.Do("EVAL", compareAndDelete, "1", "lock:x", "me"); got != int64(0) {
		t.Errorf("compare and delete of what pawl holds: got %v, want 0", got)
	}
	c.release(t, held)
	share := c.must(t, driver.Claim{Key: "x", ID: c.ids.Next(), Weight: 1, Capacity: 3, TTL: time.Minute})
	if got := s.Do("SET", "lock:x", "me", "NX", "PX", "5000"); got != nil {
		t.Errorf("SET NX of what pawl shares: got %v, want nothing", got)
	}
	c.release(t, share)

	// pawl's own hold can be released by hand too: the value is the whole hold.
	held = c.must(t, c.mutex("x"))
	value := fmt.Sprintf("%s:%d", held.ID, held.Grant.Token)
	if got := s.Do("EVAL", compareAndDelete, "1", "lock:x", value); got != int64(1) {
		t.Errorf("compare and delete of %q: got %v, want 1", value, got)
	}
}

func TestAForeignHolderIsWaitedFor(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newClient(t, s.Addr)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for name, end := range map[string]func(){
		"released": func() {
			s.Do("SET", "lock:x", "me", "PX", "60000")
			time.AfterFunc(100*time.Millisecond, func() { s.Try("DEL", "lock:x") })
		},
		"expires": func() { s.Do("SET", "lock:x", "me", "PX", "100") },
	} {
		end()
		claim := c.mutex("x")
		began := time.Now()
		g, err := c.lock(ctx, claim)
		if took := time.Since(began); err != nil || took > 10*time.Second {
			t.Errorf("%s: got %v after %v, want a grant soon", name, err, took)
		}
		claim.Grant = g
		c.release(t, claim)
	}
}

// Case K05.
func TestAKeyOfAnotherTypeIsLeftAlone(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newClient(t, s.Addr)
	s.Do("RPUSH", "lock:jobs", "a", "b")
	_, err := c.Acquire(t.Context(), c.mutex("jobs"))
	var typed *redis.TypeError
	if !errors.As(err, &typed) || typed.Name != "lock:jobs" || !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Acquire of a list: got %v, want a *TypeError that names it", err)
	}
	if got := s.Do("LRANGE", "lock:jobs", "0", "-1"); !reflect.DeepEqual(got, []any{"a", "b"}) {
		t.Errorf("the list after that: got %v, want it as before", got)
	}
	c.must(t, c.mutex("mine"))
	for h, err := range c.List(t.Context(), "") {
		if err != nil || h.Key != "mine" {
			t.Errorf("List: got %+v, %v, want mine only", h, err)
		}
	}
}
