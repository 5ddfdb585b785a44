package sim

import (
	"fmt"
	"strconv"
	"time"

	"github.com/pawlock/pawl/internal/ballot"
)

// A message is a request on its way to a node, or its answer on the way back.
type message struct {
	from     *client
	to       *host
	attempt  *attempt
	request  ballot.Request
	value    uint64 // that the client believes the node has granted
	cand     uint64
	notAfter int64 // on the node's clock, 0 for none
	sent     time.Duration
	answered bool // or given up on, by the client
	reply    *Reply
}

// A host is the machine of a node.
type host struct {
	*Node
	world    *world
	number   int
	offset   time.Duration // of its clock from the true time
	down     bool
	frozen   time.Duration // until when it does nothing
	snapshot Node          // what it will remember
	grants   []grant       // in order
}

// A grant is one that a node has given.
type grant struct {
	nonce string
	value uint64
}

// base is the true time at the beginning, in microseconds.
const base = 1_700_000_000_000_000

// clock returns what the host's clock shows.
func (h *host) clock() int64 { return base + (h.world.now + h.offset).Microseconds() }

// post sends a request.
func (w *world) post(m *message) {
	w.tell(m.from.name, "→ n%d %v%s of %s", m.to.number, m.request.Op, m.detail(), m.attempt.nonce)
	if w.manual {
		w.wire = append(w.wire, m)
		return
	}
	if w.cut[m.from.number] == m.to.number+1 {
		return
	}
	copies := 1
	if w.chance(w.cfg.Faults.Duplicates) {
		copies = 2
	}
	for range copies {
		if !w.chance(w.cfg.Faults.Loss) {
			w.after(w.delay(), func() { w.arrive(m) })
		}
	}
}

// delay returns how long a message takes.
func (w *world) delay() time.Duration {
	if w.chance(w.cfg.Faults.Slow) {
		return w.upTo(w.cfg.Faults.MaxDelay)
	}
	return 100*time.Microsecond + w.upTo(5*time.Millisecond)
}

// arrive lets the node carry out a request, and sends the answer.
func (w *world) arrive(m *message) {
	h := m.to
	if h.down {
		return
	}
	if h.frozen > w.now {
		w.at(h.frozen, func() { w.arrive(m) })
		return
	}
	r := h.carryOut(m)
	if w.manual {
		m.reply = &r
		return
	}
	if w.cut[m.from.number] == h.number+1 || w.chance(w.cfg.Faults.Loss) {
		return
	}
	w.after(w.delay(), func() { m.from.receive(m, r) })
}

// carryOut runs the operation, and sees to it that it touches nothing that it is
// not about.
func (h *host) carryOut(m *message) (r Reply) {
	w, now, nonce := h.world, h.clock(), m.attempt.nonce
	h.expire(now)
	before := h.lock
	switch m.request.Op {
	case ballot.Acquire:
		r = h.acquire(w.mutant, nonce, m.attempt.ttl, m.cand, m.notAfter, now)
		if h.lock.nonce == nonce && (before.nonce != nonce || before.value != h.lock.value) {
			h.grants = append(h.grants, grant{nonce, h.lock.value})
		}
	case ballot.Confirm, ballot.Renew:
		r = h.renew(w.mutant, m.request.Op == ballot.Confirm, nonce, m.value, m.request.Floor, m.attempt.ttl, now)
		if h.lock != before && (before.nonce != nonce || before.value != m.value) {
			w.violate(P7, "%v by %s with %d changed n%d from %q with %d to %q with %d",
				m.request.Op, nonce, m.value, h.number, before.nonce, before.value, h.lock.nonce, h.lock.value)
		}
	case ballot.Find:
		r = h.find(nonce, now)
	case ballot.Release:
		r = h.release(w.mutant, nonce, m.value, now)
	}
	if before.nonce != "" && before.nonce != nonce && h.lock != before {
		w.violate(P7, "%v by %s ended the hold of %s at n%d", m.request.Op, nonce, before.nonce, h.number)
	}
	if h.lock.nonce != "" && h.lock.value > h.fence.counter {
		w.violate(P8, "n%d has granted %d to %s, and its counter is at %d", h.number, h.lock.value, h.lock.nonce, h.fence.counter)
	}
	w.tell(h.name(), "%v of %s: %v%s", m.request.Op, nonce, r.Code, r.detail())
	return r
}

func (h *host) name() string { return "n" + strconv.Itoa(h.number) }

// detail renders what is of interest in a request.
func (m *message) detail() string {
	switch m.request.Op {
	case ballot.Confirm, ballot.Renew:
		return fmt.Sprintf(" %d, floor %d,", m.value, m.request.Floor)
	}
	return ""
}

// detail renders what is of interest in an answer.
func (r Reply) detail() string {
	switch {
	case r.Value > 0:
		return fmt.Sprintf(", %d", r.Value)
	case r.Code == Busy:
		return fmt.Sprintf(", last %d", r.Last)
	}
	return ""
}
