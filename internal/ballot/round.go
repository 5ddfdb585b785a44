package ballot

import "time"

// A Round is a renewal or the release of an attempt that was elected: the votes
// of its nodes.
type Round struct {
	attempt   *Attempt
	votes     []Verdict // Yes, Gone, Unknown; Silent if it is to come
	release   bool
	impatient bool
}

// A Result is how the votes of a [Round] stand.
type Result uint8

const (
	Pending Result = iota
	Carried        // a majority did it
	Denied         // so many don't have the hold that no majority is left
	Failed         // neither, and nobody is left to answer
)

// Result returns how the votes stand. It is final unless Pending.
func (r *Round) Result() Result {
	minority := len(r.votes) - Majority(len(r.votes))
	var yes, gone, silent int
	for _, v := range r.votes {
		switch v {
		case Yes:
			yes++
		case Gone:
			gone++
		case Silent:
			silent++
		}
	}
	switch {
	case gone > minority:
		return Denied
	case r.release && r.attempt.Left() <= minority && (gone+silent <= minority || r.impatient):
		return Carried // what may be left keeps nobody from a majority
	case r.release && silent == 0 && !r.attempt.undecided():
		return Failed
	case r.release:
		return Pending
	case yes > minority:
		return Carried
	case yes+silent <= minority && gone+silent <= minority:
		return Failed
	}
	return Pending
}

// Impatient tells a release that those who have not confirmed are not worth
// waiting for, if the others have.
func (r *Round) Impatient() { r.impatient = true }

// Open reports whether an answer is still to come.
func (r *Round) Open() bool {
	for _, v := range r.votes {
		if v == Silent {
			return true
		}
	}
	return false
}

// Votes returns the votes, by node.
func (r *Round) Votes() []Verdict { return r.votes }

// Renew starts a renewal of the hold, and raises the counters to floor if that
// is above the token. A node in Doubt is asked first what it has, and one that
// has not answered yet as soon as it has. One that never granted counts as one
// that has not the hold any more.
func (a *Attempt) Renew(floor uint64, now time.Duration) (*Round, []Request) {
	r := &Round{attempt: a, votes: make([]Verdict, len(a.seats))}
	var requests []Request
	for i := range a.seats {
		switch s := &a.seats[i]; {
		case a.phase != Elected || s.state == Never:
			r.votes[i] = Gone
		case s.state == Asked:
			if s.renew.Round != nil {
				s.renew.Round.votes[i] = Unknown
			}
			s.renew = Request{Node: i, Op: Renew, Floor: max(a.token, floor), Round: r}
		case s.state == Doubt:
			requests = append(requests, Request{Node: i, Op: Find, Floor: max(a.token, floor), At: now, Round: r})
		default:
			requests = append(requests, Request{Node: i, Op: Renew, Value: s.value, Floor: max(a.token, floor), At: now, Round: r})
		}
	}
	return r, requests
}

// Renewed takes a node's answer to a renewal of the round. A node that has
// granted more than the token is kept, and has no vote: it may have granted
// after somebody else had a lease and ended it, as when the acquire came late.
// So once another has been elected no renewal is carried, whatever the clocks do.
func (r *Round) Renewed(node int, ans Answer, now time.Duration) []Request {
	a := r.attempt
	switch s := &a.seats[node]; {
	case ans.Verdict == Gone:
		s.state = Never // also if the round is long over: nothing ever comes back
		r.votes[node] = Gone
	case ans.Verdict == Yes && (ans.Barred || s.value > a.token):
		r.votes[node] = Gone
	case ans.Verdict == Yes:
		r.votes[node] = Yes
	default:
		r.votes[node] = Unknown
	}
	switch result := r.Result(); {
	case result == Carried:
		a.resumed = false
	case result == Denied && a.phase == Elected && a.resumed:
		// Whoever has the values wrong must not end a hold that others go on with.
		a.phase, a.outcome = Ended, Lost
	case result == Denied && a.phase == Elected:
		return a.end(Lost, now)
	}
	return nil
}

// Found takes the answer of a node that was asked what it has.
func (r *Round) Found(node int, ans Answer, req Request, now time.Duration) []Request {
	a := r.attempt
	s := &a.seats[node]
	switch {
	case ans.Verdict == Yes && a.phase == Ended:
		r.votes[node] = Unknown
		return nil // it is being released
	case ans.Verdict == Yes && s.state != Never:
		s.state, s.value = Ours, ans.Value
		return []Request{{Node: node, Op: Renew, Value: s.value, Floor: req.Floor, At: now, Round: r}}
	case ans.Verdict == Gone && now > a.notAfter+settling:
		return r.Renewed(node, ans, now) // and it can't come any more
	}
	r.votes[node] = Unknown
	return nil
}

// Release ends the attempt. The round is Carried once what the nodes may still
// have of it can't keep others from a majority, and Denied if it had been lost
// before. If Release is called again it asks those who have not confirmed.
func (a *Attempt) Release(now time.Duration) (*Round, []Request) {
	if a.release == nil {
		a.release = &Round{attempt: a, votes: make([]Verdict, len(a.seats)), release: true}
		for i := range a.seats {
			switch a.seats[i].state {
			case Never:
				a.release.votes[i] = Gone
			case Ours:
			default:
				a.release.votes[i] = Unknown // a release where nothing was granted proves nothing
			}
		}
	}
	if a.phase != Ended {
		a.phase, a.outcome = Ended, Abandoned
	}
	for i := range a.seats {
		if s := &a.seats[i]; s.state == Ours && a.release.votes[i] != Yes {
			s.freeing, a.release.votes[i] = false, Silent
		}
	}
	return a.release, a.withdraw(now)
}

// undecided reports whether a node may still tell what it has without being
// asked again.
func (a *Attempt) undecided() bool {
	for i := range a.seats {
		if s := &a.seats[i]; s.state == Asked || s.state != Never && s.pending {
			return true
		}
	}
	return false
}

// Released takes a node's answer to a release. One that did not confirm has to
// be asked again by the caller, until it does or the hold has expired.
func (a *Attempt) Released(node int, ans Answer) {
	s := &a.seats[node]
	s.pending = false
	vote := Unknown
	switch ans.Verdict {
	case Yes, Gone:
		vote = ans.Verdict
		if s.state != Ours && vote == Yes {
			vote = Unknown
		}
		if s.state != Asked {
			s.state = Never
		}
	}
	if a.release != nil && a.release.votes[node] == Silent {
		a.release.votes[node] = vote
	}
}

// Expire tells the attempt that whatever it had at a node has ended by itself.
func (a *Attempt) Expire(node int) { a.seats[node].state = Never }
