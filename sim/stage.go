package sim

import (
	"slices"
	"time"

	"github.com/pawlock/pawl/internal/ballot"
)

// What nodes can be asked to do, for [Stage.Deliver] and the like.
const (
	Acquire = ballot.Acquire
	Confirm = ballot.Confirm
	Renew   = ballot.Renew
	Find    = ballot.Find
	Release = ballot.Release
)

// A Stage is a world in which every message waits until it is delivered or
// dropped, so that a schedule can be played move by move: the counterexamples,
// and what the protocol does about them. Clients and nodes are known by their
// numbers.
type Stage struct{ w *world }

// NewStage returns a stage with a node for each of the counters, which is the
// last token that it gave out, and two clients without clocks. With no counters
// there are three nodes, and the clocks count.
func NewStage(m Mutant, counters ...uint64) *Stage {
	cfg := Config{Nodes: 3, Clients: 2, Mutant: m, Trace: true}
	if len(counters) > 0 {
		cfg.Nodes, cfg.Faults.NoWall = len(counters), true
	}
	w := newWorld(cfg)
	w.manual = true
	for i, c := range counters {
		w.hosts[i].fence.counter = c
	}
	for _, c := range w.clients {
		c.decided = func(*attempt, ballot.Outcome) {}
	}
	return &Stage{w}
}

// Acquire begins an attempt of the client. Its requests wait.
func (s *Stage) Acquire(client int) { s.last(client, s.w.clients[client].acquire()) }

func (s *Stage) last(client int, a *attempt) { s.w.clients[client].current = a }

// find returns the message, the oldest that waits.
func (s *Stage) find(client int, op ballot.Op, node int) (int, *message) {
	i := slices.IndexFunc(s.w.wire, func(m *message) bool {
		return m.from.number == client && m.request.Op == op && m.to.number == node
	})
	if i < 0 {
		return i, nil
	}
	return i, s.w.wire[i]
}

// Deliver lets nodes carry out the client's request, if there is one, and the
// client have the answers.
func (s *Stage) Deliver(client int, op ballot.Op, nodes ...int) {
	for _, n := range nodes {
		s.Arrive(client, op, n)
		s.Answer(client, op, n)
	}
}

// Arrive lets nodes carry out the client's request. The answers wait.
func (s *Stage) Arrive(client int, op ballot.Op, nodes ...int) {
	for _, n := range nodes {
		if _, m := s.find(client, op, n); m != nil && m.reply == nil {
			s.w.arrive(m)
		}
	}
}

// Answer lets the client have the nodes' answers.
func (s *Stage) Answer(client int, op ballot.Op, nodes ...int) {
	for _, n := range nodes {
		if i, m := s.find(client, op, n); m != nil && m.reply != nil {
			s.w.wire = slices.Delete(s.w.wire, i, i+1)
			m.from.receive(m, *m.reply)
		}
	}
}

// Twice lets nodes carry out the client's request, which goes on waiting: it
// will arrive a second time.
func (s *Stage) Twice(client int, op ballot.Op, nodes ...int) {
	for _, n := range nodes {
		if _, m := s.find(client, op, n); m != nil {
			s.w.arrive(m)
			m.from.receive(m, *m.reply)
			m.reply = nil
		}
	}
}

// Drop loses the client's requests to nodes.
func (s *Stage) Drop(client int, op ballot.Op, nodes ...int) {
	for _, n := range nodes {
		if i, m := s.find(client, op, n); m != nil {
			s.w.wire = slices.Delete(s.w.wire, i, i+1)
		}
	}
}

// Settle delivers all that waits, in the order it was sent, and what follows
// from that.
func (s *Stage) Settle() {
	for len(s.w.wire) > 0 {
		m := s.w.wire[0]
		s.Deliver(m.from.number, m.request.Op, m.to.number)
	}
}

// Pass lets time pass: timers fire, leases end.
func (s *Stage) Pass(d time.Duration) {
	s.w.run(s.w.now + d)
	for _, l := range s.w.leases {
		if l.attempt.client.paused <= s.w.now {
			l.Valid()
		}
	}
}

// Held returns the token of the client's lease, 0 if it has none or it has ended.
func (s *Stage) Held(client int) uint64 {
	if l := s.lease(client); l != nil && l.Valid() {
		return l.token
	}
	return 0
}

func (s *Stage) lease(client int) *lease {
	if a := s.w.clients[client].current; a != nil {
		return a.lease
	}
	return nil
}

// Renew sends a renewal of the client's lease, if it has one.
func (s *Stage) Renew(client int) {
	if l := s.lease(client); l != nil && l.ended < 0 {
		l.renew()
	}
}

// Release lets the client give back its lease, if it has one.
func (s *Stage) Release(client int) {
	if l := s.lease(client); l != nil {
		l.release()
	}
}

// Write lets the client use its lease at the resource, if it believes that it has
// one.
func (s *Stage) Write(client int) {
	if l := s.lease(client); l != nil && l.Valid() {
		s.w.write(l)
	}
}

// Pause stops the client for d; its clock goes on.
func (s *Stage) Pause(client int, d time.Duration) { s.w.clients[client].paused = s.w.now + d }

// Suspend stops the client for d, and its clock with it.
func (s *Stage) Suspend(client int, d time.Duration) {
	c := s.w.clients[client]
	c.paused = s.w.now + d
	s.w.at(c.paused, func() { c.blind += d })
	s.w.cfg.Faults.Suspends = true
}

// Poison lets the client propose 2^53 as its tokens.
func (s *Stage) Poison(client int) { s.w.clients[client].poison = true }

// Step sets the node's clock ahead by d.
func (s *Stage) Step(node int, d time.Duration) {
	s.w.hosts[node].offset += d
	s.w.cfg.Faults.NodeSteps = true
}

// Sound says that what was done to the clocks is no excuse for two leases at once.
func (s *Stage) Sound() { s.w.cfg.Faults.NodeSteps, s.w.cfg.Faults.Suspends = false, false }

// Snapshot keeps the node's state, for Restart.
func (s *Stage) Snapshot(node int) { s.w.hosts[node].snapshot = *s.w.hosts[node].Node }

// Restart starts the node anew from its last snapshot, empty without one.
func (s *Stage) Restart(node int) {
	h := s.w.hosts[node]
	s.w.runs++
	h.restart(h.snapshot, s.w.runs, h.clock())
}

// Flush lets the node forget everything.
func (s *Stage) Flush(node int) { s.w.hosts[node].flush() }

// Delete ends whatever holds at the node, as an operator may. If two leases are
// valid at once then, that is why.
func (s *Stage) Delete(node int) {
	s.w.hosts[node].lock = lock{}
	s.w.cfg.Faults.Suspends = true
}

// Die lets the node fail in the middle of the next grant.
func (s *Stage) Die(node int) { s.w.hosts[node].dies = true }

// Holds reports whether the client's attempt holds the key at the node.
func (s *Stage) Holds(client, node int) bool {
	h, a := s.w.hosts[node], s.w.clients[client].current
	h.expire(h.clock())
	return a != nil && h.lock.nonce == a.nonce
}

// Forgotten notes, as a violation of L2, what an attempt that is over has left at
// the nodes.
func (s *Stage) Forgotten(client int) {
	for n := range s.w.hosts {
		if s.Holds(client, n) {
			s.w.violate(L2, "%s is over, and n%d still has it", s.w.clients[client].current.nonce, n)
		}
	}
}

// Report checks the schedule so far.
func (s *Stage) Report() *Report {
	s.w.check()
	return s.w.report
}

// L2 is the property that an attempt which has failed or was released leaves
// nothing behind.
const L2 = "L2"
