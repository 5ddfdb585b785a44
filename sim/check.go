package sim

import (
	"cmp"
	"slices"
	"time"
)

// check looks at the whole run. P7 and P8 were checked as it went.
func (w *world) check() {
	w.report.Events = w.seq
	w.checkTokens()
	w.checkNodes()
	if w.cfg.Faults.Sound() {
		w.checkOverlap()
		w.checkSequence()
	}
	w.checkFinality()
	w.checkWrites()
}

// checkTokens looks for P1 and P2: leases in the order they were asked for, and
// with each those that were had before.
func (w *world) checkTokens() {
	byToken := slices.Clone(w.leases)
	slices.SortFunc(byToken, func(x, y *lease) int { return cmp.Compare(x.token, y.token) })
	for i := 1; i < len(byToken); i++ {
		if x, y := byToken[i-1], byToken[i]; x.token == y.token {
			w.violate(P1, "%s and %s both have %d", x.attempt.nonce, y.attempt.nonce, x.token)
		}
	}
	asked, had := slices.Clone(w.leases), slices.Clone(w.leases)
	slices.SortFunc(asked, func(x, y *lease) int { return cmp.Compare(x.attempt.invoked, y.attempt.invoked) })
	slices.SortFunc(had, func(x, y *lease) int { return cmp.Compare(x.returned, y.returned) })
	var top *lease
	next := 0
	for _, l := range asked {
		for next < len(had) && had[next].returned < l.attempt.invoked {
			if top == nil || had[next].token > top.token {
				top = had[next]
			}
			next++
		}
		if top != nil && l.token <= top.token {
			w.violate(P2, "%s had %d before %s asked and got %d", top.attempt.nonce, top.token, l.attempt.nonce, l.token)
		}
	}
}

// checkNodes looks for P3: at each node, the leases whose token it stands for, in
// the order in which it granted them.
func (w *world) checkNodes() {
	byNonce := make(map[string][]*lease)
	for _, l := range w.leases {
		byNonce[l.attempt.nonce] = append(byNonce[l.attempt.nonce], l)
	}
	for _, h := range w.hosts {
		var last *lease
		met := make(map[*lease]bool)
		for _, g := range h.grants {
			for _, l := range byNonce[g.nonce] {
				_, value := l.attempt.Seat(h.number)
				if met[l] || !l.backed[h.number] || value != g.value {
					continue
				}
				met[l] = true
				if last != nil && l.token <= last.token {
					w.violate(P3, "n%d granted %s after %s, and the tokens are %d and %d",
						h.number, l.attempt.nonce, last.attempt.nonce, l.token, last.token)
				}
				last = l
			}
		}
	}
}

// checkOverlap looks for P4.
func (w *world) checkOverlap() {
	type piece struct {
		span
		lease *lease
	}
	var all []piece
	for _, l := range w.leases {
		for _, s := range l.spans {
			if s.to > s.from {
				all = append(all, piece{s, l})
			}
		}
	}
	slices.SortFunc(all, func(x, y piece) int { return cmp.Compare(x.from, y.from) })
	var last piece
	for _, p := range all {
		if last.lease != nil && last.lease != p.lease && p.from < last.to {
			w.violate(P4, "%s is valid from %v, %s until %v", p.lease.attempt.nonce, p.from, last.lease.attempt.nonce, last.to)
		}
		if last.lease == nil || p.to > last.to {
			last = p
		}
	}
}

// checkSequence looks for P3 where leases don't overlap: they have their tokens in
// the order in which they were had.
func (w *world) checkSequence() {
	var last *lease
	for _, l := range w.leases { // in that order
		if len(l.spans) == 0 {
			continue // it was over before it was had
		}
		if last != nil && l.token < last.token {
			w.violate(P3, "%s was had with %d after %s with %d", l.attempt.nonce, l.token, last.attempt.nonce, last.token)
		}
		last = l
	}
}

// checkFinality looks for P6: a lease that has ended has ended.
func (w *world) checkFinality() {
	for _, l := range w.leases {
		if l.revived {
			w.violate(P6, "%s was lost, and was valid again later", l.attempt.nonce)
		}
	}
}

// A resource is what the key protects: it refuses a token below one that it has
// seen.
type resource struct {
	top    uint64
	writes []write
}

type write struct {
	lease    *lease
	accepted bool
}

// write decides on a write of l, whenever it comes.
func (w *world) write(l *lease) {
	r := &w.resource
	ok := l.token >= r.top
	if ok {
		r.top = l.token
		w.report.Writes++
	} else {
		w.report.Rejected++
	}
	r.writes = append(r.writes, write{l, ok})
	w.tell("R", "write with %d of %s: accepted %v", l.token, l.attempt.nonce, ok)
}

// checkWrites looks for P5: nothing that came first at the nodes, or was had
// first, is accepted after what came later; nothing is rejected but for a
// token that was given to one who came later.
func (w *world) checkWrites() {
	var top *lease
	for _, x := range w.resource.writes {
		switch l := x.lease; {
		case top == nil || l == top:
		case x.accepted && l.token == top.token:
			w.violate(P5, "writes of %s and of %s were both accepted with %d", top.attempt.nonce, l.attempt.nonce, l.token)
		case x.accepted && w.before(l, top):
			w.violate(P5, "a write of %s with %d was accepted after one of %s with %d, who came later",
				l.attempt.nonce, l.token, top.attempt.nonce, top.token)
		case !x.accepted && w.before(top, l):
			w.violate(P5, "a write of %s with %d was rejected because of %s with %d, who came first",
				l.attempt.nonce, l.token, top.attempt.nonce, top.token)
		}
		if x.accepted {
			top = x.lease
		}
	}
}

// before reports whether x was had before y was asked for.
func (w *world) before(x, y *lease) bool { return x.returned < y.attempt.invoked }

// quiet is how long a world needs to come to rest.
const quiet = 20 * time.Second
