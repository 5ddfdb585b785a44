package quorum

import (
	"slices"
	"sync"
	"time"
)

// A consensus is what the nodes' clocks say together.
type consensus struct {
	ahead time.Duration // of the clock that Backend.now reads: the middle of them
	known int           // nodes whose clock is known
}

func (b *Backend) clocks() consensus {
	var room [16]time.Duration
	known := room[:0]
	for _, s := range b.seats {
		s.mu.Lock()
		lo, hi, ok := s.clock.Ahead()
		s.mu.Unlock()
		if ok {
			known = append(known, lo+(hi-lo)/2)
		}
	}
	if len(known) == 0 {
		return consensus{}
	}
	slices.Sort(known)
	return consensus{known[len(known)/2], len(known)}
}

// time returns the time as the nodes have it, which is ours until one has
// answered.
func (b *Backend) time(c consensus) time.Time {
	if c.known == 0 {
		return time.Now()
	}
	return time.Unix(0, int64(b.now()+c.ahead))
}

// skewed reports whether the node's clock is too far from the others'. It takes
// a majority to tell who is wrong.
func (s *seat) skewed(c consensus) bool {
	s.mu.Lock()
	lo, hi, ok := s.clock.Ahead()
	s.mu.Unlock()
	return ok && c.known >= s.quorum.majority() && max(lo-c.ahead, c.ahead-hi) > s.quorum.opts.MaxSkew
}

// steps are the clocks that were set not long ago.
type steps struct {
	mu     sync.Mutex
	recent []step // guarded by mu
}

type step struct {
	seat *seat
	at   time.Duration
	by   time.Duration
}

// Clocks of different machines are not set by the same time at the same moment.
const (
	sameMoment = 10 * time.Second
	sameStep   = 250 * time.Millisecond
)

// note takes down that the clock of s was set. If those of a majority were, all
// by the same, it was ours that stood still, as it does when the machine is
// suspended: leases of that time are lost, and the nodes are as good as before.
func (x *steps) note(b *Backend, s *seat, at, by time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.recent = slices.DeleteFunc(x.recent, func(o step) bool { return o.seat == s || at-o.at > sameMoment })
	x.recent = append(x.recent, step{s, at, by})
	var alike []*seat
	for _, o := range x.recent {
		if (o.by - by).Abs() <= sameStep {
			alike = append(alike, o.seat)
		}
	}
	if len(alike) < b.majority() {
		return
	}
	for _, s := range alike {
		s.mu.Lock()
		s.clock.Pardon()
		s.mu.Unlock()
	}
}
