package goredis_test

import (
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
