package sim

import "github.com/pawlock/pawl/internal/ballot"

// A Mutant is the protocol with a mistake: what somebody might build, or leave
// out as unneeded. The zero value is the protocol as it is. Each mistake has a
// schedule that shows it, so that the properties are known to tell the
// difference.
type Mutant struct {
	// In the client.
	NoWriteBack       bool // the greatest of the values is the token, unconfirmed
	HalfOfGranters    bool // a majority of those that granted has to confirm, and not of all nodes
	NonGranterAcks    bool // all nodes are asked to confirm, and whoever does is counted
	NoRecheck         bool // the time that the rounds took is not looked at
	NoncePerClient    bool // a client's attempts share a nonce
	ValidityFromReply bool // the lease counts from the answer
	ClockNotRead      bool // a lease is valid until something says that it is not
	RevivedByRenewal  bool // a renewal that succeeds after the loss brings the lease back
	TimeoutIsNo       bool // a node that did not answer is taken not to have granted
	StragglersDropped bool // who answers after the decision is not listened to

	// In the nodes.
	UnconditionalConfirm bool // the counter is raised whoever holds
	ReleaseByKey         bool // the lock is deleted, whosesoever it is
	RenewRecreates       bool // a lock that is gone is written again
	RenewByNonceOnly     bool // the value is not compared
	QuarantineOff        bool // a restarted node grants at once
	UptimeForRunID       bool // a restart is told by how long the server says it is up
	MarkerOnly           bool // a restart is told by a missing marker, which a snapshot brings back
	FloorForMissingOnly  bool // a counter of another incarnation is believed
	NoFloor              bool // a missing counter starts at one
	ClampOff             bool // any candidate is taken
	LockBeforeFence      bool // the lock is written first, and what comes in between leaves it without
	FormatInLua          bool // tokens are joined to strings by "..", with 14 digits
}

// mutate makes of the client's requests, and of what it takes for an election,
// what a mutant would.
func (a *attempt) mutate(requests []ballot.Request) []ballot.Request {
	m := a.client.world.mutant
	if a.done || a.Phase() != ballot.Confirming {
		return requests
	}
	granted, acked := 0, 0
	for i := range a.client.world.hosts {
		if a.Vote(i) == ballot.Yes {
			granted++
		}
		if a.Acknowledged(i) {
			acked++
		}
	}
	switch {
	case m.NoWriteBack:
		a.force()
		return nil
	case m.HalfOfGranters && acked >= granted/2+1:
		a.force()
	case m.NonGranterAcks && !a.spread:
		a.spread = true
		for i := range a.client.world.hosts {
			if a.Vote(i) != ballot.Yes {
				requests = append(requests, ballot.Request{Node: i, Op: ballot.Confirm, Floor: a.Token()})
			}
		}
	}
	return requests
}

// force takes the attempt for elected.
func (a *attempt) force() {
	n := len(a.client.world.hosts)
	states, values := make([]ballot.State, n), make([]uint64, n)
	a.forced = make([]bool, n)
	for i := range n {
		states[i], values[i] = a.Seat(i)
		a.forced[i] = a.Backs(i)
	}
	a.Attempt = ballot.Resume(a.Token(), states, values)
}
