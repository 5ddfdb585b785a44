package testserver_test

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawlock/pawl/internal/testserver"
)

func TestClientReadsAllKindsOfAnswers(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{Socket: true})
	for _, addr := range []string{s.Addr, s.Socket} {
		c, err := testserver.Dial(t.Context(), addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		got, err := c.Do(t.Context(), "EVAL", `return {1, 'a\r\nb', false, {}, {ok='fine'}, {err='BAD luck'}}`, 0)
		want := []any{int64(1), "a\r\nb", nil, []any{}, "fine", testserver.Error("BAD luck")}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("through %s: got %#v, %v, want %#v", addr, got, err, want)
		}
		var sent testserver.Error
		if _, err := c.Do(t.Context(), "NONSENSE"); !errors.As(err, &sent) || !strings.HasPrefix(err.Error(), "ERR ") {
			t.Errorf("an unknown command through %s: got %v, want the server's error", addr, err)
		}
	}
}

func TestServerComesBackAfterAKill(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	s.Do("SET", "k", "v")
	s.Kill()
	if _, err := s.Try("PING"); err == nil {
		t.Error("a killed server answers")
	}
	s.Start()
	if got := s.Do("GET", "k"); got != "v" {
		t.Errorf("after a restart with its log on disk: got %v, want v", got)
	}
}

func TestProxyFaults(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	p := testserver.StartProxy(t, s.Addr)
	dial := func() *testserver.Client {
		c, err := testserver.Dial(t.Context(), p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	do := func(c *testserver.Client, d time.Duration, args ...any) (any, error) {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		return c.Do(ctx, args...)
	}
	const long, short = 20 * time.Second, 50 * time.Millisecond

	c := dial()
	if got, err := do(c, long, "SET", "a", "1"); got != "OK" || err != nil {
		t.Fatalf("through the wire: got %v, %v", got, err)
	}
	p.Delay(testserver.Replies, 80*time.Millisecond)
	began := time.Now()
	if _, err := do(c, long, "PING"); err != nil || time.Since(began) < 80*time.Millisecond {
		t.Errorf("Delay: got %v after %v, want an answer after 80ms", err, time.Since(began))
	}
	p.Heal()

	p.Drop(testserver.Replies)
	if _, err := do(c, short, "SET", "a", "2"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Drop of replies: got %v, want a time-out", err)
	}
	p.Heal()
	await(t, "the request whose reply was lost is done", func() bool { return s.Do("GET", "a") == "2" })

	c = dial()
	p.Drop(testserver.Requests)
	if _, err := do(c, short, "SET", "a", "3"); err == nil {
		t.Error("Drop of requests: got an answer")
	}
	p.Heal()

	c = dial()
	p.Hold(testserver.Requests, 200*time.Millisecond)
	if _, err := do(c, short, "SET", "a", "4"); err == nil {
		t.Error("Hold: got an answer")
	}
	c.Close() // what was sent arrives all the same
	await(t, "the request that was held back is done", func() bool { return s.Do("GET", "a") == "4" })

	c = dial()
	p.Blackhole()
	if _, err := do(c, short, "SET", "a", "5"); err == nil {
		t.Error("Blackhole: got an answer")
	}
	p.Heal()
	await(t, "what was in the hole has come out", func() bool { return s.Do("GET", "a") == "5" })

	c = dial()
	if _, err := do(c, long, "PING"); err != nil { // accepted, not just dialled
		t.Fatal(err)
	}
	p.Cut()
	if _, err := do(c, long, "PING"); err == nil {
		t.Error("Cut: got an answer on a connection from before")
	}
	if _, err := do(dial(), long, "PING"); err != nil {
		t.Errorf("after Cut: got %v on a new connection", err)
	}
	p.Refuse()
	if _, err := do(dial(), long, "PING"); err == nil {
		t.Error("Refuse: got an answer on a new connection")
	}
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after 20s", what)
		}
	}
}
