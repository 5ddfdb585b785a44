package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/ballot"
)

// A seat is a node in the quorum, and what is known of it.
type seat struct {
	Node
	quorum *Backend
	index  int

	mu       sync.Mutex // never held across I/O
	clock    ballot.Clock
	waiting  int           // requests without an answer
	answered time.Duration // when the last answer came, or the first of those that wait was sent
	stats    NodeStats
	probed   bool          // and found fit
	unfit    error         // or why not
	again    time.Duration // when it is probed again
	probing  bool          // in the background
	sweep    sweep
}

// A node that has let so many requests wait for so long is not sent any more for
// now: they would wait for its connections, and for nothing.
const (
	patienceRequests = 8
	patienceTime     = 250 * time.Millisecond
)

var errSilent = fmt.Errorf("%w: not asked, since it has not answered others", driver.ErrRefused)

// ask runs one exchange with the node and returns its answer as a vote. f
// returns what the node's clock showed.
func (s *seat) ask(op ballot.Op, f func() (time.Time, error)) (ans ballot.Answer, err error) {
	b := s.quorum
	s.mu.Lock()
	sent := b.now()
	if s.waiting == 0 {
		s.answered = sent
	}
	if s.waiting >= patienceRequests && sent-s.answered > patienceTime {
		s.mu.Unlock()
		return ballot.Answer{Verdict: ballot.Refused}, errSilent
	}
	s.waiting++
	s.stats.Asked++
	s.mu.Unlock()

	wall, err := f()
	came := b.now()
	ans.Verdict = verdict(op, err)
	if held := (*driver.HeldError)(nil); errors.As(err, &held) {
		wall = held.Now
	}

	s.mu.Lock()
	s.waiting--
	spoke := ans.Verdict != ballot.Unknown && (ans.Verdict != ballot.Refused || !wall.IsZero())
	if spoke {
		s.answered = came
	}
	by, stepped := s.clock.Observe(wall, sent, came, b.traits.MaxTTL)
	ans.Barred = s.clock.Barred(came)
	s.note(ans.Verdict, err, came-sent)
	s.mu.Unlock()
	if op == ballot.Acquire && err == nil && !ans.Barred {
		ans.Barred = s.skewed(b.clocks())
	}

	if stepped {
		b.opts.Observer.trouble(s.Name, "clock", errStepped)
		b.steps.note(b, s, came, by)
	}
	if ans.Verdict == ballot.Unknown || ans.Verdict == ballot.Refused {
		b.opts.Observer.trouble(s.Name, op.String(), err)
	}
	return ans, err
}

var (
	errStepped = errors.New("its clock was set: it has no vote until every lease of before has ended")
	errBarred  = errors.New("its clock was set not long ago, or is far from the others': it has no vote")
)

// note keeps the statistics. mu is held.
func (s *seat) note(v ballot.Verdict, err error, took time.Duration) {
	switch v {
	case ballot.Unknown, ballot.Refused:
		s.stats.Failed++
		s.stats.InARow++
		s.stats.LastError = err
		if v == ballot.Unknown {
			s.probed = false // it may be another server when it comes back
		}
	default:
		s.stats.InARow = 0
		s.stats.LastTook = took
	}
}

// verdict sorts what a node has said.
func verdict(op ballot.Op, err error) ballot.Verdict {
	switch {
	case err == nil:
		return ballot.Yes
	case errors.Is(err, driver.ErrHeld):
		return ballot.Held
	case errors.Is(err, driver.ErrLost):
		return ballot.Gone
	case errors.Is(err, driver.ErrRefused), errors.Is(err, driver.ErrUnsupported), errors.Is(err, driver.ErrInvalid):
		return ballot.Refused
	}
	return ballot.Unknown
}

// fit reports whether the node may vote on new claims, probing it if it has not
// answered since it was probed last.
func (s *seat) fit(ctx context.Context) error {
	if s.Probe == nil {
		return nil
	}
	s.mu.Lock()
	probed, unfit, again := s.probed, s.unfit, s.again
	s.mu.Unlock()
	switch {
	case unfit != nil && s.quorum.now() < again:
		return unfit
	case probed && unfit == nil:
		return nil
	}
	return s.probe(ctx)
}

// A node that is used is probed again now and then, so that it knows its
// configuration for as long as a client lives that has leases there.
const (
	probeEvery = time.Minute
	probeUnfit = time.Second
)

// probe asks the node what it is.
func (s *seat) probe(ctx context.Context) error {
	b := s.quorum
	facts, err := s.Probe(ctx, b.config)
	if err == nil {
		err = b.server.check(s, facts)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probed = err == nil
	s.unfit = nil
	s.again = b.now() + probeEvery
	if errors.Is(err, errUnfit) {
		s.unfit, s.again = err, b.now()+probeUnfit
	}
	return err
}

// refresh probes a node that was found fit, if that is a while ago. Nobody waits
// for it.
func (s *seat) refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Probe == nil || !s.probed || s.probing || s.quorum.now() < s.again {
		return
	}
	s.probing = true
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		defer cancel()
		err := s.probe(ctx)
		s.mu.Lock()
		s.probing = false
		s.mu.Unlock()
		if err != nil {
			s.quorum.opts.Observer.trouble(s.Name, "probe", err)
		}
	}()
}

// errUnfit says that a server can't be a node of this quorum.
var errUnfit = fmt.Errorf("%w: unfit to be a node", driver.ErrRefused)

// servers knows which node runs on which server.
type servers struct {
	mu   sync.Mutex
	name map[string]*seat // by Facts.Server; guarded by mu
}

// check finds what makes the server of s unfit.
func (v *servers) check(s *seat, f Facts) error {
	switch {
	case f.Replica:
		return fmt.Errorf("%w: it is a replica, which may hold what its master has forgotten", errUnfit)
	case f.Cluster:
		return fmt.Errorf("%w: it is a part of a cluster, which moves keys to other servers", errUnfit)
	case f.Config != "" && f.Config != s.quorum.config:
		return fmt.Errorf("%w: it serves clients with other nodes or another MaxTTL (configuration %s, here %s): majorities of theirs and ours need not meet", errUnfit, f.Config, s.quorum.config)
	case f.Server == "":
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.name == nil {
		v.name = make(map[string]*seat)
	}
	if other := v.name[f.Server]; other != nil && other != s {
		return fmt.Errorf("%w: it is the same server as %s", errUnfit, other.Name)
	}
	for id, owner := range v.name {
		if owner == s {
			delete(v.name, id)
		}
	}
	v.name[f.Server] = s
	return nil
}

// probeAll asks all nodes what they are, and returns why one is unfit.
func (b *Backend) probeAll() error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	type result struct {
		seat *seat
		err  error
	}
	results := make(chan result, len(b.seats))
	var all sync.WaitGroup
	asked := 0
	for _, s := range b.seats {
		if s.Probe == nil {
			continue
		}
		asked++
		all.Add(1)
		go func() {
			defer all.Done()
			results <- result{s, s.fit(ctx)}
		}()
	}
	go func() {
		all.Wait()
		cancel()
	}()
	timer := time.NewTimer(probeTimeout)
	defer timer.Stop()
	for range asked {
		select {
		case r := <-results:
			if errors.Is(r.err, errUnfit) {
				b.crew.close(0)
				return &driver.FieldError{Field: "Nodes", Why: "have " + r.seat.Name + ": " + r.err.Error()}
			}
		case <-timer.C:
			return nil // whoever is late is probed before its first vote
		}
	}
	return nil
}

// lastSeen remembers the last token of keys whose counters run ahead of the
// clock. Of all others the clock is the better candidate.
type lastSeen struct {
	mu    sync.Mutex
	token map[string]uint64 // guarded by mu
}

// maxSeen bounds what is remembered: a key forgotten costs a second round.
const maxSeen = 4096

func (l *lastSeen) get(key string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token[key]
}

func (l *lastSeen) note(key string, token uint64, wall time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token < uint64(max(0, wall.UnixMicro())) || token <= l.token[key] {
		return
	}
	if l.token == nil {
		l.token = make(map[string]uint64)
	}
	if len(l.token) >= maxSeen {
		clear(l.token)
	}
	l.token[key] = token
}
