package goredis_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
	"github.com/pawlock/pawl/internal/testserver"
)

// The older protocol of Redis has other types for some answers, and says the same.
// Case N07.
func TestConformanceInTheOlderProtocol(t *testing.T) {
	t.Parallel()
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	skip := make(map[string]string)
	for _, g := range drivertest.Guarantees() {
		if !slices.Contains([]string{"Exclusion", "Idempotence", "Renewal", "ReaderWriter", "Wakeup", "Fencing", "AnyKey", "Listing", "Revocation"}, g) {
			skip[g] = "has no answers of its own"
		}
	}
	drivertest.Run(t, drivertest.Harness{
		New: func(t *testing.T) drivertest.Store {
			return drivertest.Store{Connect: func() driver.Backend {
				return newClient(t, s.Addr, func(o *goredis.Options) { o.Protocol = 2 }).Backend
			}}
		},
		Skip: skip,
	})
}

// The way to the server is slow for a moment, or always: a free lock is granted
// soon all the same.
// Case T3.
func TestAFreeLockIsGrantedOverASlowWay(t *testing.T) {
	t.Parallel()
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	p := testserver.StartProxy(t, s.Addr)
	c := newLocks(t, newClient(t, p.Addr).Backend, nil)
	lockOf(t, c.Mutex("before")).Release(t.Context())
	soon := func(what string) {
		t.Helper()
		began := time.Now()
		lockOf(t, c.Mutex("k")).Release(t.Context())
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("%s: acquired and released after %v", what, took)
		}
	}
	p.Delay(testserver.Replies, 60*time.Millisecond)
	time.AfterFunc(100*time.Millisecond, p.Heal)
	soon("60ms for a moment")
	p.Delay(testserver.Replies, 30*time.Millisecond)
	for range 5 {
		soon("30ms always")
	}
	p.Heal()
}

// A user without the right to any channel waits without being called.
// Case N01.
func TestWithoutChannelsWaitersPoll(t *testing.T) {
	t.Parallel()
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	var rule []any
	for _, word := range aclRule(t) {
		if !strings.HasPrefix(word, "&") {
			rule = append(rule, word)
		}
	}
	s.Do(rule...)
	c := newClient(t, s.Addr, func(o *goredis.Options) { asLocker(o); o.DisableIdentity = true })
	for range 3 {
		held := c.must(t, c.mutex("k"))
		waiting := c.wait(t, c.mutex("k"))
		c.awaitLine(t, "k", 1)
		began := time.Now()
		c.release(t, held)
		a := granted(t, waiting)
		if took := a.at.Sub(began); took > 5*time.Second {
			t.Errorf("granted %v after the release, want within a poll", took)
		}
		c.release(t, a.claim)
	}
	if log := s.Do("ACL", "LOG").([]any); len(log) == 0 {
		t.Error("the server denied nothing: the test has tested nothing")
	}
}
