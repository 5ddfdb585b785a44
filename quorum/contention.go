package quorum

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/ballot"
)

// refusals returns, by node, who was in the way there; nil where nobody was.
func (h *hold) refusals() []*driver.HeldError {
	h.mu.Lock()
	defer h.mu.Unlock()
	refusals := make([]*driver.HeldError, len(h.errs))
	for i, err := range h.errs {
		if held := (*driver.HeldError)(nil); errors.As(err, &held) {
			refusals[i] = held
		}
	}
	return refusals
}

// A rival is a claim in the way at some of the nodes.
type rival struct {
	id    string
	nodes []*driver.HeldError
}

// rivals returns the claims in the way, those at most nodes first.
func rivals(refusals []*driver.HeldError) []rival {
	var all []rival
	for _, r := range refusals {
		if r == nil {
			continue
		}
		id := public(r.Holder)
		i := slices.IndexFunc(all, func(x rival) bool { return x.id == id })
		if i < 0 {
			i = len(all)
			all = append(all, rival{id: id})
		}
		all[i].nodes = append(all[i].nodes, r)
	}
	slices.SortStableFunc(all, func(x, y rival) int { return len(y.nodes) - len(x.nodes) })
	return all
}

// inOurWay reports whether c would have a majority but for what its own earlier
// attempts have left. That is no contention.
func (b *Backend) inOurWay(c driver.Claim, refusals []*driver.HeldError, votes []ballot.Verdict) bool {
	granted, ours := 0, 0
	for i, r := range refusals {
		switch {
		case votes[i] == ballot.Yes:
			granted++
		case r != nil && !r.Holder.Foreign && public(r.Holder) == c.ID:
			ours++
		}
	}
	return ours > 0 && granted+ours >= b.majority()
}

// held is the error for a claim that found no room: the claim that is in the way
// at most nodes, and when there may be a majority again. last is the greatest
// token that a node told.
func (b *Backend) held(c driver.Claim, refusals []*driver.HeldError, last uint64) *driver.HeldError {
	all := rivals(refusals)
	if len(all) == 0 {
		return &driver.HeldError{Last: last} // those in the way are gone already
	}
	var merged merge
	for i, r := range all[0].nodes {
		merged.add(i, r.Holder)
	}
	e := &driver.HeldError{Last: last, Now: all[0].nodes[0].Now, Holder: merged.holder(len(b.seats))}
	e.Holder.Key = c.Key
	if t := e.Holder.Grant.Token; t > 0 && len(merged.seen) >= b.majority() {
		e.Last = t // what came after it was granted by a minority, and is no token
	}
	var left []time.Duration
	for _, r := range refusals {
		if r != nil {
			left = append(left, r.Left)
		}
	}
	e.Left = leftOf(left, len(left)-(len(b.seats)-b.majority()))
	return e
}

// leftOf returns when the nth of the claims ends; negative is never.
func leftOf(left []time.Duration, nth int) time.Duration {
	slices.SortFunc(left, func(x, y time.Duration) int {
		switch {
		case x < 0 && y < 0 || x == y:
			return 0
		case x < 0 || y >= 0 && x > y:
			return 1
		}
		return -1
	})
	return left[min(max(nth, 1), len(left))-1]
}

// split reports whether all that is in the way came as late as we did, and none
// of it has a majority: then nobody may have the key.
func (b *Backend) split(refusals []*driver.HeldError, ttl time.Duration) bool {
	for _, r := range rivals(refusals) {
		if len(r.nodes) >= b.majority() || r.nodes[0].Holder.Foreign {
			return false
		}
		for _, n := range r.nodes {
			if n.Holder.Age > b.timeout(ttl) {
				return false
			}
		}
	}
	return true
}

// public returns the ID of a claim at a node as the quorum shows it: without the
// number of the attempt.
func public(h driver.Holder) string {
	if h.Foreign {
		return h.ID
	}
	id, _ := attemptOf(h.ID)
	return id
}

// attemptOf takes an attempt's nonce apart.
func attemptOf(nonce string) (id, number string) {
	if _, ok := driver.ParseID(nonce); ok {
		if i := strings.LastIndexByte(nonce, '~'); i >= 0 {
			return nonce[:i], nonce[i+1:]
		}
	}
	return nonce, ""
}

// A merge is one claim as several nodes see it.
type merge struct {
	seen []driver.Holder
	at   []int // the nodes
}

func (m *merge) add(node int, h driver.Holder) {
	m.seen = append(m.seen, h)
	m.at = append(m.at, node)
}

// holder returns the claim as the quorum of n nodes has it: it lasts as long as a
// majority of them keeps it, and its token is the value that most have.
func (m *merge) holder(n int) driver.Holder {
	h := m.seen[0]
	h.ID = public(h)
	var left []time.Duration
	count := make(map[uint64]int)
	for _, o := range m.seen {
		left = append(left, o.Left)
		h.Age = max(h.Age, o.Age)
		count[o.Grant.Token]++
		if h.Label == "" {
			h.Label = o.Label
		}
	}
	h.Left = leftOf(left, len(left)-(n/2+1)+1)
	for token, times := range count {
		if best := count[h.Grant.Token]; times > best || times == best && token > h.Grant.Token {
			h.Grant.Token = token
		}
	}
	h.Grant.Holder = h.ID
	return h
}
