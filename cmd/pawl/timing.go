package main

import (
	"time"

	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
)

// A timing is when things happen before the end of a lease.
type timing struct {
	killAfter  time.Duration // TERM is sent so long before the end
	margin     time.Duration // KILL is sent so long before the end
	renewEvery time.Duration
}

// timing fits --kill-after into what the core leaves of the TTL: a hundredth is
// for clocks of unequal rate, and a tenth, but no more than a second, lies
// between the end of a lease and what the store keeps. Renewals come early
// enough that a healthy command is never told to stop: two fit in before TERM
// would be sent.
func (f *runFlags) timing(chosen bool) (timing, error) {
	t := timing{killAfter: f.killAfter, margin: min(500*time.Millisecond, f.ttl/10)}
	if !chosen {
		t.killAfter = min(5*time.Second, f.ttl/4)
	}
	t.killAfter = max(t.killAfter, t.margin)
	core := f.ttl/100 + min(time.Second, f.ttl/10)
	room := f.ttl - core - t.margin - t.killAfter
	if room <= 0 {
		return t, usage("--kill-after %s and a margin of %s do not fit into a --ttl of %s: the command could not be stopped before its lock ends",
			plain.Duration(t.killAfter), plain.Duration(t.margin+core), plain.Duration(f.ttl))
	}
	t.renewEvery = max(time.Millisecond, min(f.ttl/3, room/2))
	return t, nil
}
