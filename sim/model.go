package sim

import (
	"time"

	"github.com/pawlock/pawl/internal/ballot"
)

// A Model is the model of one key at a node, to be compared with a real one.
type Model struct {
	node   *Node
	mutant Mutant
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
	return &Model{n, Mutant{QuarantineOff: !quarantine, FloorForMissingOnly: !quarantine}}
}

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

// Ends returns when what holds the key ends, and false if nothing does.
func (m *Model) Ends() (time.Time, bool) {
	return time.UnixMicro(m.node.lock.until), m.node.lock.nonce != ""
}
