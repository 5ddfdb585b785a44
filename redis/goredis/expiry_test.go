package goredis_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

// The store counts shares in milliseconds, their holders count from before the
// request was sent: the store must not round down.
func TestASharesEndIsNeverBeforeItsHoldersIdeaOfIt(t *testing.T) {
	for _, fraction := range []time.Duration{0, 1, 999 * time.Nanosecond, 123456789, 999999999} {
		m := newMiniredis(t)
		now := time.Date(2030, 1, 2, 3, 4, 5, int(fraction), time.UTC)
		m.SetTime(now)
		rdb := dialMiniredis(t, m.Dial)
		c := &client{Backend: adapter.New(rdb), rdb: rdb, ids: driver.NewIdentity("me")}
		t.Cleanup(func() { c.Close() })
		end := func(what string, want time.Time) {
			t.Helper()
			score, err := rdb.ZScore(t.Context(), keyOf("shares"), rdb.ZRange(t.Context(), keyOf("shares"), 0, 0).Val()[0]).Result()
			if got := time.UnixMilli(int64(score)); err != nil || got.Before(want) || got.After(want.Add(time.Millisecond)) {
				t.Errorf("%s at %v: the share ends at %v (%v), want %v or up to 1ms later", what, now, got, err, want)
			}
		}
		claim := c.must(t, driver.Claim{Key: "k", ID: c.ids.Next(), Weight: 1, Capacity: 2, TTL: time.Second})
		end("Acquire", now.Add(time.Second))
		claim.TTL = 2 * time.Second
		if _, err := c.Renew(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		end("Renew", now.Add(2*time.Second))
		claim.Keep = 3 * time.Second
		c.release(t, claim)
		end("Release with a Keep", now.Add(3*time.Second))
	}
}

// A TTL that is no whole number of milliseconds is rounded up, and the grant says
// to what.
// Case J04.
func TestAFractionalTTLIsRoundedUp(t *testing.T) {
	m := newMiniredis(t)
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	m.SetTime(now)
	rdb := dialMiniredis(t, m.Dial)
	c := &client{Backend: adapter.New(rdb), rdb: rdb, ids: driver.NewIdentity("me")}
	t.Cleanup(func() { c.Close() })
	for _, test := range []struct{ ttl, want time.Duration }{
		{time.Second, time.Second},
		{time.Second + 1, time.Second + time.Millisecond},
		{1500*time.Millisecond + 500*time.Microsecond, 1501 * time.Millisecond},
		{10*time.Second - 1, 10 * time.Second},
	} {
		claim := c.mutex("k")
		claim.TTL = test.ttl
		claim = c.must(t, claim)
		if got := m.TTL(keyOf("lock")); got != test.want || claim.Grant.TTL != test.want {
			t.Errorf("a TTL of %v: the key ends after %v, and the grant says %v, want %v", test.ttl, got, claim.Grant.TTL, test.want)
		}
		c.release(t, claim)
	}
}

// The server's clock is set forward past the end of a lease, and back again: the
// holder is told at its next renewal, nobody's hold is revived, and tokens rise.
// Case I02.
func TestAServersClockThatIsSetEndsLeases(t *testing.T) {
	m := newMiniredis(t)
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	m.SetTime(now)
	rdb := dialMiniredis(t, m.Dial)
	c := &client{Backend: adapter.New(rdb), rdb: rdb, ids: driver.NewIdentity("me")}
	t.Cleanup(func() { c.Close() })
	var last uint64
	for _, step := range []time.Duration{0, 2 * time.Minute, time.Hour, -time.Hour, -24 * time.Hour} {
		held := c.must(t, c.mutex("k"))
		if held.Grant.Token <= last {
			t.Errorf("token after a step of %v: got %d, want more than %d", step, held.Grant.Token, last)
		}
		last = held.Grant.Token
		now = now.Add(step)
		m.SetTime(now)
		m.FastForward(max(0, step))
		_, err := c.Renew(t.Context(), held)
		if lost := errors.Is(err, driver.ErrLost); lost != (step >= held.TTL) {
			t.Errorf("Renew after a step of %v: got %v", step, err)
		}
		if err := c.Release(t.Context(), held); err != nil && !errors.Is(err, driver.ErrLost) {
			t.Errorf("Release after a step of %v: %v", step, err)
		}
	}
}
