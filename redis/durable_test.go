package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/redis"
)

// A fakeConn writes down what it is asked, and answers as its fields say.
type fakeConn struct {
	asked    []string
	answers  map[string][]any // of the scripts
	replicas int
	disk     bool
	waiting  error // of Wait and WaitAOF
	undoing  error // of the release
	closed   int
}

func (c *fakeConn) EvalSHA(_ context.Context, sha string, _ []string, _ ...any) (any, error) {
	for name, sum := range redis.ScriptSums() {
		if sum != sha {
			continue
		}
		c.asked = append(c.asked, name)
		if name == "release.lua" && c.undoing != nil {
			return nil, c.undoing
		}
		return c.answers[name], nil
	}
	return nil, errors.New("an unknown script")
}

func (c *fakeConn) Eval(context.Context, string, []string, ...any) (any, error) {
	return nil, errors.New("a source was sent")
}

func (c *fakeConn) Wait(_ context.Context, n int, d time.Duration) (int, error) {
	c.asked = append(c.asked, fmt.Sprintf("WAIT %d %v", n, d))
	return c.replicas, c.waiting
}

func (c *fakeConn) WaitAOF(_ context.Context, n int, d time.Duration) (bool, int, error) {
	c.asked = append(c.asked, fmt.Sprintf("WAITAOF 1 %d %v", n, d))
	return c.disk, c.replicas, c.waiting
}

func (c *fakeConn) Close() error {
	c.closed++
	return nil
}

func newDurable(t *testing.T, c *fakeConn, d redis.Durability) driver.Backend {
	c.answers = map[string][]any{
		"acquire.lua": {int64(1), int64(1), int64(7), int64(1)},
		"renew.lua":   {int64(1), int64(1), int64(7)},
		"release.lua": {int64(1), int64(1)},
	}
	n := &fakeNode{
		pin: func() (redis.Conn, error) { return c, nil },
		evalSHA: func(context.Context, string, []string, []any) (any, error) {
			t.Error("something was sent over another connection")
			return nil, io.EOF
		},
	}
	b, err := redis.New(n, &redis.Options{Durability: d})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// Case G04.
func TestAGrantCountsWhenItIsWhereItHasToBe(t *testing.T) {
	refused := serverError("NOPERM this user has no permissions to run the 'wait' command")
	unknown := serverError("ERR unknown command 'WAITAOF', with args beginning with: '1' '0' '6000' ")
	replicas, disk := redis.Durability{Replicas: 2}, redis.Durability{Replicas: 1, Disk: true}
	for _, test := range []struct {
		name  string
		asked redis.Durability
		conn  fakeConn
		is    []error // of the sentinels; nil: none
		fails bool
		sent  []string
	}{
		{"enough replicas", replicas, fakeConn{replicas: 3}, nil, false, []string{"acquire.lua", "WAIT 2 1s"}},
		{"too few replicas", replicas, fakeConn{replicas: 1}, []error{driver.ErrRefused}, true, []string{"acquire.lua", "WAIT 2 1s", "release.lua"}},
		{"on disk", disk, fakeConn{replicas: 1, disk: true}, nil, false, []string{"acquire.lua", "WAITAOF 1 1 1s"}},
		{"not on disk", disk, fakeConn{replicas: 1}, []error{driver.ErrRefused}, true, []string{"acquire.lua", "WAITAOF 1 1 1s", "release.lua"}},
		{"on disk, not on that of the replica", disk, fakeConn{disk: true}, []error{driver.ErrRefused}, true, []string{"acquire.lua", "WAITAOF 1 1 1s", "release.lua"}},
		{"no right to wait", replicas, fakeConn{waiting: refused}, []error{driver.ErrRefused}, true, []string{"acquire.lua", "WAIT 2 1s", "release.lua"}},
		{"an old server", disk, fakeConn{waiting: unknown}, []error{driver.ErrUnsupported}, true, []string{"acquire.lua", "WAITAOF 1 1 1s", "release.lua"}},
		{"the connection breaks", replicas, fakeConn{waiting: io.EOF}, nil, true, []string{"acquire.lua", "WAIT 2 1s"}},
		{"it can't be undone", replicas, fakeConn{undoing: io.EOF}, nil, true, []string{"acquire.lua", "WAIT 2 1s", "release.lua"}},
		{"undoing it is refused", replicas, fakeConn{undoing: serverError("READONLY")}, nil, true, []string{"acquire.lua", "WAIT 2 1s", "release.lua"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newDurable(t, &test.conn, test.asked)
			_, err := b.Acquire(t.Context(), mutex())
			var is []error
			for _, s := range []error{driver.ErrRefused, driver.ErrUnsupported, driver.ErrInvalid, driver.ErrHeld, driver.ErrLost} {
				if errors.Is(err, s) {
					is = append(is, s)
				}
			}
			if (err != nil) != test.fails || !slices.Equal(is, test.is) {
				t.Errorf("Acquire: got %v, which is %v, want an error: %v, which is %v", err, is, test.fails, test.is)
			}
			if !slices.Equal(test.conn.asked, test.sent) {
				t.Errorf("sent: got %q, want %q", test.conn.asked, test.sent)
			}
			if test.conn.closed != 1 {
				t.Errorf("the connection was given back %d times, want once", test.conn.closed)
			}
		})
	}
}

// What the caller holds already is not taken from it, and is not promised either.
func TestWhatWasHeldBeforeIsNotUndone(t *testing.T) {
	for _, test := range []string{"Renew", "Acquire"} {
		conn := new(fakeConn)
		b := newDurable(t, conn, redis.Durability{Replicas: 1})
		c := mutex()
		c.Grant = driver.Grant{Token: 7}
		var err error
		if test == "Renew" {
			_, err = b.Renew(t.Context(), c)
		} else {
			_, err = b.Acquire(t.Context(), c)
		}
		if err == nil || errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrLost) || slices.Contains(conn.asked, "release.lua") {
			t.Errorf("%s of what is held: got %v after %q, want an error that leaves the outcome open and no release", test, err, conn.asked)
		}
	}
}

func TestNobodyWaitsForWhatWasNotGranted(t *testing.T) {
	conn := new(fakeConn)
	b := newDurable(t, conn, redis.Durability{Replicas: 1})
	conn.answers["acquire.lua"] = []any{int64(-2), int64(1)}
	conn.answers["renew.lua"] = []any{int64(-1), int64(1), "expired"}
	if _, err := b.Acquire(t.Context(), mutex()); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("Acquire that came too late: got %v, want ErrRefused", err)
	}
	if _, err := b.Renew(t.Context(), mutex()); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Renew of what is lost: got %v, want ErrLost", err)
	}
	if want := []string{"acquire.lua", "acquire.lua", "renew.lua"}; !slices.Equal(conn.asked, want) {
		t.Errorf("sent: got %q, want %q", conn.asked, want)
	}
}

func TestTheWaitLeavesTimeToUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			d           redis.Durability
			ttl, within time.Duration // 0: no deadline
			want        string
		}{
			{redis.Durability{Replicas: 1}, time.Minute, 0, "WAIT 1 1s"},
			{redis.Durability{Replicas: 1}, 2 * time.Second, 0, "WAIT 1 200ms"},
			{redis.Durability{Replicas: 1}, 100 * time.Millisecond, 0, "WAIT 1 33.333333ms"},
			{redis.Durability{Replicas: 1, Timeout: time.Hour}, time.Minute, 0, "WAIT 1 20s"},
			{redis.Durability{Replicas: 1, Timeout: time.Hour}, time.Minute, 3 * time.Second, "WAIT 1 2s"},
			{redis.Durability{Replicas: 1, Timeout: 1}, time.Minute, 0, "WAIT 1 1ms"},
		} {
			conn := &fakeConn{replicas: 1}
			b := newDurable(t, conn, test.d)
			ctx := t.Context()
			if test.within > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, test.within)
				defer cancel()
			}
			c := mutex()
			c.TTL, c.Grant.Token = test.ttl, 7
			if _, err := b.Renew(ctx, c); err != nil {
				t.Fatal(err)
			}
			if got := conn.asked[1]; got != test.want {
				t.Errorf("%+v with a TTL of %v and %v left: got %q, want %q", test.d, test.ttl, test.within, got, test.want)
			}
			b.Close()
		}
	})
}

func TestDurabilitiesAreRefusedByField(t *testing.T) {
	for field, d := range map[string]redis.Durability{
		"Durability.Replicas": {Replicas: -1},
		"Durability.Timeout":  {Replicas: 1, Timeout: -1},
	} {
		_, err := redis.New(&fakeNode{}, &redis.Options{Durability: d})
		var f *driver.FieldError
		if !errors.As(err, &f) || f.Field != field {
			t.Errorf("New with %+v: got %v, want a *FieldError that names %s", d, err, field)
		}
	}
}

func TestAConnectionThatCanNotBeHadRefuses(t *testing.T) {
	for _, test := range []struct{ err, want error }{
		{io.EOF, driver.ErrRefused},
		{fmt.Errorf("%w: no such thing", driver.ErrUnsupported), driver.ErrUnsupported},
	} {
		b, err := redis.New(&fakeNode{pin: func() (redis.Conn, error) { return nil, test.err }}, &redis.Options{Durability: redis.Durability{Replicas: 1}})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if _, err := b.Acquire(t.Context(), mutex()); !errors.Is(err, test.want) {
			t.Errorf("Acquire: got %v, want %v", err, test.want)
		}
	}
}
