package sim

import (
	"strconv"
	"time"
)

// What every node of a simulated quorum is configured with, as a real one is.
const (
	maxTTL     = time.Second
	delta      = time.Second // how far node clocks may be apart; quarantine >= 2 delta
	quarantine = 2*delta + 500*time.Millisecond
	incJump    = 1 << 20 // how far ahead of a counter of another incarnation a token begins
	tokenLimit = 1<<53 - 1
)

// A Node is the model of a quorum's node: the state of one key, and the
// operations as pure steps on it. Its clock is the wall clock of the server,
// which may be set, in microseconds.
type Node struct {
	run     int // identifies the running server
	started int64
	lock    lock
	fence   fence
	marker  marker
	strict  bool // the restart quarantine is on
	dies    bool // in the middle of the next grant, having written one of two keys
}

// A lock is a hold as the node keeps it.
type lock struct {
	nonce string // "" is none
	value uint64
	until int64
}

// A fence is the counter of the key: the last token given out, by which
// incarnation of the server, and to whom.
type fence struct {
	known   bool
	counter uint64
	run     int
	nonce   string
}

// A marker tells a server that runs on from one that has been restarted, or has
// lost its memory.
type marker struct {
	known bool
	run   int
	until int64 // no grants before
	floor int64 // no token below
}

// newNode returns a server that runs for long.
func newNode(run int, now int64) *Node {
	return &Node{run: run, started: now, marker: marker{known: true, run: run}, strict: true}
}

// A Reply is a node's answer.
type Reply struct {
	Code  Code
	Value uint64 // granted
	Last  uint64 // the last token of the key
	Now   int64  // the node's clock
	Left  int64  // of the claim in the way
}

// A Code is what a node says.
type Code uint8

const (
	Done     Code = iota
	Busy          // another claim holds
	NotYours      // the claim does not hold
	Late          // the request came after its sender's deadline
	Quarantined
	Overflow // no token is left
	Died     // an error in the middle
)

// String returns the code in words.
func (c Code) String() string {
	return [...]string{"done", "busy", "not yours", "late", "quarantined", "overflow", "died"}[c]
}

// restart loses all that is not in the snapshot, and the run_id.
func (n *Node) restart(snapshot Node, run int, now int64) {
	strict := n.strict
	*n = snapshot
	n.run, n.started, n.strict = run, now, strict
}

// bootstrap lets a node grant at once of which somebody knows that nothing was
// granted there.
func (n *Node) bootstrap(now int64) {
	n.marker = marker{known: true, run: n.run, until: now, floor: max(n.marker.floor, now+2*delta.Microseconds())}
}

// flush forgets everything; the server runs on.
func (n *Node) flush() {
	n.lock, n.fence, n.marker = lock{}, fence{}, marker{}
}

// expire drops the lock when its time is over.
func (n *Node) expire(now int64) {
	if n.lock.nonce != "" && n.lock.until <= now {
		n.lock = lock{}
	}
}

// acquire makes one attempt to grant nonce: cand is the client's candidate,
// notAfter its deadline on this node's clock, 0 for none.
func (n *Node) acquire(m *Mutant, nonce string, ttl time.Duration, cand uint64, notAfter, now int64) Reply {
	n.expire(now)
	if notAfter > 0 && now > notAfter {
		return Reply{Code: Late, Now: now}
	}
	if n.strict && !m.QuarantineOff && n.quarantined(m, now) {
		return Reply{Code: Quarantined, Now: now}
	}
	if n.lock.nonce == nonce {
		n.lock.until = now + ttl.Microseconds()
		return Reply{Code: Done, Value: n.lock.value, Last: n.fence.counter, Now: now}
	}
	if n.lock.nonce != "" {
		return Reply{Code: Busy, Last: n.fence.counter, Now: now, Left: n.lock.until - now}
	}
	if n.fence.known && n.fence.nonce == nonce && !m.NoncePerClient {
		return Reply{Code: NotYours, Now: now}
	}
	v := n.next(m, now)
	if cand > v && (int64(cand) <= now+delta.Microseconds() || m.ClampOff) {
		v = cand
	}
	if v >= tokenLimit && !m.ClampOff {
		return Reply{Code: Overflow, Now: now}
	}
	if m.ClampOff {
		v = uint64(float64(v)) // what Lua makes of it
	}
	v = m.format(v)
	f := fence{known: true, counter: v, run: n.run, nonce: nonce}
	l := lock{nonce: nonce, value: v, until: now + ttl.Microseconds()}
	if n.dies {
		n.dies = false
		if m.LockBeforeFence {
			n.lock = l
		} else {
			n.fence = f
		}
		return Reply{Code: Died, Now: now}
	}
	n.fence, n.lock = f, l
	return Reply{Code: Done, Value: v, Last: v, Now: now}
}

// next returns the least token that may be granted now. A counter of another
// incarnation may be older than tokens that have been given out since, and one
// that is missing may have been lost: the clock is the floor then.
func (n *Node) next(m *Mutant, now int64) uint64 {
	d := delta.Microseconds()
	switch f := n.fence; {
	case f.known && (f.run == n.run || m.FloorForMissingOnly):
		return f.counter + 1
	case f.known:
		return max(f.counter+incJump, uint64(max(1, now+d)))
	case m.NoFloor:
		return 1
	case n.strict && !m.QuarantineOff:
		return uint64(max(n.marker.floor+1, now-d, 1))
	default:
		return uint64(max(now-d, 1))
	}
}

// quarantined reports whether the node may have lost what it granted, so that it
// must not grant before all of that has ended.
func (n *Node) quarantined(m *Mutant, now int64) bool {
	q := quarantine.Microseconds()
	fresh := n.marker.known && n.marker.run == n.run
	if m.UptimeForRunID {
		// A server is taken for restarted only if it has been up for less than the
		// quarantine, by its own clock.
		fresh = n.marker.known && now-n.started >= 0 && n.marker.until <= now
		if now-n.started >= q {
			return false
		}
	}
	if m.MarkerOnly {
		fresh = n.marker.known
	}
	if !fresh {
		n.marker = marker{known: true, run: n.run, until: now + q, floor: max(n.marker.floor, now+2*delta.Microseconds())}
		return true
	}
	if n.marker.until > now+q {
		n.marker.until = now + q // the clock was set back
	}
	return now < n.marker.until
}

// renew restarts the TTL of exactly the hold (nonce, value), and raises the
// counter to floor. A confirmation is the same.
func (n *Node) renew(m *Mutant, confirm bool, nonce string, value, floor uint64, ttl time.Duration, now int64) Reply {
	n.expire(now)
	mine := n.lock.nonce == nonce && (n.lock.value == value || m.RenewByNonceOnly)
	switch {
	case mine:
	case confirm && (m.UnconditionalConfirm || m.NonGranterAcks):
		n.fence.counter, n.fence.known = max(n.fence.counter, floor), true
		return Reply{Code: Done, Last: n.fence.counter, Now: now}
	case !confirm && m.RenewRecreates && n.lock.nonce == "":
		n.lock = lock{nonce: nonce, value: value}
	default:
		return Reply{Code: NotYours, Now: now}
	}
	if !n.fence.known && !m.RenewRecreates {
		return Reply{Code: NotYours, Now: now} // it vanished under a live lock: no vote
	}
	n.fence.counter = max(n.fence.counter, m.format(floor))
	n.lock.until = now + ttl.Microseconds()
	return Reply{Code: Done, Value: n.lock.value, Last: n.fence.counter, Now: now}
}

// release ends what nonce holds, whatever its value. A client that knows of no
// grant, value 0, is told nothing about one.
func (n *Node) release(m *Mutant, nonce string, value uint64, now int64) Reply {
	n.expire(now)
	if n.lock.nonce != nonce && !(m.ReleaseByKey && n.lock.nonce != "") {
		if value == 0 || n.fence.nonce == nonce {
			return Reply{Code: Done, Now: now} // released before, and that answer was lost
		}
		return Reply{Code: NotYours, Now: now}
	}
	n.lock = lock{}
	return Reply{Code: Done, Now: now}
}

// find tells what nonce holds.
func (n *Node) find(nonce string, now int64) Reply {
	n.expire(now)
	if n.lock.nonce != nonce {
		return Reply{Code: NotYours, Now: now}
	}
	return Reply{Code: Done, Value: n.lock.value, Now: now}
}

// format is what becomes of a token that is written with Lua's "..", which keeps
// 14 digits.
func (m *Mutant) format(v uint64) uint64 {
	if !m.FormatInLua {
		return v
	}
	f, _ := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', 14, 64), 64)
	return uint64(f)
}
