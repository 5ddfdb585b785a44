package redis_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/redis"
)

func mutex() driver.Claim {
	return driver.Claim{Key: "k", ID: driver.NewIdentity("me").Next(), Weight: 1, Capacity: 1, TTL: time.Minute}
}

func newBackend(t *testing.T, n *fakeNode) driver.Backend {
	b, err := redis.New(n, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestOptionsAreRefusedByName(t *testing.T) {
	for _, prefix := range []string{"\xff", "pawl.", "p", "pawl.line:", "{", "}", "a}b", "{}", "{a", "{a}{b}", "{a}}", "{{a}"} {
		_, err := redis.New(&fakeNode{}, &redis.Options{Prefix: prefix})
		var field *driver.FieldError
		if !errors.As(err, &field) || field.Field != "Prefix" {
			t.Errorf("New with the prefix %q: got %v, want a *FieldError that names Prefix", prefix, err)
		}
	}
	for _, prefix := range []string{"", "lock:", "{app}:", "a{b}c", "pawl", "%"} {
		_, err := redis.New(&fakeNode{}, &redis.Options{Prefix: prefix})
		if want := prefix == "pawl"; (err != nil) != want {
			t.Errorf("New with the prefix %q: got %v, want an error: %v", prefix, err, want)
		}
	}
	if _, err := redis.New(nil, nil); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("New without a node: got %v, want ErrInvalid", err)
	}
}

// Case G05.
func TestErrorsSayWhetherSomethingWasDone(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errors.New("connection refused"))}
	for _, test := range []struct {
		err  error
		want error // nil: unknown
	}{
		{serverError("READONLY You can't write against a read only replica."), driver.ErrRefused},
		{serverError("LOADING Redis is loading the dataset in memory"), driver.ErrRefused},
		{serverError("MASTERDOWN Link with MASTER is down"), driver.ErrRefused},
		{serverError("MOVED 1234 127.0.0.1:7001"), driver.ErrRefused},
		{serverError("ASK 1234 127.0.0.1:7001"), driver.ErrRefused},
		{serverError("TRYAGAIN Multiple keys request during rehashing of slot"), driver.ErrRefused},
		{serverError("CLUSTERDOWN The cluster is down"), driver.ErrRefused},
		{serverError("OOM command not allowed when used memory > 'maxmemory'."), driver.ErrRefused},
		{serverError("NOREPLICAS Not enough good replicas to write."), driver.ErrRefused},
		{serverError("MISCONF Errors writing to the AOF file"), driver.ErrRefused},
		{serverError("BUSY Redis is busy running a script."), driver.ErrRefused},
		{serverError("NOAUTH Authentication required."), driver.ErrRefused},
		{serverError("WRONGPASS invalid username-password pair"), driver.ErrRefused},
		{serverError("NOPERM this user has no permissions to run the 'evalsha' command"), driver.ErrRefused},
		{serverError("NOPERM ACL failure in script: User locker has no permissions to run the 'pexpire' command"), nil},
		{serverError("FENCEOVERFLOW the tokens of the key have run out"), driver.ErrRefused},
		{serverError("ERR max number of clients reached"), driver.ErrRefused},
		{serverError("ERR unknown command 'EVALSHA'"), driver.ErrRefused},
		{serverError("ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'"), driver.ErrUnsupported},
		{serverError("WRONGTYPE Operation against a key holding the wrong kind of value"), driver.ErrInvalid},
		{dial, driver.ErrRefused},
		{serverError("ERR The user executing the script can't run this command or subcommand script: 0123"), nil},
		{serverError("UNKILLABLE Sorry the script already executed write commands"), nil},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, nil},
		{io.EOF, nil},
		{context.DeadlineExceeded, nil},
		{errors.New("READONLY says somebody who is not the server"), nil},
	} {
		b := newBackend(t, &fakeNode{evalSHA: func(context.Context, string, []string, []any) (any, error) { return nil, test.err }})
		c := mutex()
		_, errAcquire := b.Acquire(t.Context(), c)
		_, errRenew := b.Renew(t.Context(), c)
		_, errInspect := b.Inspect(t.Context(), "k", 1)
		for i, err := range []error{errAcquire, errRenew, b.Release(t.Context(), c), b.Revoke(t.Context(), "k", c.ID, driver.Notice{}), errInspect} {
			var sentinels []error
			for _, s := range []error{driver.ErrRefused, driver.ErrUnsupported, driver.ErrInvalid, driver.ErrHeld, driver.ErrLost} {
				if errors.Is(err, s) {
					sentinels = append(sentinels, s)
				}
			}
			var want []error
			if test.want != nil {
				want = []error{test.want}
			}
			if !slices.Equal(sentinels, want) || !errors.Is(err, test.err) {
				t.Errorf("call %d with %q: got %v, which is %v, want %v and the original", i, test.err, err, sentinels, want)
			}
		}
	}
}

// Case N04.
func TestAForgottenScriptIsSentAgain(t *testing.T) {
	var sent []string
	b := newBackend(t, &fakeNode{
		evalSHA: func(_ context.Context, sha string, _ []string, _ []any) (any, error) {
			sent = append(sent, sha)
			return nil, serverError("NOSCRIPT No matching script. Please use EVAL.")
		},
		eval: func(_ context.Context, script string, _ []string, _ []any) (any, error) {
			name, _, _ := strings.Cut(strings.TrimPrefix(strings.SplitAfterN(script, "\n", 3)[1], "-- "), " ")
			sent = append(sent, name)
			return []any{int64(1), int64(1), int64(7), int64(1)}, nil
		},
	})
	g, err := b.Acquire(t.Context(), mutex())
	if want := []string{redis.ScriptSums()["acquire.lua"], "acquire.lua"}; err != nil || g.Token != 7 || !slices.Equal(sent, want) {
		t.Errorf("Acquire: got %+v, %v after %q, want token 7 after %q", g, err, sent, want)
	}
}

func TestAnAnswerThatIsNoneOfOursIsAnError(t *testing.T) {
	now := int64(1_800_000_000_000_000)
	for _, answer := range []any{
		nil, "OK", int64(1), []any{}, []any{int64(1)}, []any{"1", now}, []any{int64(7), now},
		[]any{int64(1), now}, []any{int64(1), now, "7", int64(1)}, []any{int64(1), now, int64(7), int64(1), "f"},
		[]any{int64(0), now, int64(1)}, []any{int64(-1), now},
	} {
		b := newBackend(t, &fakeNode{evalSHA: func(context.Context, string, []string, []any) (any, error) { return answer, nil }})
		_, err := b.Acquire(t.Context(), mutex())
		if err == nil || errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrLost) || errors.Is(err, driver.ErrRefused) {
			t.Errorf("Acquire that is answered %v: got %v, want an error that leaves the outcome open", answer, err)
		}
		_, err = b.Inspect(t.Context(), "k", 1)
		if err == nil {
			t.Errorf("Inspect that is answered %v: got no error", answer)
		}
	}
}

// answering returns a node that answers every inspect with the server's time,
// and every acquire as the function says.
func answering(server func() time.Time, acquire func(now, deadline int64) []any) *fakeNode {
	return &fakeNode{evalSHA: func(_ context.Context, sha string, _ []string, args []any) (any, error) {
		now := server().UnixMicro()
		if sha == redis.ScriptSums()["inspect.lua"] {
			return []any{now, "", int64(-2), "", int64(-2), int64(0), []any{}, int64(0), []any{}, []any{}}, nil
		}
		return acquire(now, args[4].(int64)), nil
	}}
}

func TestEveryRequestHasItsDeadlineOnTheServersClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := time.Hour
		var deadlines []int64
		b := newBackend(t, answering(func() time.Time {
			time.Sleep(10 * time.Millisecond)
			return time.Now().Add(ahead)
		}, func(now, deadline int64) []any {
			deadlines = append(deadlines, deadline)
			return []any{int64(1), now, int64(7), int64(1)}
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		deadline, _ := ctx.Deadline()
		for _, ctx := range []context.Context{ctx, ctx, t.Context()} {
			if _, err := b.Acquire(ctx, mutex()); err != nil {
				t.Fatal(err)
			}
		}
		want := []int64{deadline.Add(ahead).UnixMicro(), deadline.Add(ahead).UnixMicro(), 0}
		if !slices.Equal(deadlines, want) {
			t.Errorf("deadlines: got %d, want %d", deadlines, want)
		}
	})
}

func TestALateAnswerIsBelievedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := time.Duration(0)
		calls := 0
		server := func() time.Time { return time.Now().Add(ahead) }
		b := newBackend(t, answering(server, func(now, deadline int64) []any {
			calls++
			if deadline > 0 && now > deadline {
				return []any{int64(-2), now}
			}
			return []any{int64(1), now, int64(7), int64(1)}
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for i, step := range []struct {
			ahead time.Duration
			calls int
		}{{0, 1}, {time.Hour, 2}, {time.Hour, 1}, {-time.Hour, 1}} {
			ahead, calls = step.ahead, 0
			if _, err := b.Acquire(ctx, mutex()); err != nil || calls != step.calls {
				t.Errorf("Acquire %d from a server ahead by %v: got %v after %d requests, want a grant after %d", i, step.ahead, err, calls, step.calls)
			}
		}
		always := newBackend(t, answering(server, func(now, _ int64) []any {
			calls++
			return []any{int64(-2), now}
		}))
		calls = 0
		if _, err := always.Acquire(ctx, mutex()); !errors.Is(err, driver.ErrRefused) || calls != 2 {
			t.Errorf("Acquire that is always late: got %v after %d requests, want ErrRefused after 2", err, calls)
		}
	})
}

// A request that went out without a deadline could be granted at any time.
func TestWithoutTheServersTimeNothingIsAskedFor(t *testing.T) {
	b := newBackend(t, &fakeNode{evalSHA: func(_ context.Context, sha string, _ []string, _ []any) (any, error) {
		if sha != redis.ScriptSums()["inspect.lua"] {
			t.Error("a request for a grant was sent")
		}
		return nil, io.EOF
	}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := b.Acquire(ctx, mutex()); !errors.Is(err, driver.ErrRefused) || !errors.Is(err, io.EOF) {
		t.Errorf("Acquire: got %v, want ErrRefused and the cause", err)
	}
}

// The deadline may be early, by what is not known, and is never late.
func TestTheClockPrefersExactReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c redis.ServerClock
		deadline := func() time.Duration { // how far from the local one
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			d, _ := ctx.Deadline()
			at := c.Deadline(ctx)
			if at == 0 {
				return 0
			}
			return time.UnixMicro(at).Sub(d)
		}
		learn := func(took, off time.Duration, must bool) {
			sent := time.Now()
			server := sent.Add(off) // read as soon as it was sent
			time.Sleep(took)
			c.Learn(sent, server, must)
		}
		for i, step := range []struct {
			took, off time.Duration
			must      bool
			want      time.Duration
		}{
			{100 * time.Millisecond, 0, false, -100 * time.Millisecond},
			{10 * time.Millisecond, 0, false, -10 * time.Millisecond},
			{50 * time.Millisecond, 0, false, -10 * time.Millisecond}, // less exact
			{50 * time.Millisecond, time.Hour, true, time.Hour - 50*time.Millisecond},
			{11 * time.Second, 0, false, -11 * time.Second}, // the one before is old
		} {
			learn(step.took, step.off, step.must)
			if got := deadline(); got != step.want {
				t.Errorf("after reading %d: the deadline is off by %v, want %v", i, got, step.want)
			}
		}
	})
}

func TestNothingIsSentForWhoHasGivenUp(t *testing.T) {
	b := newBackend(t, &fakeNode{evalSHA: func(context.Context, string, []string, []any) (any, error) {
		t.Error("a request was sent")
		return nil, io.EOF
	}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Acquire(ctx, mutex()); !errors.Is(err, driver.ErrRefused) || !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire with a cancelled context: got %v, want ErrRefused and the cause", err)
	}
	c := mutex()
	c.ID = "made up"
	var field *driver.FieldError
	if _, err := b.Acquire(t.Context(), c); !errors.As(err, &field) || field.Field != "ID" {
		t.Errorf("Acquire with an ID that nobody drew: got %v, want a *FieldError that names ID", err)
	}
}
