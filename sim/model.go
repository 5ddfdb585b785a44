package sim

import (
	"time"

	"github.com/pawlock/pawl/internal/ballot"
)

// A Model is the model of one key at a node, to be compared with a real one.
type Model struct {
	node     *Node
	snapshot Node // what it remembers after a restart
	mutant   Mutant
}

// An Operation is a request to a node, as a client sends it.
type Operation struct {
	Op       ballot.Op
	Nonce    string
	TTL      time.Duration
	Value    uint64    // to Renew and Release: what the node has granted
	Floor    uint64    // to Acquire the candidate, to Renew what the counter is raised to
	NotAfter time.Time // to Acquire: the deadline, on the node's clock; zero for none
}

// NewModel returns the model of a node that has run for long. Without quarantine
// it is one that takes a counter as it finds it and grants after a restart as
// before.
func NewModel(quarantine bool) *Model {
	n := newNode(1, 0)
	n.strict = quarantine
	return &Model{node: n, mutant: Mutant{QuarantineOff: !quarantine, FloorForMissingOnly: !quarantine}}
}

// The terms of every node's quarantine: the longest TTL, and what is added to it.
const (
	MaxTTL = maxTTL
	Slack  = quarantine - maxTTL
)

// Bootstrap lets the node grant at once that would begin with a quarantine.
func (m *Model) Bootstrap(now time.Time) { m.node.bootstrap(now.UnixMicro()) }

// Do carries out o at the time now of the node's clock.
func (m *Model) Do(o Operation, now time.Time) Reply {
	at := now.UnixMicro()
	switch o.Op {
	case ballot.Acquire:
		notAfter := int64(0)
		if !o.NotAfter.IsZero() {
			notAfter = o.NotAfter.UnixMicro()
		}
		return m.node.acquire(&m.mutant, o.Nonce, o.TTL, o.Floor, notAfter, at)
	case ballot.Confirm, ballot.Renew:
		return m.node.renew(&m.mutant, false, o.Nonce, o.Value, o.Floor, o.TTL, at)
	case ballot.Release:
		return m.node.release(&m.mutant, o.Nonce, o.Value, at)
	default:
		return m.node.find(o.Nonce, at)
	}
}

// Flush forgets everything.
func (m *Model) Flush() { m.node.flush() }

// Snapshot keeps the state for Restart, and Forget drops what was kept.
func (m *Model) Snapshot() { m.snapshot = *m.node }
func (m *Model) Forget()   { m.snapshot = Node{} }

// Restart starts the node anew from its snapshot.
func (m *Model) Restart(now time.Time) { m.node.restart(m.snapshot, m.node.run+1, now.UnixMicro()) }

// Ends returns when what holds the key ends, and false if nothing does.
func (m *Model) Ends() (time.Time, bool) {
	return time.UnixMicro(m.node.lock.until), m.node.lock.nonce != ""
}

// Turns reports whether something ends by itself from from to to, what holds the
// key or the quarantine: who does not know the node's time to the microsecond
// can't tell then what it does.
func (m *Model) Turns(from, to time.Time) bool {
	in := func(until int64) bool { return until >= from.UnixMicro() && until <= to.UnixMicro() }
	return m.node.lock.nonce != "" && in(m.node.lock.until) || m.node.strict && in(m.node.marker.until)
}
