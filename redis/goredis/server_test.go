package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/redis"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

// Cases N04, T17.
func TestAForgetfulServerGetsTheScriptsAgain(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newClient(t, s.Addr)
	claim := c.mutex("k")
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"Acquire", func() (err error) { claim.Grant, err = c.Acquire(t.Context(), claim); return }},
		{"Renew", func() error { _, err := c.Renew(t.Context(), claim); return err }},
		{"Inspect", func() error { _, err := c.Inspect(t.Context(), "k", 1); return err }},
		{"Revoke", func() error { return c.Revoke(t.Context(), "k", claim.ID, driver.Notice{}) }},
		{"Release", func() error { return c.Release(t.Context(), claim) }},
	} {
		for range 2 {
			s.Do("SCRIPT", "FLUSH")
			if err := step.do(); err != nil {
				t.Errorf("%s after SCRIPT FLUSH: %v", step.name, err)
			}
		}
	}
}

// Case H01.
func TestADuplicateOfARequestChangesNothing(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newClient(t, s.Addr)
	claim := c.mutex("k")
	acquire := []any{"EVAL", readScript(t, "acquire"), "5", keyOf("lock"), keyOf("line"), keyOf("shares"), keyOf("claims"), keyOf("fence"),
		claim.ID, 60000, 1, 1, 0, 1, 1, 0, "pawl:wake:x", "me"}
	first := s.Do(acquire...).([]any)
	again := s.Do(acquire...).([]any)
	if first[0] != int64(1) || again[0] != int64(1) || first[2] != again[2] {
		t.Errorf("the same Acquire twice: got %v and %v, want the same grant", first, again)
	}
	c.release(t, claim)
	if got := s.Do(acquire...).([]any); got[0] != int64(-1) {
		t.Errorf("the same Acquire after the Release: got %v, want lost", got)
	}
	if got := s.Do("KEYS", "*"); !reflect.DeepEqual(got, []any{keyOf("fence")}) {
		t.Errorf("keys: got %v, want the fence only", got)
	}
	c.release(t, claim)
}

func TestNothingIsLeftButTheFences(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newClient(t, s.Addr)
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			claim := driver.Claim{Key: fmt.Sprint("k", i%3), ID: c.ids.Next(), Weight: 1 + i%2, Capacity: 1 + i%4/2*3 + i%2, TTL: time.Minute}
			if i%5 == 0 { // gives up
				short, cancel := context.WithTimeout(ctx, time.Duration(i)*time.Millisecond)
				defer cancel()
				g, _ := c.lock(short, claim)
				claim.Grant = g
				<-short.Done()
				if err := c.Release(ctx, claim); err != nil {
					t.Errorf("Release of a claim that gave up: %v", err)
				}
				return
			}
			g, err := c.lock(ctx, claim)
			if err != nil {
				t.Errorf("claim %d: %v", i, err)
			}
			claim.Grant = g
			if err := c.Release(ctx, claim); err != nil {
				t.Errorf("Release: %v", err)
			}
		})
	}
	all.Wait()
	keys := s.Do("KEYS", "*").([]any)
	slices.SortFunc(keys, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	want := []any{"pawl.fence:{lock:k0}", "pawl.fence:{lock:k1}", "pawl.fence:{lock:k2}"}
	if !reflect.DeepEqual(keys, want) {
		t.Errorf("keys after the last release: got %v, want %v", keys, want)
	}
	for _, key := range keys {
		if ttl := s.Do("PTTL", key).(int64); ttl <= 0 || ttl > 24*3600*1000 {
			t.Errorf("%v lives for %d ms, want a day at most", key, ttl)
		}
	}
}

func TestAnOldServerIsToldFromABrokenOne(t *testing.T) {
	m := miniredis.RunT(t) // it knows no script flags, as Redis 6 does not
	c := newClient(t, m.Addr(), func(o *goredis.Options) { o.DisableIdentity, o.Protocol = true, 2 })
	_, err := c.Acquire(t.Context(), c.mutex("k"))
	if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "7.0") {
		t.Errorf("Acquire on an old server: got %v, want ErrUnsupported and the version that it takes", err)
	}
}

// Case N01.
func TestTheRightsInTheProtocolAreEnough(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	var rule []any
	for _, word := range aclRule(t) {
		rule = append(rule, word)
	}
	s.Do(rule...)
	c := newClient(t, s.Addr, func(o *goredis.Options) {
		o.Username, o.Password = "locker", "secret"
		o.DisableIdentity = true // or it asks for client|setinfo, and does without
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	held := c.must(t, c.mutex("k"))
	waiting := c.mutex("k")
	granted := make(chan error, 1)
	go func() {
		g, err := c.lock(ctx, waiting)
		waiting.Grant = g
		granted <- err
	}()
	await(t, "the waiter listens", func() bool {
		return strings.Contains(s.Do("CLIENT", "LIST", "TYPE", "pubsub").(string), " sub=1 ")
	})
	if _, err := c.Renew(ctx, held); err != nil {
		t.Errorf("Renew: %v", err)
	}
	if err := c.Revoke(ctx, "k", held.ID, driver.Notice{Force: true, By: "me"}); err != nil {
		t.Errorf("Revoke: %v", err)
	}
	if err := <-granted; err != nil {
		t.Errorf("Acquire in line: %v", err)
	}
	reader := driver.Claim{Key: "r", ID: c.ids.Next(), Weight: 1, Capacity: driver.Unlimited, TTL: time.Minute}
	share := c.must(t, reader)
	if _, err := c.Renew(ctx, share); err != nil {
		t.Errorf("Renew of a share: %v", err)
	}
	n := 0
	for _, err := range c.List(ctx, "") {
		if err != nil {
			t.Errorf("List: %v", err)
		}
		n++
	}
	if n != 2 {
		t.Errorf("List: got %d holders, want 2", n)
	}
	share.Keep = time.Second
	c.release(t, share)
	c.release(t, waiting)
	if log := s.Do("ACL", "LOG"); !reflect.DeepEqual(log, []any{}) {
		t.Errorf("the server denied something: %v", log)
	}
}

// aclRule returns the command of docs/protocol.md that makes a user.
func aclRule(t *testing.T) []string { return aclRules(t)[0] }

// aclRules returns the commands of docs/protocol.md that make the user of a lock, and
// give it what a cluster takes.
func aclRules(t *testing.T) (rules [][]string) {
	doc, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(doc)) {
		if words := strings.Fields(line); len(words) > 3 && words[0] == "ACL" && words[1] == "SETUSER" && words[2] == "locker" {
			rules = append(rules, words)
		}
	}
	if len(rules) != 2 {
		t.Fatalf("docs/protocol.md has %d ACL SETUSER locker, want one for a server and one more for a cluster", len(rules))
	}
	return rules
}

func TestTheUsersClientStaysOpen(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newClient(t, s.Addr)
	c.must(t, c.mutex("k"))
	c.Close()
	if err := c.rdb.Ping(t.Context()).Err(); err != nil {
		t.Errorf("Ping after Close of the backend: %v", err)
	}
}

// Case K07.
func TestPrefixesKeepLocksApart(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newClient(t, s.Addr)
	other, err := redis.New(adapter.NewNode(c.rdb), &redis.Options{Prefix: "{app}:"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	c.must(t, c.mutex("k"))
	if _, err := other.Acquire(t.Context(), c.mutex("k")); err != nil {
		t.Errorf("Acquire under another prefix: %v", err)
	}
	for h, err := range other.List(t.Context(), "") {
		if err != nil || h.Key != "k" {
			t.Errorf("List: got %+v, %v, want k", h, err)
		}
	}
	if got := s.Do("EXISTS", "{app}:k", "pawl.fence:{app}:k", "lock:k"); got != int64(3) {
		t.Errorf("the keys under both prefixes: got %v of 3", got)
	}
}
