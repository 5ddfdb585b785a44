package redis_test

import (
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/redis"
)

const someID = "host:1/0123456789abcdef0123456789abcdef.7"

func TestHolderIsForeignUnlessItIsAPair(t *testing.T) {
	now := time.UnixMicro(1_800_000_000_000_000)
	for _, test := range []struct {
		value   string
		foreign bool
		id      string
		label   string
		token   uint64
		age     time.Duration
	}{
		{someID + ":1799999999000000", false, someID, "host:1", 1799999999000000, time.Second},
		{someID + ":1799999999000000:kept", false, someID, "host:1", 1799999999000000, time.Second},
		{someID + ":7", false, someID, "host:1", 7, -1},
		{someID + "~2:7", false, someID + "~2", "host:1", 7, -1},
		{someID + ":1800000000500000", false, someID, "host:1", 1800000000500000, 0},
		{someID, true, someID, "", 0, -1},
		{someID + ":", true, someID + ":", "", 0, -1},
		{someID + ":-7", true, someID + ":-7", "", 0, -1},
		{someID + ":9007199254740992", true, someID + ":9007199254740992", "", 0, -1},
		{"me", true, "me", "", 0, -1},
		{"me:7", true, "me:7", "", 0, -1},
		{"6f0c2f3e-9a40-4a3b-8f5e-1f6bb6a3a0a1", true, "6f0c2f3e-9a40-4a3b-8f5e-1f6bb6a3a0a1", "", 0, -1},
		{":kept", true, ":kept", "", 0, -1},
		{"\x00\xff", true, "\x00\xff", "", 0, -1},
	} {
		h := redis.ReadHolder(test.value, "", now)
		if h.Foreign != test.foreign || h.ID != test.id || h.Label != test.label || h.Grant.Token != test.token || h.Age != test.age || !h.Held || !h.Exclusive() {
			t.Errorf("holder %q: got %+v, want %+v", test.value, h, test)
		}
	}
}

func TestRecordSaysWhoAndHowMuch(t *testing.T) {
	now := time.UnixMicro(1_800_000_000_000_000)
	h := redis.ReadHolder(someID, "h 2 3 1800000005000 10000 1799999999000000 4 pawl:wake:x a label: é", now)
	want := driver.Holder{
		Claim: driver.Claim{
			Key: "k", ID: someID, Label: "a label: é", Weight: 2, Capacity: 3, TTL: 10 * time.Second,
			Grant: driver.Grant{Token: 1799999999000000, Block: 4, TTL: 10 * time.Second, Holder: someID},
		},
		Held: true, Left: 5 * time.Second, Age: time.Second,
	}
	if h != want {
		t.Errorf("share: got %+v, want %+v", h, want)
	}
	if h := redis.ReadHolder(someID, "c 1 1 1799999999000 10000 0 0 ch ", now); h.Held || h.Left != 0 || h.Grant.Token != 0 || h.Label != "" {
		t.Errorf("claim that waits: got %+v, want one without a token that has nothing left", h)
	}
}

func FuzzHolder(f *testing.F) {
	f.Add(someID, "h 2 3 1800000005000 10000 1799999999000000 4 pawl:wake:x a label")
	f.Add(someID+":7", "")
	f.Add("x", "h 99999999999999999999 3 1 1 1 1 c l")
	f.Add("x", "w -1 3 1 1 1 1 c l")
	f.Fuzz(func(t *testing.T, id, record string) {
		h := redis.ReadHolder(id, record, time.UnixMicro(1_800_000_000_000_000))
		if h.Weight < 0 || h.Capacity < 0 || h.Left < -1 || h.Age < -1 {
			t.Errorf("%q, %q: got %+v, with a number that can't be", id, record, h)
		}
	})
}

func TestTTLIsWhatTheFenceTells(t *testing.T) {
	const day = 24 * time.Hour
	for _, test := range []struct{ left, fenceLeft, want time.Duration }{
		{10 * time.Second, day, 10 * time.Second},
		{4 * time.Second, day - 6*time.Second, 10 * time.Second},
		{time.Hour, 50 * time.Hour, 49 * time.Hour / 9},
		{5 * time.Hour, 50 * time.Hour, 5 * time.Hour},
		{4 * time.Hour, 49 * time.Hour, 5 * time.Hour},
		{-1, day, 0},                  // never ends
		{time.Second, -2, 0},          // no fence
		{time.Hour, 2 * time.Hour, 0}, // no TTL gives that
	} {
		got := redis.DeriveTTL(test.left, test.fenceLeft)
		if got != test.want {
			t.Errorf("TTL of a lock with %v left, its fence %v: got %v, want %v", test.left, test.fenceLeft, got, test.want)
		}
	}
}
