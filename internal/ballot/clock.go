package ballot

import "time"

// A Clock is what is known of a node's clock: how far it is ahead of ours, as
// bounds, because an answer may have been made at any time between the sending
// of its request and its coming. The zero value knows nothing.
type Clock struct {
	known  bool
	lo, hi time.Duration // bounds of node - ours, at the time at
	at     time.Duration
	barred time.Duration // until then its votes don't count
}

// A clock has been set if it moved against ours by more than that.
const (
	stepBound = 250 * time.Millisecond
	rateBound = 100 // one part in so many
)

// Observe takes the time now of a node, told in an answer to a request between
// sent and came. It reports whether the node's clock was set since the last
// time: its leases may then end too early, so that its votes don't count for
// the time bar, the longest TTL there is. by is how far it was set, about.
func (c *Clock) Observe(now time.Time, sent, came, bar time.Duration) (by time.Duration, stepped bool) {
	if now.IsZero() {
		return 0, false
	}
	wall := time.Duration(now.UnixNano())
	lo, hi := wall-came, wall-sent
	if c.known {
		drift := max(0, came-c.at) / rateBound
		stepped = lo-c.hi > stepBound+drift || c.lo-hi > stepBound+drift
		if a, b := max(lo, c.lo-drift), min(hi, c.hi+drift); !stepped && a <= b {
			lo, hi = a, b
		}
	}
	if stepped {
		c.barred = came + bar
		by = (lo+hi)/2 - (c.lo+c.hi)/2
	}
	c.known, c.lo, c.hi, c.at = true, lo, hi, max(c.at, came)
	return by, stepped
}

// Pardon lets the node's votes count again: it was our clock that stood still.
func (c *Clock) Pardon() { c.barred = 0 }

// Barred reports whether the node's votes don't count at the time now.
func (c *Clock) Barred(now time.Duration) bool { return now < c.barred }

// Ahead returns how far the node's clock is ahead of ours, as the bounds of it,
// and false if that is not known.
func (c *Clock) Ahead() (lo, hi time.Duration, known bool) { return c.lo, c.hi, c.known }
