package ballot

import "time"

// An Attempt is one nonce at all nodes. The times are on a clock that is never
// set back. Not safe for concurrent use.
type Attempt struct {
	seats     []seat
	sent      time.Duration // before the first request was
	notAfter  time.Duration // no node grants later than that
	ttl       time.Duration
	phase     Phase
	outcome   Outcome
	token     uint64
	impatient bool
	resumed   bool   // and no renewal has shown yet that the values are right
	release   *Round // of Release, nil before
}

// A seat is a node of an attempt.
type seat struct {
	state   State
	value   uint64  // if state is Ours
	vote    Verdict // on the election
	confirm Verdict // on the token
	asked   bool    // to confirm
	freeing bool    // a release was sent, or is due
	pending bool    // and not answered once
	renew   Request // to be sent once it has granted, if Round is set
}

// Begin starts an attempt on n nodes at the time sent, which nobody grants after
// notAfter, and returns it with what to send.
func Begin(n int, sent, notAfter, ttl time.Duration) (*Attempt, []Request) {
	a := &Attempt{seats: make([]seat, n), sent: sent, notAfter: notAfter, ttl: ttl}
	requests := make([]Request, n)
	for i := range requests {
		requests[i] = Request{Node: i, Op: Acquire, At: sent}
	}
	return a, requests
}

// Resume returns an attempt that was elected before, elsewhere: states and values
// as [Attempt.Seat] told them there. One that was Asked is in Doubt by now.
func Resume(token uint64, states []State, values []uint64) *Attempt {
	a := &Attempt{seats: make([]seat, len(states)), phase: Elected, outcome: Won, token: token, resumed: true}
	for i, s := range states {
		if s == Asked {
			s = Doubt
		}
		a.seats[i] = seat{state: s, value: values[i]}
	}
	return a
}

// Phase returns how far the attempt has come.
func (a *Attempt) Phase() Phase { return a.phase }

// Outcome returns what became of the attempt. It changes once, and once more if
// what was Won is Lost.
func (a *Attempt) Outcome() Outcome { return a.outcome }

// Token returns the token of an attempt that was Won.
func (a *Attempt) Token() uint64 { return a.token }

// Seat returns what is known of the attempt at a node, and what it granted.
func (a *Attempt) Seat(node int) (State, uint64) { return a.seats[node].state, a.seats[node].value }

// Vote returns what a node has said to the acquire.
func (a *Attempt) Vote(node int) Verdict { return a.seats[node].vote }

// Settled reports whether no node has, or will have, anything of the attempt.
func (a *Attempt) Settled() bool {
	for i := range a.seats {
		if a.seats[i].state != Never {
			return false
		}
	}
	return true
}

// Owing reports whether something of the attempt is still to be released
// somewhere.
func (a *Attempt) Owing() bool {
	for i := range a.seats {
		if s := &a.seats[i]; a.phase == Ended && (s.state == Asked || s.freeing && s.state != Never) {
			return true
		}
	}
	return false
}

// Waiting reports whether an acquire is still under way somewhere.
func (a *Attempt) Waiting() bool {
	for i := range a.seats {
		if a.seats[i].state == Asked {
			return true
		}
	}
	return false
}

// Answered reports whether a majority has said yes or no to the acquire: the
// rest need not be waited for much longer.
func (a *Attempt) Answered() bool {
	n := a.count()
	return n.granted+n.held >= Majority(len(a.seats))
}

// Acquired takes a node's answer to the acquire.
func (a *Attempt) Acquired(node int, ans Answer, now time.Duration) []Request {
	s := &a.seats[node]
	switch {
	case s.state == Never && (ans.Verdict != Yes || a.phase != Ended):
		return nil // what is over at a node never comes back
	case s.state == Ours && ans.Verdict != Yes:
		return nil // a second answer tells nothing of the first
	}
	s.vote = ans.Verdict
	if ans.Barred && ans.Verdict == Yes {
		s.vote = Refused
	}
	switch ans.Verdict {
	case Yes:
		s.state, s.value = Ours, ans.Value
	case Unknown:
		s.state = Doubt
	default:
		s.state = Never
	}
	switch {
	case a.phase == Ended:
		s.freeing = false // a grant may have overtaken the release
		return a.withdraw(now)
	case s.renew.Round != nil:
		return a.joins(node, now)
	}
	return a.decide(now)
}

// joins lets a node that has answered the acquire take part in the renewal that
// was sent meanwhile.
func (a *Attempt) joins(node int, now time.Duration) []Request {
	s := &a.seats[node]
	r := s.renew
	s.renew = Request{}
	switch s.state {
	case Ours:
		r.Value, r.At = s.value, now
		return []Request{r}
	case Never:
		return r.Round.Renewed(node, Answer{Verdict: Gone}, now)
	}
	return r.Round.Renewed(node, Answer{Verdict: Unknown}, now)
}

// Confirmed takes a node's answer to a confirmation.
func (a *Attempt) Confirmed(node int, ans Answer, now time.Duration) []Request {
	s := &a.seats[node]
	if s.confirm == Yes {
		return nil
	}
	s.confirm = ans.Verdict
	if ans.Verdict == Gone && s.state == Ours {
		s.state = Never
	}
	if ans.Barred {
		s.confirm = Refused
	}
	return a.decide(now)
}

// Overdue tells the attempt that it is notAfter: who has not answered yet is
// not waited for, but will be released.
func (a *Attempt) Overdue(now time.Duration) []Request {
	var next []Request
	for i := range a.seats {
		if s := &a.seats[i]; s.state == Asked {
			s.state, s.vote = Doubt, Unknown
			if s.renew.Round != nil {
				next = append(next, a.joins(i, now)...)
			}
		}
	}
	if a.phase == Ended {
		return append(next, a.withdraw(now)...)
	}
	return append(next, a.decide(now)...)
}

// Impatient tells the attempt that those who have not answered yet are not worth
// waiting for if the others can't agree.
func (a *Attempt) Impatient(now time.Duration) []Request {
	a.impatient = true
	return a.decide(now)
}

// Abandon ends the attempt because nobody wants it any more.
func (a *Attempt) Abandon(now time.Duration) []Request {
	if a.phase == Ended {
		return nil
	}
	return a.end(Abandoned, now)
}

// tally is how the votes stand.
type tally struct{ granted, held, silent, failed int }

func (a *Attempt) count() tally {
	var n tally
	for i := range a.seats {
		switch a.seats[i].vote {
		case Yes:
			n.granted++
		case Held:
			n.held++
		case Silent:
			n.silent++
		default:
			n.failed++
		}
	}
	return n
}

// decide goes on as soon as the votes leave no other way.
func (a *Attempt) decide(now time.Duration) []Request {
	quorum := Majority(len(a.seats))
	switch a.phase {
	case Voting:
		n := a.count()
		if token, ok := a.agreed(quorum); ok {
			return a.elect(token, now)
		}
		switch {
		case n.granted >= quorum:
			a.phase, a.token = Confirming, a.greatest()
			return a.confirm(now)
		case n.failed > len(a.seats)-quorum:
			return a.end(Outage, now)
		case n.granted+n.held >= quorum && (n.granted+n.silent < quorum || a.impatient):
			return a.end(Contended, now)
		}
	case Confirming:
		var acked, open int
		for i := range a.seats {
			switch s := &a.seats[i]; {
			case s.confirm == Yes:
				acked++
			case s.confirm == Silent && (s.asked || s.vote == Silent):
				open++
			}
		}
		switch {
		case acked >= quorum:
			return a.elect(a.token, now)
		case acked+open < quorum:
			return a.end(Unconfirmed, now)
		}
		return a.confirm(now)
	}
	return nil
}

// agreed returns the value that a majority has granted, if there is one.
func (a *Attempt) agreed(quorum int) (uint64, bool) {
	for i := range a.seats {
		same := 0
		for j := range a.seats {
			if a.seats[j].vote == Yes && a.seats[j].value == a.seats[i].value {
				same++
			}
		}
		if same >= quorum && a.seats[i].vote == Yes {
			return a.seats[i].value, true
		}
	}
	return 0, false
}

func (a *Attempt) greatest() (token uint64) {
	for i := range a.seats {
		if a.seats[i].vote == Yes {
			token = max(token, a.seats[i].value)
		}
	}
	return token
}

// confirm asks those who have granted and were not asked yet. Who has granted
// more than the token is of no use to it: the token has to be above what was
// granted before wherever it is confirmed.
func (a *Attempt) confirm(now time.Duration) []Request {
	var requests []Request
	for i := range a.seats {
		s := &a.seats[i]
		if s.vote == Yes && s.state == Ours && !s.asked && s.value <= a.token {
			s.asked = true
			requests = append(requests, Request{Node: i, Op: Confirm, Value: s.value, Floor: a.token, At: now})
		}
	}
	return requests
}

// elect makes the attempt a hold, unless its time is as good as over.
func (a *Attempt) elect(token uint64, now time.Duration) []Request {
	if now >= a.sent+a.ttl-Allowance(a.ttl) {
		return a.end(TooLate, now)
	}
	a.phase, a.outcome, a.token = Elected, Won, token
	return nil
}

func (a *Attempt) end(o Outcome, now time.Duration) []Request {
	a.phase, a.outcome = Ended, o
	return a.withdraw(now)
}

// withdraw releases what the nodes have of the attempt, those that were not
// sent a release yet. Who is still Asked comes by when he has answered.
func (a *Attempt) withdraw(now time.Duration) []Request {
	var requests []Request
	for i := range a.seats {
		s := &a.seats[i]
		if s.freeing {
			continue
		}
		switch s.state {
		case Ours:
			requests = append(requests, Request{Node: i, Op: Release, Value: s.value, At: now})
		case Doubt:
			requests = append(requests, Request{Node: i, Op: Release, At: max(now, a.notAfter+settling)})
		default:
			continue
		}
		s.freeing, s.pending = true, true
	}
	return requests
}

// Left returns how many nodes have, or may have, something of the attempt.
func (a *Attempt) Left() int {
	left := 0
	for i := range a.seats {
		if a.seats[i].state != Never {
			left++
		}
	}
	return left
}

// Has reports whether a node has, or may have, something of the attempt.
func (a *Attempt) Has(node int) bool { return a.seats[node].state != Never }

// Backs reports whether a node is one of the majority that stands for the token:
// it granted that very value, or has acknowledged it.
func (a *Attempt) Backs(node int) bool {
	s := &a.seats[node]
	return s.vote == Yes && s.value == a.token || s.confirm == Yes
}

// Acknowledged reports whether a node has confirmed the token.
func (a *Attempt) Acknowledged(node int) bool { return a.seats[node].confirm == Yes }
