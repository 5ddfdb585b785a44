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

// patience bounds what a test waits for.
const patience = 30 * time.Second

// A client is one process, as far as the server can tell.
type client struct {
	driver.Backend
	rdb *goredis.Client
	ids *driver.Identity
}

func newClient(t testing.TB, addr string, options ...func(*goredis.Options)) *client {
	o := &goredis.Options{Addr: addr}
	for _, set := range options {
		set(o)
	}
	rdb := goredis.NewClient(o)
	c := &client{Backend: adapter.New(rdb), rdb: rdb, ids: driver.NewIdentity("host:1")}
	t.Cleanup(func() {
		c.Close()
		rdb.Close()
	})
	return c
}

func (c *client) mutex(key string) driver.Claim {
	return driver.Claim{Key: key, ID: c.ids.Next(), Weight: 1, Capacity: 1, TTL: time.Minute}
}

// lock waits in line until claim is granted.
func (c *client) lock(ctx context.Context, claim driver.Claim) (driver.Grant, error) {
	claim.Queue = true
	for {
		g, err := c.Acquire(ctx, claim)
		var h *driver.HeldError
		if !errors.As(err, &h) {
			return g, err
		}
		if err := c.Wait(ctx, claim, h); err != nil {
			return g, err
		}
	}
}

// must returns claim with its grant.
func (c *client) must(t testing.TB, claim driver.Claim) driver.Claim {
	t.Helper()
	g, err := c.Acquire(t.Context(), claim)
	if err != nil {
		t.Fatalf("Acquire of %q: %v", claim.Key, err)
	}
	claim.Grant = g
	return claim
}

func (c *client) release(t testing.TB, claim driver.Claim) {
	t.Helper()
	if err := c.Release(t.Context(), claim); err != nil {
		t.Errorf("Release of %q: %v", claim.Key, err)
	}
}

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

func TestALateRequestGrantsNothing(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newClient(t, s.Addr)
	c.release(t, c.must(t, c.mutex("before"))) // it learns the server's clock
	s.Do("CLIENT", "PAUSE", "600", "WRITE")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := c.Acquire(ctx, c.mutex("k"))
	if took := time.Since(began); err == nil || errors.Is(err, driver.ErrRefused) || took > 500*time.Millisecond {
		t.Errorf("Acquire on a paused server: got %v after %v, want an unknown outcome at the deadline", err, took)
	}
	await(t, "the late request has been answered", func() bool {
		return strings.Contains(s.Do("INFO", "commandstats").(string), "cmdstat_evalsha:calls=3,")
	})
	if got := s.Do("KEYS", "*{lock:k}*"); !reflect.DeepEqual(got, []any{}) || s.Do("EXISTS", "lock:k") != int64(0) {
		t.Errorf("after the late request: got the keys %v, want none", got)
	}
}

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
	c := newClient(t, s.Addr)
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

func TestAnOldServerIsToldFromABrokenOne(t *testing.T) {
	m := miniredis.RunT(t) // it knows no script flags, as Redis 6 does not
	c := newClient(t, m.Addr(), func(o *goredis.Options) { o.DisableIdentity, o.Protocol = true, 2 })
	_, err := c.Acquire(t.Context(), c.mutex("k"))
	if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "7.0") {
		t.Errorf("Acquire on an old server: got %v, want ErrUnsupported and the version that it takes", err)
	}
}

func TestTheRightsInTheProtocolAreEnough(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	var rule []any
	for _, word := range aclRule(t) {
		rule = append(rule, word)
	}
	s.Do(rule...)
	c := newClient(t, s.Addr, func(o *goredis.Options) { o.Username, o.Password = "locker", "secret" })
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
func aclRule(t *testing.T) []string {
	doc, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(doc)) {
		if words := strings.Fields(line); len(words) > 3 && words[0] == "ACL" && words[1] == "SETUSER" {
			return words
		}
	}
	t.Fatal("docs/protocol.md has no ACL SETUSER")
	return nil
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

// await polls until done reports true.
func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}
