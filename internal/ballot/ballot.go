// Package ballot is one attempt to hold a key on a majority of nodes, from the
// first request to the last release, as a pure state machine: it reads no
// clock, starts no timer and does no I/O. Who drives it sends the requests that
// it returns and tells it the answers, in whatever order they come, and however
// late. The quorum backend and the simulator drive the same one.
//
// The rules, with N nodes of which Q = N/2 + 1 are a majority:
//
//   - If Q nodes granted the same value, that is the token. If Q granted any
//     values it is the greatest, once Q of the nodes that granted this attempt
//     have acknowledged, still holding it, that their counter is not below.
//   - An attempt is elected only if enough of its TTL is left after all rounds.
//   - Requests are never called off: who grants after the election is kept with
//     the others, who grants after the end is released.
//   - A release is sent to a node only after its acquire was answered, or when
//     the node can't grant it any more.
//   - A node votes for a renewal by renewing the very hold that it granted. As
//     soon as so many can't that no majority is left, the hold is lost.
package ballot

import "time"

// Majority returns how many of n nodes are more than half.
func Majority(n int) int { return n/2 + 1 }

// An Op is what a node is asked to do.
type Op uint8

const (
	Acquire Op = iota // grant the attempt
	Confirm           // raise the counter to Floor if the hold is still there
	Renew             // the same, and restart the TTL
	Find              // tell whether the attempt holds, and with which value
	Release           // end whatever the attempt holds
)

// String returns the name of the operation.
func (o Op) String() string {
	return [...]string{"acquire", "confirm", "renew", "find", "release"}[o]
}

// A Request is to be sent to a node.
type Request struct {
	Node  int
	Op    Op
	Value uint64        // what the node has granted: with the attempt's nonce it is the hold
	Floor uint64        // the token, for Confirm and Renew
	At    time.Duration // not before that time
	Round *Round        // that it is a part of, nil if it is none's
}

// A Verdict is what a node has answered.
type Verdict uint8

const (
	Silent  Verdict = iota // nothing yet
	Yes                    // granted, confirmed, renewed, found, released
	Held                   // to Acquire: another claim holds the key
	Gone                   // the attempt does not hold the key there, and never will again
	Refused                // nothing was done, for a reason of the node's own
	Unknown                // it may have been done, or not, or may be done later
)

// An Answer is a node's answer to a request.
type Answer struct {
	Verdict Verdict
	Value   uint64 // granted or found
	Barred  bool   // what it says is done, and does not count as a vote
}

// A State is what is known of the attempt at a node.
type State uint8

const (
	Asked State = iota // an acquire is under way
	Ours               // the node has granted it
	Doubt              // it may have been granted, or may be yet
	Never              // it holds nothing there, and never will
)

// A Phase is how far an attempt has come.
type Phase uint8

const (
	Voting     Phase = iota
	Confirming       // a majority has granted different values
	Elected
	Ended // lost, failed or released: whatever is left at the nodes is being released
)

// An Outcome is what became of an attempt.
type Outcome uint8

const (
	Open        Outcome = iota
	Won                 // it holds a majority, and has a token
	Contended           // a majority answered, and other claims are in the way
	Outage              // too many nodes did not answer, or could not
	Unconfirmed         // it got the grants, and too few acknowledged the token
	TooLate             // it got all it needed when too little of the TTL was left
	Abandoned           // the caller did not want it any more
	Lost                // it was held, and too many nodes say that it is not any more
)

// String returns the outcome in words.
func (o Outcome) String() string {
	return [...]string{"open", "won", "contended", "outage", "unconfirmed", "too late", "abandoned", "lost"}[o]
}

// Allowance is how much of a TTL is given away to clocks of unequal rate, and to
// stores that count in whole milliseconds.
func Allowance(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// settling is how much later than asked for a node may still grant a request:
// what its clock and ours are thought to differ by.
const settling = 10 * time.Millisecond

// Candidate is the token that an attempt proposes, so that nodes whose counters
// differ agree on a value: seen is the last token known of the key, wall the
// time as the nodes have it.
func Candidate(seen uint64, wall time.Time) uint64 {
	return max(seen+1, uint64(max(1, wall.UnixMicro())))
}
