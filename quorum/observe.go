package quorum

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/ballot"
)

// An Observer is told what the nodes of a quorum do. A nil func is off. The
// funcs are called from the goroutine that the event happens on: they must
// return soon, may be called concurrently, and must not call the backend.
type Observer struct {
	// Decided is told the votes on every acquire, renewal and release as they
	// were when it was decided, stragglers not included.
	Decided func(Decision)

	// Trouble is told each failure of a node.
	Trouble func(node, op string, err error)
}

// A Decision is what the nodes made of a request.
type Decision struct {
	Op      string // acquire, renew, release
	Key     string
	Outcome string // won, contended, outage, …
	Rounds  int    // exchanges that it took; an acquire takes 1 if a majority granted the same token
	Took    time.Duration
	Votes   []Vote
}

// A Vote is what a node has said.
type Vote struct {
	Node   string
	Said   string // yes, held, gone, refused, unknown; silent if nothing yet
	Err    error  // if it did not say yes
	InARow int    // how many of the node's last requests have failed, one after the other
}

// NodeStats are what became of the requests to a node.
type NodeStats struct {
	Asked, Failed uint64
	InARow        int   // failures since it answered last
	LastError     error // nil if there was none
	LastTook      time.Duration
}

// Stats returns the statistics of all nodes, by name.
func (b *Backend) Stats() map[string]NodeStats {
	stats := make(map[string]NodeStats)
	for _, s := range b.seats {
		s.mu.Lock()
		stats[s.Name] = s.stats
		s.mu.Unlock()
	}
	return stats
}

func (o *Observer) trouble(node, op string, err error) {
	if o.Trouble != nil {
		o.Trouble(node, op, err)
	}
}

// A NoMajorityError says that too few nodes could answer, and what each said.
// It is never an ErrHeld. errors.Is(err, driver.ErrRefused) holds if so many nodes
// are known to have done nothing that the others are no majority.
type NoMajorityError struct {
	Op    string
	Need  int // nodes that make a majority
	Why   string
	Votes []Vote
}

// Error implements the error interface.
func (e *NoMajorityError) Error() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s: no majority: %s, %d of %d nodes are needed", e.Op, e.Why, e.Need, len(e.Votes))
	for _, v := range e.Votes {
		if v.Err != nil {
			fmt.Fprintf(&s, "; %s: %v", v.Node, v.Err)
		} else {
			fmt.Fprintf(&s, "; %s: %s", v.Node, v.Said)
		}
		if v.InARow > 1 {
			fmt.Fprintf(&s, " (%d failures in a row)", v.InARow)
		}
	}
	return s.String()
}

// Is makes errors.Is(err, driver.ErrRefused) hold if nothing was done.
func (e *NoMajorityError) Is(target error) bool {
	if target != driver.ErrRefused {
		return false
	}
	refused := 0
	for _, v := range e.Votes {
		if v.Said == said(ballot.Refused) {
			refused++
		}
	}
	return refused > len(e.Votes)-e.Need
}

func said(v ballot.Verdict) string {
	return [...]string{"silent", "yes", "held", "gone", "refused", "unknown"}[v]
}

// votes returns the votes v, with what the nodes said last.
func (b *Backend) votes(v []ballot.Verdict, errs []error) []Vote {
	votes := make([]Vote, len(v))
	for i, s := range b.seats {
		votes[i] = Vote{Node: s.Name, Said: said(v[i]), Err: errs[i]}
		if v[i] != ballot.Yes {
			s.mu.Lock()
			votes[i].InARow = s.stats.InARow
			s.mu.Unlock()
		}
	}
	return votes
}

// noMajority is the error for votes that decide nothing. If the nodes agree that
// the request itself is at fault, that is it.
func (b *Backend) noMajority(op, why string, verdicts []ballot.Verdict, errs []error) error {
	var fault error
	faults := 0
	for _, err := range errs {
		if errors.Is(err, driver.ErrUnsupported) || errors.Is(err, driver.ErrInvalid) {
			fault = err
			faults++
		}
	}
	if faults > len(errs)-b.majority() {
		return fault
	}
	return &NoMajorityError{Op: op, Need: b.majority(), Why: why, Votes: b.votes(verdicts, errs)}
}
