package ballot_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pawlock/pawl/internal/ballot"
)

const (
	ttl      = 10 * time.Second
	deadline = time.Second
)

func yes(value uint64) ballot.Answer { return ballot.Answer{Verdict: ballot.Yes, Value: value} }

var (
	held    = ballot.Answer{Verdict: ballot.Held}
	gone    = ballot.Answer{Verdict: ballot.Gone}
	refused = ballot.Answer{Verdict: ballot.Refused}
	unknown = ballot.Answer{Verdict: ballot.Unknown}
	barred  = ballot.Answer{Verdict: ballot.Yes, Value: 10, Barred: true}
)

// The answers decide as soon as the rest can't change anything, and not before.
func TestAnElectionIsDecidedAsSoonAsItCanBe(t *testing.T) {
	for _, test := range []struct {
		name    string
		nodes   int
		answers []ballot.Answer // in the order they come; from the first node on
		want    ballot.Outcome
		at      int // the answer that decides it; one more than there are for none
	}{
		{"all agree", 5, []ballot.Answer{yes(10), yes(10), yes(10), yes(10), yes(10)}, ballot.Won, 3},
		{"a majority agrees", 5, []ballot.Answer{yes(10), held, yes(10), unknown, yes(10)}, ballot.Won, 5},
		{"another holds", 5, []ballot.Answer{held, held, held}, ballot.Contended, 3},
		{"another holds and some grant", 5, []ballot.Answer{yes(10), held, yes(10), held, held}, ballot.Contended, 5},
		{"too few left", 5, []ballot.Answer{refused, unknown, refused}, ballot.Outage, 3},
		{"an outage is no contention", 5, []ballot.Answer{held, held, unknown, refused, refused}, ballot.Outage, 5},
		{"contention is no outage", 5, []ballot.Answer{unknown, unknown, held, held, held}, ballot.Contended, 5},
		{"a barred grant is no vote", 3, []ballot.Answer{barred, yes(10), refused}, ballot.Outage, 3},
		{"one node", 1, []ballot.Answer{yes(10)}, ballot.Won, 1},
		{"nothing yet", 3, []ballot.Answer{yes(10), held}, ballot.Open, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, requests := ballot.Begin(test.nodes, 0, deadline, ttl)
			if len(requests) != test.nodes {
				t.Errorf("requests at first: got %d, want one for each of %d nodes", len(requests), test.nodes)
			}
			for i, ans := range test.answers {
				a.Acquired(i, ans, 0)
				want := ballot.Open
				if i+1 >= test.at {
					want = test.want
				}
				if got := a.Outcome(); got != want {
					t.Errorf("after %d answers: got %v, want %v", i+1, got, want)
				}
			}
		})
	}
}

// Values that differ are confirmed, by Q of those who granted no more.
func TestValuesThatDifferAreConfirmed(t *testing.T) {
	a, _ := ballot.Begin(5, 0, deadline, ttl)
	a.Acquired(0, yes(30), 0)
	a.Acquired(1, yes(10), 0)
	requests := a.Acquired(2, yes(20), 0)
	if len(requests) != 3 {
		t.Fatalf("requests after three grants: got %v, want three confirmations", requests)
	}
	for i, value := range []uint64{30, 10, 20} {
		if r := requests[i]; r.Op != ballot.Confirm || r.Node != i || r.Value != value || r.Floor != 30 {
			t.Errorf("request %d: got %+v, want a confirmation of %d with the floor 30", i, r, value)
		}
	}
	if got := a.Acquired(3, yes(40), 0); len(got) != 0 {
		t.Errorf("requests after a late grant above the token: got %v, want none", got)
	}
	if got := a.Acquired(4, yes(25), 0); len(got) != 1 || got[0].Node != 4 {
		t.Errorf("requests after a late grant below the token: got %v, want one more confirmation", got)
	}
	a.Confirmed(0, yes(0), 0)
	a.Confirmed(1, gone, 0)
	a.Confirmed(2, yes(0), 0)
	if a.Outcome() != ballot.Open {
		t.Errorf("after two acknowledgements: got %v, want open", a.Outcome())
	}
	a.Confirmed(4, yes(0), 0)
	if a.Outcome() != ballot.Won || a.Token() != 30 {
		t.Errorf("after three: got %v with %d, want won with 30", a.Outcome(), a.Token())
	}
}

// What was won too late was not won.
func TestAnElectionThatTookTooLongIsNone(t *testing.T) {
	last := ttl - ballot.Allowance(ttl)
	for _, test := range []struct {
		at   time.Duration
		want ballot.Outcome
	}{{last - 1, ballot.Won}, {last, ballot.TooLate}} {
		a, _ := ballot.Begin(3, 0, deadline, ttl)
		a.Acquired(0, yes(10), 0)
		requests := a.Acquired(1, yes(10), test.at)
		if a.Outcome() != test.want {
			t.Errorf("at %v: got %v, want %v", test.at, a.Outcome(), test.want)
		}
		if test.want == ballot.TooLate && len(requests) != 2 {
			t.Errorf("requests: got %v, want two releases", requests)
		}
	}
}

// Renewals are counted out of all nodes: who never granted can't make up for one
// that has lost the hold.
func TestARenewalIsCountedOutOfAllNodes(t *testing.T) {
	for _, test := range []struct {
		name    string
		answers []ballot.Answer // of the three that granted, of five
		want    ballot.Result
	}{
		{"all renew", []ballot.Answer{yes(0), yes(0), yes(0)}, ballot.Carried},
		{"one has lost it", []ballot.Answer{yes(0), gone, yes(0)}, ballot.Denied},
		{"one has no vote", []ballot.Answer{yes(0), yes(0), barred}, ballot.Denied},
		{"one does not answer", []ballot.Answer{yes(0), yes(0), unknown}, ballot.Failed},
		{"one answers later", []ballot.Answer{yes(0), yes(0)}, ballot.Pending},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, _ := ballot.Begin(5, 0, deadline, ttl)
			a.Acquired(3, held, 0)
			a.Acquired(4, refused, 0)
			for i := range 3 {
				a.Acquired(i, yes(10), 0)
			}
			round, requests := a.Renew(0, 0)
			if len(requests) != 3 {
				t.Fatalf("requests: got %v, want three", requests)
			}
			for i, ans := range test.answers {
				round.Renewed(i, ans, 0)
			}
			if got := round.Result(); got != test.want {
				t.Errorf("result: got %v, want %v", got, test.want)
			}
			if lost := a.Outcome() == ballot.Lost; lost != (test.want == ballot.Denied) {
				t.Errorf("outcome of the attempt: got %v", a.Outcome())
			}
		})
	}
}

// Whatever is answered in whatever order, each node that may have something in
// the end is sent a release, and none before it can be of use.
func TestEveryNodeThatMayHaveSomethingIsReleased(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 0))
		n := 3 + 2*r.IntN(2)
		a, pending := ballot.Begin(n, 0, deadline, ttl)
		released := make([]bool, n)
		has := make([]bool, n) // what the nodes really have
		asked := make([]bool, n)
		for i := range asked {
			asked[i] = true
		}
		now := time.Duration(0)
		ended := false
		for step := 0; step < 200 && (len(pending) > 0 || !ended); step++ {
			now += time.Duration(r.IntN(100)) * time.Millisecond
			if now > deadline+20*time.Millisecond {
				pending = append(pending, a.Overdue(now)...)
			}
			if !ended && (len(pending) == 0 || r.IntN(12) == 0) {
				ended = true
				_, more := a.Release(now)
				pending = append(pending, more...)
				continue
			}
			if len(pending) == 0 {
				continue
			}
			i := r.IntN(len(pending))
			req := pending[i]
			pending = append(pending[:i], pending[i+1:]...)
			v := []ballot.Verdict{ballot.Yes, ballot.Yes, ballot.Held, ballot.Refused, ballot.Unknown}[r.IntN(5)]
			switch req.Op {
			case ballot.Acquire:
				has[req.Node] = now <= deadline && (v == ballot.Yes || v == ballot.Unknown && r.IntN(2) == 0)
				if v == ballot.Yes && !has[req.Node] {
					v = ballot.Refused
				}
				asked[req.Node] = false
				pending = append(pending, a.Acquired(req.Node, ballot.Answer{Verdict: v, Value: uint64(1 + r.IntN(3))}, now)...)
			case ballot.Confirm:
				pending = append(pending, a.Confirmed(req.Node, ballot.Answer{Verdict: v}, now)...)
			case ballot.Release:
				if asked[req.Node] && now <= deadline {
					t.Fatalf("seed %d: a release was sent to node %d at %v, with its acquire under way", seed, req.Node, now)
				}
				now = max(now, req.At)
				has[req.Node], released[req.Node] = false, true
				a.Released(req.Node, yes(0))
			}
			if o := a.Outcome(); o != ballot.Open && o != ballot.Won {
				ended = true
			}
		}
		for i := range has {
			if has[i] {
				t.Fatalf("seed %d: node %d still has the attempt, which is %v", seed, i, a.Outcome())
			}
		}
	}
}

// A clock is judged by what it shows, and how long the answer took.
func TestAStepIsTold(t *testing.T) {
	base := time.UnixMicro(1_700_000_000_000_000)
	at := func(d time.Duration) time.Time { return base.Add(d) }
	const s = time.Second
	for _, test := range []struct {
		name       string
		now        time.Time
		sent, came time.Duration
		want       bool
	}{
		{"on time", at(10 * s), 10 * s, 10 * s, false},
		{"a little fast", at(10*s + 340*time.Millisecond), 10 * s, 10 * s, false},
		{"set ahead", at(10*s + 360*time.Millisecond), 10 * s, 10 * s, true},
		{"set back", at(9 * s), 10 * s, 10 * s, true},
		{"a slow answer", at(10 * s), 10 * s, 14 * s, false},
		{"a slow request", at(14 * s), 10 * s, 14 * s, false},
		{"a slow answer of a clock set back", at(9 * s), 10 * s, 14 * s, true},
		{"no time", time.Time{}, 10 * s, 10 * s, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c ballot.Clock
			c.Observe(base, 0, 0, s)
			if _, got := c.Observe(test.now, test.sent, test.came, s); got != test.want {
				t.Errorf("step: got %v, want %v", got, test.want)
			}
			if got := c.Barred(test.came + s - 1); got != test.want {
				t.Errorf("barred: got %v, want %v", got, test.want)
			}
			if c.Barred(test.came + s) {
				t.Errorf("barred for longer than asked")
			}
		})
	}
}
