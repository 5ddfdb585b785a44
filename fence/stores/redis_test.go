package stores_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/fence"
	"github.com/pawlock/pawl/fence/fenceredis"
	"github.com/pawlock/pawl/fence/fencetest"
	"github.com/pawlock/pawl/internal/testserver"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

// dial returns a client of the server at addr that ends with the test.
func dial(t *testing.T, addr string) *goredis.Client {
	rdb := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

func redisGuard(t *testing.T, addr string) *fenceredis.Guard {
	return fenceredis.New(adapter.NewNode(dial(t, addr)))
}

func push(ctx context.Context, key, value string) error {
	fenceredis.Queue(ctx, []string{key}, "RPUSH", key, value)
	return nil
}

func TestConformanceOfRedis(t *testing.T) {
	server := testserver.StartRedis(t, testserver.RedisOptions{})
	reader := dial(t, server.Addr)
	fencetest.Run(t, fencetest.Harness{New: func(t *testing.T) fencetest.Store {
		return fencetest.Store{
			Guard:  func() fence.Guard { return redisGuard(t, server.Addr) },
			Append: push,
			Read:   func(resource string) []string { return list(t, reader, resource) },
			Undo:   true,
		}
	}})
}

func list(t *testing.T, rdb goredis.UniversalClient, key string) []string {
	t.Helper()
	values, err := rdb.LRange(t.Context(), key, 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// In a cluster the mark is where the key is that has the name of the resource, with
// or without a hash tag.
func TestAResourceOfAClusterIsWhereItsKeyIs(t *testing.T) {
	cluster := testserver.StartCluster(t, testserver.ClusterOptions{})
	rdb := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: cluster.Addrs(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { rdb.Close() })
	guard := fenceredis.New(adapter.NewNode(rdb))
	for _, name := range []string{"a", "b", "c", "invoice:42", "{tag}:a", "x{tag}y", "{", "a{", "%", "{%}", "%7D"} {
		err := guard.Do(t.Context(), name, pawl.Token{Key: "k", Number: 5}, func(ctx context.Context) error { return push(ctx, name, "x") })
		if err != nil {
			t.Errorf("%q: %v", name, err)
		}
		err = guard.Do(t.Context(), name, pawl.Token{Key: "k", Number: 4}, func(ctx context.Context) error { return push(ctx, name, "late") })
		if !errors.Is(err, fence.ErrStale) {
			t.Errorf("%q: 4 after 5: got %v, want ErrStale", name, err)
		}
		if got := list(t, rdb, name); !slices.Equal(got, []string{"x"}) {
			t.Errorf("%q holds %q, want x alone", name, got)
		}
	}
}

func TestCommandsAnswer(t *testing.T) {
	server := testserver.StartRedis(t, testserver.RedisOptions{})
	guard := redisGuard(t, server.Addr)
	var replies []*fenceredis.Reply
	err := guard.Do(t.Context(), "r", pawl.Token{Key: "k", Number: 5}, func(ctx context.Context) error {
		add := func(words ...any) { replies = append(replies, fenceredis.Queue(ctx, []string{"r"}, words...)) }
		add("SET", "r", 41)
		add("INCR", "r")
		add("GET", "r")
		add("GET", "r", "x")
		add("SET", "r", "x", "XX", "GET")
		add("MGET", "r", "none")
		return nil
	})
	if err == nil {
		t.Fatal("GET with two keys: got nil, want its error")
	}
	replies = nil
	err = guard.Do(t.Context(), "r", pawl.Token{Key: "k", Number: 5}, func(ctx context.Context) error {
		add := func(words ...any) { replies = append(replies, fenceredis.Queue(ctx, []string{"r"}, words...)) }
		add("SET", "r", uint64(41))
		add("INCR", "r")
		add("GET", "none")
		add("MGET", "r", "none")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []any
	for _, r := range replies {
		got = append(got, r.Value)
	}
	if want := "[OK 42 <nil> [42 <nil>]]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// A command that fails leaves what was before it, as in a MULTI, and the token.
func TestACommandThatFailsIsNotStale(t *testing.T) {
	server := testserver.StartRedis(t, testserver.RedisOptions{})
	guard := redisGuard(t, server.Addr)
	err := guard.Do(t.Context(), "r", pawl.Token{Key: "k", Number: 9}, func(ctx context.Context) error {
		fenceredis.Queue(ctx, []string{"r"}, "SET", "r", "x")
		fenceredis.Queue(ctx, []string{"r"}, "LPUSH", "r", "y")
		fenceredis.Queue(ctx, []string{"r"}, "SET", "r", "z")
		return nil
	})
	if err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("got %v, want the error of LPUSH", err)
	}
	if got := server.Do("GET", "r"); got != "x" {
		t.Errorf("the key holds %q, want x", got)
	}
	if err := guard.Do(t.Context(), "r", pawl.Token{Key: "k", Number: 8}, func(context.Context) error { return nil }); !errors.Is(err, fence.ErrStale) {
		t.Errorf("8, after a part of 9 was written: got %v, want ErrStale", err)
	}
}

// What stands in the place of a mark and is none lets nobody pass.
func TestAForeignMarkLetsNobodyPass(t *testing.T) {
	server := testserver.StartRedis(t, testserver.RedisOptions{})
	for i, value := range [][]any{{"SET", "pawl.mark:{r}", "x"}, {"HSET", "pawl.mark:{r}", "exclusive", "x"}} {
		server.Do("FLUSHALL")
		server.Do(value...)
		err := redisGuard(t, server.Addr).Do(t.Context(), "r", pawl.Token{Key: "k", Number: 9}, func(ctx context.Context) error { return push(ctx, "r", "x") })
		if err == nil || errors.Is(err, fence.ErrStale) || server.Do("EXISTS", "r") != int64(0) {
			t.Errorf("mark %d: got %v, and EXISTS r %v, want an error and nothing written", i, err, server.Do("EXISTS", "r"))
		}
	}
}

// Case R02: the mark is as durable as the data, and survives that the server has
// forgotten the script.
func TestAMarkInRedisOutlivesTheServer(t *testing.T) {
	server := testserver.StartRedis(t, testserver.RedisOptions{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	write := func(number uint64) error {
		return redisGuard(t, server.Addr).Do(t.Context(), "r", pawl.Token{Key: "k", Number: number}, func(ctx context.Context) error {
			return push(ctx, "r", fmt.Sprint(number))
		})
	}
	if err := write(7); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	server.Start()
	if err := write(6); !errors.Is(err, fence.ErrStale) {
		t.Errorf("6, after a crash that came after 7: got %v, want ErrStale", err)
	}
	server.Do("SCRIPT", "FLUSH")
	if err := write(8); err != nil {
		t.Errorf("after SCRIPT FLUSH: %v", err)
	}
	if got := list(t, dial(t, server.Addr), "r"); !slices.Equal(got, []string{"7", "8"}) {
		t.Errorf("the data is %q, want 7 and 8", got)
	}
}

// The rights that docs/protocol.md names are enough.
func TestTheRightsOfAGuardAreEnough(t *testing.T) {
	server := testserver.StartRedis(t, testserver.RedisOptions{})
	server.Do("ACL", "SETUSER", "writer", "on", ">secret", "resetkeys", "~pawl.mark*", "~invoice:*", "-@all", "+eval", "+evalsha", "+hmget", "+hset", "+rpush", "+hello", "+ping")
	rdb := goredis.NewClient(&goredis.Options{Addr: server.Addr, Username: "writer", Password: "secret", DisableIdentity: true})
	t.Cleanup(func() { rdb.Close() })
	guard := fenceredis.New(adapter.NewNode(rdb))
	err := guard.Do(t.Context(), "invoice:42", pawl.Token{Key: "k", Number: 5}, func(ctx context.Context) error { return push(ctx, "invoice:42", "x") })
	if err != nil {
		t.Error(err)
	}
}

func TestACommandIsNeverLostSilently(t *testing.T) {
	panics := func(what string, f func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s: got no panic", what)
			}
		}()
		f()
	}
	panics("outside of a Do", func() { push(t.Context(), "r", "x") })
	server := testserver.StartRedis(t, testserver.RedisOptions{})
	var late context.Context
	guard := redisGuard(t, server.Addr)
	token := pawl.Token{Key: "k", Number: 5}
	if err := guard.Do(t.Context(), "r", token, func(ctx context.Context) error { late = ctx; return nil }); err != nil {
		t.Fatal(err)
	}
	panics("after its end", func() { push(late, "r", "x") })
	for _, words := range [][]any{nil, make([]any, 4001)} {
		err := guard.Do(t.Context(), "r", token, func(ctx context.Context) error {
			fenceredis.Queue(ctx, nil, words...)
			return nil
		})
		if !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("a command of %d words: got %v, want ErrInvalid", len(words), err)
		}
	}
	values := make([]any, 4000)
	values[0], values[1] = "RPUSH", "r"
	for i := range values[2:] {
		values[i+2] = "x"
	}
	err := guard.Do(t.Context(), "r", token, func(ctx context.Context) error {
		fenceredis.Queue(ctx, []string{"r"}, values...)
		return nil
	})
	if got := server.Do("LLEN", "r"); err != nil || got != int64(3998) {
		t.Errorf("a command of 4000 words: got %v, and %v in the list", err, got)
	}
}
