package redis

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// maxOffset is how far the clock of a server may be from ours without a word. A
// quorum does not let a node vote that is further from the others.
const maxOffset = 500 * time.Millisecond

// settings judges how the server is set up.
func (c *check) settings(f *facts) {
	if f.off.Abs() > maxOffset {
		c.find(Risk, "clock", "synchronise the clocks of both",
			"the server's clock is %v from ours: ages are shown wrong, and tokens may not rise if it is corrected while the counter is lost", f.off.Round(time.Millisecond))
	}
	if f.info == "" {
		c.find(Risk, "info", "give the user +info", "INFO is denied: eviction, replicas and persistence are unknown")
		return
	}
	switch policy := f.get("maxmemory_policy"); {
	case policy == "noeviction", policy == "":
	case f.number("maxmemory") == 0:
		c.find(Note, "eviction", "set maxmemory-policy noeviction", "locks would be evicted (%s) if memory were limited, which it is not", policy)
	default:
		c.find(Risk, "eviction", "set maxmemory-policy noeviction, or use a server for locks alone", "a full server evicts locks (%s) while they are held", policy)
	}
	if c.quarantine != nil {
		return
	}
	loses := "a restart may lose locks that are held"
	if f.number("aof_enabled") == 1 {
		loses += ", unless appendfsync is always"
	}
	if n := f.number("connected_slaves"); n > 0 && c.durability.none() {
		loses += fmt.Sprintf(", and so may a failover to one of %d replicas", n)
	} else if n > 0 {
		loses += ", and so may a failover, if fewer replicas have a lock than may be promoted"
	}
	do := "set Options.Quarantine"
	if c.sharded {
		do = "guard what must not be touched by two with fencing tokens"
	}
	c.find(Risk, "restart", do, "%s", loses)
}

// quarantining judges the marker.
func (c *check) quarantining(f *facts) {
	q := c.quarantine
	m, made := parseMarker(f.marker)
	switch {
	case q == nil && made:
		c.find(Risk, "quarantine", "set Options.Quarantine as they do", "other clients have a Quarantine with MaxTTL %v, which this one breaks", m.terms.MaxTTL)
	case q == nil:
	case f.info == "":
		c.find(Fault, "info", "give the user +info", "a quarantine takes the right to INFO")
	case c.sharded:
		c.find(Note, "quarantine", "do not count on it", "a cluster has no quarantine: only tokens leap after a failover")
	case !made || m.run != f.get("run_id"):
		c.find(Risk, "quarantine", "wait, or call Bootstrap if nobody can hold anything", "the server is new, was restarted, failed over or flushed: it will grant nothing for %v once it is asked", max(q.MaxTTL+q.Slack, leastQuarantine))
	case m.terms != *q:
		e := &DisagreementError{Theirs: m.terms, Ours: *q}
		c.find(Fault, "quarantine", "use the same for all clients", "%v", e)
	case m.until.After(f.now):
		c.find(Risk, "quarantine", "wait, or call Bootstrap if nobody can hold anything", "the server grants nothing for %v more", m.until.Sub(f.now).Round(time.Millisecond))
	}
}

// waiting judges whether writes can be waited for.
func (c *check) waiting(ctx context.Context, k keys, f *facts) error {
	d := c.durability
	if d.none() {
		return nil
	}
	conn, err := c.node.Pin(ctx, k.lock)
	if err != nil {
		c.find(Fault, "durability", "use another client", "the client has no connection of its own (%v)", err)
		return nil
	}
	defer conn.Close()
	if d.Disk {
		_, _, err = conn.WaitAOF(ctx, 0, time.Millisecond)
	} else {
		_, err = conn.Wait(ctx, 0, time.Millisecond)
	}
	switch {
	case err != nil && code(err) == "":
		return fmt.Errorf("wait: %w", err)
	case err != nil && d.Disk:
		c.find(Fault, "durability", "use Redis 7.2 with appendonly yes, and give the user +waitaof", "writes to disk can't be waited for (%v)", err)
	case err != nil:
		c.find(Fault, "durability", "give the user +wait", "replicas can't be waited for (%v)", err)
	case f.info != "" && f.number("connected_slaves") < int64(d.Replicas):
		c.find(Fault, "durability", "add replicas, or ask for fewer", "%d replicas have to acknowledge a grant, and there are %d", d.Replicas, f.number("connected_slaves"))
	}
	return nil
}

// A marker is what the store has of the quarantine.
type marker struct {
	run   string
	until time.Time
	terms Quarantine
}

// parseMarker reads what acquire.lua wrote. It reports false for anything else.
func parseMarker(s string) (m marker, ok bool) {
	w := strings.SplitN(s, " ", 6)
	if len(w) != 6 {
		return m, false
	}
	until, err := parseToken(w[1])
	return marker{w[0], time.UnixMicro(int64(until)), parseTerms(w[5])}, err == nil
}
