package drivertest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawlock/pawl/driver"
)

// A History is what the clients of a store saw of it. Record as much as you
// like from as many goroutines as you like, then call Check: it knows nothing
// of the store, so that it judges any of them, also through a fault injector.
// The zero value is an empty history.
type History struct {
	mu     sync.Mutex
	holds  []Hold  // guarded by mu
	writes []Write // guarded by mu
}

// A Hold is a claim as its client saw it.
type Hold struct {
	Claim    driver.Claim // with the grant
	Sent     time.Time    // when the Acquire that was granted was sent
	Answered time.Time    // and answered: from here on the client relied on it
	Until    time.Time    // when the client stopped to: its release was sent, or its validity was over
}

// A Write is the use of a token at a resource that checks them. Writes are
// recorded in the order in which the resource decided on them.
type Write struct {
	Key      string
	Token    uint64
	Accepted bool
}

// A Violation is a property that a history breaks, and where.
type Violation struct {
	Property string // one of those that [History.Check] names
	Key      string
	What     string
}

// String implements fmt.Stringer.
func (v Violation) String() string { return fmt.Sprintf("%s on %q: %s", v.Property, v.Key, v.What) }

// The properties that a history is checked for.
const (
	DistinctTokens = "distinct tokens" // no two grants share a token
	TokenOrder     = "token order"     // a grant that was asked for after another was answered has the greater token
	NoOverlap      = "no overlap"      // at no instant do clients rely on more units than there are
	FencedWrites   = "fenced writes"   // accepted tokens never decrease, and only a token that was passed is rejected
)

// Granted records that c, with its grant, was sent and answered then. The
// client relies on it for the grant's TTL after the request was sent, unless
// told otherwise. What it returns identifies the hold.
func (h *History) Granted(c driver.Claim, sent, answered time.Time) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds = append(h.holds, Hold{Claim: c, Sent: sent, Answered: answered, Until: sent.Add(c.Grant.TTL)})
	return len(h.holds) - 1
}

// Renewed records that the hold was renewed with a request sent then.
func (h *History) Renewed(hold int, sent time.Time, ttl time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds[hold].Until = sent.Add(ttl)
}

// Ended records that from then on the client did not rely on the hold. A time
// after the end of its validity changes nothing.
func (h *History) Ended(hold int, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at.Before(h.holds[hold].Until) {
		h.holds[hold].Until = at
	}
}

// Wrote records what a resource decided. Call it in the order in which the
// resource did, under its lock say.
func (h *History) Wrote(w Write) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes = append(h.writes, w)
}

// Holds returns how many grants were recorded.
func (h *History) Holds() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.holds)
}

// Check returns what the history violates, nothing if it is sound. It takes
// O(n log n).
func (h *History) Check() []Violation {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []Violation
	holds := make(map[string][]Hold)
	for _, hold := range h.holds {
		holds[hold.Claim.Key] = append(holds[hold.Claim.Key], hold)
	}
	for key, hs := range holds {
		report := func(property, format string, args ...any) {
			found = append(found, Violation{property, key, fmt.Sprintf(format, args...)})
		}
		distinct(hs, report)
		ordered(hs, report)
		disjoint(hs, report)
	}
	fenced(h.writes, holds, func(key, format string, args ...any) {
		found = append(found, Violation{FencedWrites, key, fmt.Sprintf(format, args...)})
	})
	slices.SortFunc(found, func(x, y Violation) int { return cmp.Compare(x.String(), y.String()) })
	return found
}

type reporter func(property, format string, args ...any)

func last(g driver.Grant) uint64 { return g.Token + uint64(max(g.Block, 1)) - 1 }

// distinct: in order of their first tokens, each block begins after the end of
// the one before.
func distinct(holds []Hold, report reporter) {
	holds = slices.Clone(holds)
	slices.SortFunc(holds, func(x, y Hold) int { return cmp.Compare(x.Claim.Grant.Token, y.Claim.Grant.Token) })
	for i := 1; i < len(holds); i++ {
		x, y := holds[i-1].Claim, holds[i].Claim
		if y.Grant.Token <= last(x.Grant) {
			report(DistinctTokens, "%s has %d to %d and %s has %d to %d",
				x.ID, x.Grant.Token, last(x.Grant), y.ID, y.Grant.Token, last(y.Grant))
		}
	}
}

// ordered: whoever was answered before a request was sent has a smaller token.
// The requests are taken in the order they were sent, and with each the answers
// that came before.
func ordered(holds []Hold, report reporter) {
	sent, answered := slices.Clone(holds), slices.Clone(holds)
	slices.SortFunc(sent, func(x, y Hold) int { return x.Sent.Compare(y.Sent) })
	slices.SortFunc(answered, func(x, y Hold) int { return x.Answered.Compare(y.Answered) })
	var top Hold
	next := 0
	for _, h := range sent {
		for next < len(answered) && answered[next].Answered.Before(h.Sent) {
			if x := answered[next]; last(x.Claim.Grant) > last(top.Claim.Grant) {
				top = x
			}
			next++
		}
		if h.Claim.Grant.Token <= last(top.Claim.Grant) {
			report(TokenOrder, "%s was answered with %d before %s asked and got %d",
				top.Claim.ID, last(top.Claim.Grant), h.Claim.ID, h.Claim.Grant.Token)
		}
	}
}

// disjoint: at no instant is an exclusive hold in use beside another hold, or
// more units than the largest capacity that any client asked for. (Which of two
// overlapping requests was granted first is not known, so that a smaller
// capacity in one of them proves nothing.)
func disjoint(holds []Hold, report reporter) {
	type event struct {
		at    time.Time
		hold  int
		begin bool
	}
	var events []event
	capacity := 0
	for i, h := range holds {
		if !h.Claim.Exclusive() {
			capacity = max(capacity, h.Claim.Capacity)
		}
		if h.Answered.Before(h.Until) { // else it was over before the client had it
			events = append(events, event{h.Answered, i, true}, event{h.Until, i, false})
		}
	}
	slices.SortFunc(events, func(x, y event) int {
		switch c := x.at.Compare(y.at); {
		case c != 0:
			return c
		case x.begin == y.begin:
			return 0
		case y.begin:
			return -1 // an end comes before a beginning at the same instant
		default:
			return 1
		}
	})
	live := make(map[int]bool)
	var exclusive, units int
	for _, e := range events {
		c := holds[e.hold].Claim
		sign := 1
		if e.begin {
			live[e.hold] = true
		} else {
			delete(live, e.hold)
			sign = -1
		}
		if c.Exclusive() {
			exclusive += sign
		} else {
			units += sign * c.Weight
		}
		if e.begin && (exclusive > 1 || exclusive == 1 && units > 0 || units > capacity) {
			for other := range live { // name one of those it met
				if other != e.hold {
					o := holds[other]
					report(NoOverlap, "%s (%d of %d, token %d) began %v before the end of %s (%d of %d, token %d): %d exclusive and %d units at once",
						c.ID, c.Weight, c.Capacity, c.Grant.Token, o.Until.Sub(e.at),
						o.Claim.ID, o.Claim.Weight, o.Claim.Capacity, o.Claim.Grant.Token, exclusive, units)
					break
				}
			}
		}
	}
}

// fenced: the accepted writes of a key never decrease and have tokens that were
// granted, and one is rejected only if a greater token was granted.
func fenced(writes []Write, holds map[string][]Hold, report func(key, format string, args ...any)) {
	accepted, granted := make(map[string]uint64), make(map[string]uint64)
	for key, hs := range holds {
		for _, h := range hs {
			granted[key] = max(granted[key], last(h.Claim.Grant))
		}
	}
	for _, w := range writes {
		switch {
		case w.Accepted && w.Token < accepted[w.Key]:
			report(w.Key, "%d was accepted after %d", w.Token, accepted[w.Key])
		case w.Accepted && w.Token > granted[w.Key]:
			report(w.Key, "%d was accepted, and %d is the greatest that was granted", w.Token, granted[w.Key])
		case w.Accepted:
			accepted[w.Key] = w.Token
		case w.Token >= granted[w.Key]:
			report(w.Key, "%d was rejected, and none greater was granted", w.Token)
		}
	}
}
