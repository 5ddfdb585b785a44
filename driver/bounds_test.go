package driver_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
)

// holding returns a line that id holds.
func holding(t *testing.T, id string, now driver.Instant) (*driver.Line, driver.Claim) {
	t.Helper()
	l := new(driver.Line)
	return l, take(t, l, id, now)
}

func take(t *testing.T, l *driver.Line, id string, now driver.Instant) driver.Claim {
	t.Helper()
	c := driver.Claim{Key: "k", ID: id, Weight: 1, Capacity: driver.Unlimited, TTL: time.Minute}
	g, err := l.Acquire(c, now)
	if err != nil {
		t.Fatalf("Acquire of a free line: %v", err)
	}
	c.Grant = g
	return c
}

func TestNoticesAreRememberedForAWhile(t *testing.T) {
	now := driver.Instant{Wall: time.Unix(1e9, 0)}
	l, c := holding(t, "a", now)
	if err := l.Revoke("a", driver.Notice{Force: true, By: "op", Why: "w"}, now); err != nil {
		t.Fatalf("Revoke: %v", err)
	}
	reason := func(after time.Duration) string {
		_, err := l.Renew(c, driver.Instant{Clock: after, Wall: now.Wall.Add(after)})
		var lost *driver.LostError
		if !errors.As(err, &lost) {
			t.Fatalf("Renew: got %v, want a *LostError", err)
		}
		return lost.Reason
	}
	if got := reason(driver.Linger - 1); got != driver.Forced {
		t.Errorf("just before Linger is over: got %q, want %q", got, driver.Forced)
	}
	if got := reason(driver.Linger); got != driver.Expired {
		t.Errorf("when Linger is over: got %q, want %q", got, driver.Expired)
	}
	if n := len(l.Notices); n != 0 {
		t.Errorf("when Linger is over: got %d notices, want none kept", n)
	}
}

func TestNoticesAreBounded(t *testing.T) {
	now := driver.Instant{Wall: time.Unix(1e9, 0)}
	l := new(driver.Line)
	const many = 3 * driver.MaxNotices
	for i := range many {
		id := fmt.Sprint(i)
		take(t, l, id, now)
		for range 2 { // the second takes the place of the first
			if err := l.Revoke(id, driver.Notice{Why: id}, now); err != nil {
				t.Fatalf("Revoke: %v", err)
			}
		}
	}
	st := l.Inspect(0, now)
	if len(st.Notices) != driver.MaxNotices {
		t.Fatalf("after %d revocations: got %d notices, want %d", many, len(st.Notices), driver.MaxNotices)
	}
	for i, n := range st.Notices {
		if want := fmt.Sprint(many - driver.MaxNotices + i); n.Why != want || !n.At.Equal(now.Wall) {
			t.Errorf("notice %d: got %+v, want that of %s, at %v", i, n, want, now.Wall)
		}
	}
}

func TestTokensFollowTheClockAndNeverGoBack(t *testing.T) {
	l := new(driver.Line)
	var last uint64
	for i, at := range []int64{1_000_000, 2_000_000, 1_500_000, 10, -5_000_000, 3_000_000} {
		now := driver.Instant{Wall: time.UnixMicro(at)}
		c := take(t, l, fmt.Sprint(i), now)
		want := last + 1
		if at > 0 {
			want = max(want, uint64(at))
		}
		if c.Grant.Token != want {
			t.Errorf("token at %d µs after %d: got %d, want %d", at, last, c.Grant.Token, want)
		}
		last = c.Grant.Token
	}
}

// A stored token survives in Lua and JSON, which count in floats.
func TestTokensEndBeforeTheyBecomeInexact(t *testing.T) {
	now := driver.Instant{Wall: time.Unix(1e9, 0)}
	l, c := holding(t, "a", now)
	c.Floor = 1<<53 - driver.MaxBlock
	if _, err := l.Renew(c, now); err != nil {
		t.Fatalf("Renew: %v", err)
	}
	next := driver.Claim{Key: "k", ID: "b", Weight: 1, Capacity: driver.Unlimited, TTL: time.Minute, Queue: true}
	if _, err := l.Acquire(next, now); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("Acquire at the end of the counter: got %v, want ErrRefused", err)
	}
	if st := l.Inspect(10, now); len(st.Holders) != 1 || st.Waiting != 0 {
		t.Errorf("after it: got %+v, want the holder alone", st)
	}
	if _, err := l.Acquire(c, now); err != nil {
		t.Errorf("the same grant again: got %v, want it", err)
	}
}

func TestKeepsBeyondAllTimeDoNotWrap(t *testing.T) {
	now := driver.Instant{Clock: time.Hour, Wall: time.Unix(1e9, 0)}
	l, c := holding(t, "a", now)
	c.Keep = 1<<63 - 1
	if err := l.Release(c, now); err != nil {
		t.Fatalf("Release: %v", err)
	}
	now.Clock *= 1000
	if st := l.Inspect(1, now); len(st.Holders) != 1 {
		t.Errorf("a claim kept as long as can be is gone")
	}
}
