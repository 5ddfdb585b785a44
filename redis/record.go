package redis

import (
	"strconv"
	"strings"
	"time"

	"github.com/pawlock/pawl/driver"
)

// sharesValue is what stands in a lock while shares of it are held.
const sharesValue = "#shares"

// exclusiveHolder reads the value of a lock that is held exclusively. What is
// not "claimID:token" was written by another program.
func exclusiveHolder(key, value string, now time.Time) driver.Holder {
	h := driver.Holder{
		Claim: driver.Claim{Key: key, ID: value, Weight: 1, Capacity: 1},
		Held:  true, Foreign: true, Age: -1, Left: -1,
	}
	pair := strings.TrimSuffix(value, ":kept")
	i := strings.LastIndexByte(pair, ':')
	if i < 0 {
		return h
	}
	id, ok := driver.ParseID(pair[:i])
	token, err := parseToken(pair[i+1:])
	if !ok || err != nil {
		return h
	}
	h.Foreign, h.ID, h.Label = false, pair[:i], id.Label
	h.Grant = driver.Grant{Token: token, Block: 1, Holder: h.ID}
	h.Age = age(token, now)
	return h
}

// recordHolder reads the record of a claim that shares a key or waits for it.
// One that can't be read says no more than the ID.
func recordHolder(key, id, record string, now time.Time) driver.Holder {
	h := driver.Holder{Claim: driver.Claim{Key: key, ID: id}, Age: -1, Left: -1}
	f := strings.SplitN(record, " ", 9)
	if len(f) != 9 {
		return h
	}
	n := make([]int64, 6)
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(f[i+1], 10, 64); err != nil || n[i] < 0 {
			return h
		}
	}
	weight, capacity, expiry, ttl, token, block := n[0], n[1], n[2], n[3], n[4], n[5]
	h.Held = f[0] == "h" || f[0] == "k"
	h.Label = f[8]
	h.Weight, h.Capacity = int(weight), int(capacity)
	h.TTL = time.Duration(ttl) * time.Millisecond
	h.Left = max(0, time.UnixMilli(expiry).Sub(now))
	if h.Held {
		h.Grant = driver.Grant{Token: uint64(token), Block: int(block), TTL: h.TTL, Holder: id}
		h.Age = age(h.Grant.Token, now)
	}
	return h
}

// fence is the last token given out on a key, and to whom.
type fence struct {
	last   uint64
	lastID string
}

func parseFence(s string) fence {
	token, rest, _ := strings.Cut(s, ":")
	_, id, _ := strings.Cut(rest, ":")
	last, err := parseToken(token)
	if err != nil {
		return fence{}
	}
	return fence{last, id}
}

func parseToken(s string) (uint64, error) {
	return strconv.ParseUint(s, 10, 53)
}

// oldest is the oldest moment that a token is taken for a time: counters that
// only count stay far below.
const oldest = 1_000_000_000_000_000 // in 2001

// age returns how long ago token was granted, -1 if the token is not a time.
func age(token uint64, now time.Time) time.Duration {
	if token < oldest {
		return -1
	}
	return max(0, now.Sub(time.UnixMicro(int64(token))))
}

// ttl derives the TTL of an exclusive claim from what is left of it and of the
// fence, which the last renewal restarted together. It returns 0 if the fence
// does not tell.
func ttl(left, fenceLeft time.Duration) time.Duration {
	if left < 0 || fenceLeft <= 0 {
		return 0
	}
	if t := left + fenceLife - fenceLeft; t >= left && fenceTTLs*t <= fenceLife {
		return t
	}
	if t := (fenceLeft - left) / (fenceTTLs - 1); fenceTTLs*t >= fenceLife && t >= left {
		return t
	}
	return 0
}
