package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/redis"
)

func TestQuarantinesAreRefusedByField(t *testing.T) {
	for field, q := range map[string]redis.Quarantine{
		"Quarantine.MaxTTL": {},
		"Quarantine.Slack":  {MaxTTL: time.Minute, Slack: -1},
		"Quarantine.Config": {MaxTTL: time.Minute, Config: "a\nb"},
	} {
		_, err := redis.New(&fakeNode{}, &redis.Options{Quarantine: &q})
		var f *driver.FieldError
		if !errors.As(err, &f) || f.Field != field {
			t.Errorf("New with %+v: got %v, want a *FieldError that names %s", q, err, field)
		}
	}
	for _, q := range []redis.Quarantine{{MaxTTL: math.MaxInt64}, {MaxTTL: -1}, {MaxTTL: time.Millisecond}, {MaxTTL: time.Minute, Slack: math.MaxInt64}} {
		if _, err := redis.New(&fakeNode{}, &redis.Options{Quarantine: &q}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("New with %+v: got %v, want ErrInvalid", q, err)
		}
	}
}

func TestAQuarantineBoundsTheTTL(t *testing.T) {
	b, err := redis.New(&fakeNode{}, &redis.Options{Quarantine: &redis.Quarantine{MaxTTL: time.Minute + time.Microsecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if got := b.Traits().MaxTTL; got != time.Minute {
		t.Errorf("MaxTTL: got %v, want the whole milliseconds of it", got)
	}
	c := mutex()
	c.TTL = time.Minute + time.Nanosecond
	if _, err := b.Acquire(t.Context(), c); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Acquire for longer: got %v, want ErrInvalid", err)
	}
	if _, err := b.Renew(t.Context(), c); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Renew for longer: got %v, want ErrInvalid", err)
	}
}

// What is not used costs nothing: not a key, not an argument.
func TestAnAcquireSaysWhatTheQuarantineIs(t *testing.T) {
	for _, test := range []struct {
		q       *redis.Quarantine
		sharded bool
		keys    int
		terms   []any
	}{
		{nil, false, 5, nil},
		{&redis.Quarantine{MaxTTL: time.Minute}, false, 6, []any{int64(60000), int64(1000), ""}},
		{&redis.Quarantine{MaxTTL: time.Minute, Slack: 1, Config: "a b"}, false, 6, []any{int64(60000), int64(1), "a b"}},
		{&redis.Quarantine{MaxTTL: time.Minute}, true, 5, []any{int64(60000), int64(1000), ""}},
	} {
		n := &fakeNode{evalSHA: func(_ context.Context, _ string, keys []string, args []any) (any, error) {
			if len(keys) != test.keys || test.keys == 6 && keys[5] != "pawl.node:lock:" {
				t.Errorf("keys with %+v: got %q, want %d", test.q, keys, test.keys)
			}
			if got := args[10:]; len(got) != len(test.terms) || len(got) > 0 && !reflect.DeepEqual(got, test.terms) {
				t.Errorf("last arguments with %+v: got %v, want %v", test.q, got, test.terms)
			}
			return []any{int64(1), int64(1), int64(7), int64(1)}, nil
		}}
		if test.sharded {
			n.home = func(string) (string, error) { return "a", nil }
		}
		b, err := redis.New(n, &redis.Options{Quarantine: test.q})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if _, err := b.Acquire(t.Context(), mutex()); err != nil {
			t.Errorf("Acquire with %+v: %v", test.q, err)
		}
	}
}

func TestAQuarantineIsToldWithItsTime(t *testing.T) {
	ours := &redis.Quarantine{MaxTTL: time.Minute, Config: "a"}
	for _, test := range []struct {
		answer []any
		is     error
		want   error
	}{
		{[]any{int64(-3), int64(1), int64(1500)}, driver.ErrRefused, &redis.QuarantineError{Left: 1500 * time.Millisecond}},
		{[]any{int64(-4), int64(1), "30000 1000 a b"}, driver.ErrInvalid, &redis.DisagreementError{
			Theirs: redis.Quarantine{MaxTTL: 30 * time.Second, Slack: time.Second, Config: "a b"},
			Ours:   redis.Quarantine{MaxTTL: time.Minute, Slack: time.Second, Config: "a"},
		}},
		{[]any{int64(-4), int64(1), "nonsense"}, driver.ErrInvalid, &redis.DisagreementError{
			Ours: redis.Quarantine{MaxTTL: time.Minute, Slack: time.Second, Config: "a"},
		}},
	} {
		b, err := redis.New(&fakeNode{evalSHA: func(context.Context, string, []string, []any) (any, error) { return test.answer, nil }},
			&redis.Options{Quarantine: ours})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if _, err := b.Acquire(t.Context(), mutex()); !errors.Is(err, test.is) || !reflect.DeepEqual(err, test.want) {
			t.Errorf("Acquire that is answered %v: got %v, want %v", test.answer, err, test.want)
		}
	}
	for _, short := range [][]any{{int64(-3), int64(1)}, {int64(-4), int64(1), int64(7)}} {
		b, err := redis.New(&fakeNode{evalSHA: func(context.Context, string, []string, []any) (any, error) { return short, nil }},
			&redis.Options{Quarantine: ours})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if _, err := b.Acquire(t.Context(), mutex()); err == nil || errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrInvalid) {
			t.Errorf("Acquire that is answered %v: got %v, want an error that leaves the outcome open", short, err)
		}
	}
}

func ExampleQuarantineError() {
	err := error(&redis.QuarantineError{Left: 9 * time.Second})
	var q *redis.QuarantineError
	if errors.As(err, &q) {
		fmt.Println("try again in", q.Left)
	}
	// Output: try again in 9s
}

func TestADisagreementNamesWhatDiffers(t *testing.T) {
	err := &redis.DisagreementError{
		Theirs: redis.Quarantine{MaxTTL: 30 * time.Second, Slack: time.Second, Config: "b"},
		Ours:   redis.Quarantine{MaxTTL: time.Minute, Slack: time.Second, Config: "a"},
	}
	if got, want := err.Error(), `other clients of the store have another Quarantine: MaxTTL is 1m0s, theirs 30s, Config is "a", theirs "b"`; got != want {
		t.Errorf("message: got %q, want %q", got, want)
	}
}
