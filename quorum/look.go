package quorum

import (
	"context"
	"time"

	"github.com/pawlock/pawl/internal/ballot"
)

// How long a majority of the nodes is waited for, unless the caller's context is
// shorter.
const (
	lookTimeout = time.Second
	listTimeout = time.Minute
)

// A sight is what the nodes that answered see.
type sight[T any] struct {
	seen []T
	ok   []bool
	errs []error
}

// look asks all nodes, on goroutines that it starts with start, and returns what a
// majority sees. The others are given as long again, and lookTimeout if clear
// does not say that what they answer makes no difference.
func look[T any](ctx context.Context, b *Backend, op string, limit time.Duration, start func(func()), ask func(context.Context, *seat) (T, error), clear func(*sight[T]) bool) (*sight[T], error) {
	type answer struct {
		node int
		seen T
		err  error
	}
	began := b.now()
	answers := make(chan answer, len(b.seats))
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, s := range b.seats {
		start(func() {
			a := answer{node: i}
			_, a.err = s.ask(ballot.Find, func() (t time.Time, err error) {
				a.seen, err = ask(inner, s)
				return t, err
			})
			answers <- a
		})
	}
	s := &sight[T]{seen: make([]T, len(b.seats)), ok: make([]bool, len(b.seats)), errs: make([]error, len(b.seats))}
	end, patience := time.NewTimer(limit), time.NewTimer(limit)
	defer end.Stop()
	defer patience.Stop()
	verdicts := make([]ballot.Verdict, len(b.seats))
	for over, hurried := false, false; !over; {
		select {
		case a := <-answers:
			s.seen[a.node], s.ok[a.node], s.errs[a.node] = a.seen, a.err == nil, a.err
			if verdicts[a.node] = verdict(ballot.Find, a.err); a.err == nil && s.answers() == b.majority() {
				patience.Reset(max(b.now()-began, minPause))
			}
		case <-patience.C:
			hurried = true
			end.Reset(min(lookTimeout, began+limit-b.now()))
		case <-end.C:
			over = true
		case <-ctx.Done():
			if s.answers() < b.majority() {
				return nil, context.Cause(ctx)
			}
			over = true
		}
		over = over || s.pending() == 0 || s.failures() > len(b.seats)-b.majority() || hurried && clear(s)
	}
	if s.answers() < b.majority() {
		return nil, b.noMajority(op, "too few answered", verdicts, s.errs)
	}
	return s, nil
}

// answers returns how many nodes answered.
func (s *sight[T]) answers() int {
	n := 0
	for _, ok := range s.ok {
		if ok {
			n++
		}
	}
	return n
}

// failures returns how many nodes could not answer.
func (s *sight[T]) failures() int {
	n := 0
	for _, err := range s.errs {
		if err != nil {
			n++
		}
	}
	return n
}

// pending returns how many nodes have said nothing yet.
func (s *sight[T]) pending() int { return len(s.ok) - s.answers() - s.failures() }

// unowed starts what Close need not wait for.
func unowed(f func()) { go f() }
