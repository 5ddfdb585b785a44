package sim_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pawlock/pawl/sim"
)

const (
	a = 0 // the clients
	b = 1

	ms = time.Millisecond
)

// A schedule is a counterexample to a mistake: played move by move it breaks the
// property for the mutant, and nothing for the protocol.
type schedule struct {
	name     string
	mutant   sim.Mutant
	counters []uint64 // of the nodes; none: three nodes, with clocks
	property string
	play     func(*sim.Stage)
}

var schedules = []schedule{
	{"the greatest value is taken unconfirmed", sim.Mutant{NoWriteBack: true}, []uint64{29, 9, 9}, sim.P2, func(s *sim.Stage) {
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1) // 30 and 10
		s.Drop(a, sim.Acquire, 2)
		s.Drop(a, sim.Confirm, 0, 1)
		s.Release(a)
		s.Pass(700 * ms)
		s.Settle()
		s.Acquire(b)
		s.Drop(b, sim.Acquire, 0)
		s.Settle() // 11 and 10
	}},
	{"a majority of those that granted confirms", sim.Mutant{HalfOfGranters: true}, []uint64{29, 9, 9, 10, 10}, sim.P2, func(s *sim.Stage) {
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1, 2) // 30, 10 and 10
		s.Drop(a, sim.Acquire, 3, 4)
		s.Deliver(a, sim.Confirm, 0, 1)
		s.Drop(a, sim.Confirm, 2)
		s.Release(a)
		s.Pass(700 * ms)
		s.Settle()
		s.Acquire(b)
		s.Drop(b, sim.Acquire, 0, 1)
		s.Settle() // 11, 11 and 11
	}},
	{"nodes that did not grant confirm", sim.Mutant{NonGranterAcks: true}, []uint64{29, 9, 10, 4, 4}, sim.P3, func(s *sim.Stage) {
		s.Acquire(b)
		s.Deliver(b, sim.Acquire, 3, 4) // 5 and 5
		s.Drop(b, sim.Acquire, 0, 1)
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1, 2) // 30, 10 and 11
		s.Drop(a, sim.Acquire, 3, 4)
		s.Deliver(a, sim.Confirm, 0, 1, 3)
		s.Drop(a, sim.Confirm, 2, 4)
		s.Release(a)
		s.Deliver(a, sim.Release, 0, 1, 2)
		s.Pass(10 * ms)
		s.Deliver(b, sim.Acquire, 2) // 12, the greatest that b has
		s.Settle()
	}},
	{"a counter is raised whoever holds", sim.Mutant{UnconditionalConfirm: true}, []uint64{29, 9, 10}, sim.P3, func(s *sim.Stage) {
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1) // 30 and 10
		s.Drop(a, sim.Acquire, 2)
		s.Delete(1)
		s.Acquire(b)
		s.Drop(b, sim.Acquire, 0)
		s.Deliver(b, sim.Acquire, 1, 2) // 11 and 11
		s.Deliver(a, sim.Confirm, 0, 1)
		s.Write(a)
		s.Write(b)
	}},
	{"a counter is raised whoever holds, and two have one token", sim.Mutant{UnconditionalConfirm: true}, []uint64{29, 9, 29}, sim.P1, func(s *sim.Stage) {
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1) // 30 and 10
		s.Drop(a, sim.Acquire, 2)
		s.Delete(1)
		s.Acquire(b)
		s.Drop(b, sim.Acquire, 0)
		s.Deliver(b, sim.Acquire, 1, 2) // 11 and 30
		s.Deliver(b, sim.Confirm, 1, 2)
		s.Deliver(a, sim.Confirm, 0, 1) // 30 too
	}},
	{"the time that it took is not looked at", sim.Mutant{NoRecheck: true}, nil, sim.P4, func(s *sim.Stage) {
		s.Acquire(a)
		s.Arrive(a, sim.Acquire, 0, 1, 2)
		s.Pause(a, 1200*ms)
		s.Answer(a, sim.Acquire, 0, 1, 2)
		s.Pass(1050 * ms)
		s.Acquire(b)
		s.Deliver(b, sim.Acquire, 0, 1, 2)
		s.Pass(200 * ms)
	}},
	{"the time that the second round took is not looked at", sim.Mutant{NoRecheck: true}, []uint64{29, 9, 9}, sim.P4, func(s *sim.Stage) {
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1) // 30 and 10
		s.Drop(a, sim.Acquire, 2)
		s.Arrive(a, sim.Confirm, 0, 1)
		s.Pause(a, 1200*ms)
		s.Answer(a, sim.Confirm, 0, 1)
		s.Pass(1050 * ms) // what it holds has ended
		s.Acquire(b)
		s.Deliver(b, sim.Acquire, 0, 1, 2)
		s.Deliver(b, sim.Confirm, 0, 1, 2)
		s.Pass(200 * ms)
	}},
	{"the clock is not read", sim.Mutant{ClockNotRead: true}, nil, sim.P4, func(s *sim.Stage) {
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1, 2)
		s.Pass(1050 * ms)
		s.Acquire(b)
		s.Deliver(b, sim.Acquire, 0, 1, 2)
		s.Write(b)
		s.Write(a)
	}},
	{"the lease counts from the answer", sim.Mutant{ValidityFromReply: true}, nil, sim.P4, func(s *sim.Stage) {
		s.Acquire(a)
		s.Arrive(a, sim.Acquire, 0, 1, 2)
		s.Pass(240 * ms)
		s.Answer(a, sim.Acquire, 0, 1, 2)
		s.Pass(800 * ms)
		s.Acquire(b)
		s.Deliver(b, sim.Acquire, 0, 1, 2)
	}},
	{"a lost lease is brought back", sim.Mutant{RevivedByRenewal: true}, nil, sim.P6, func(s *sim.Stage) {
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1, 2)
		s.Pass(800 * ms)
		s.Renew(a)
		s.Arrive(a, sim.Renew, 0, 1, 2)
		s.Pass(220 * ms)
		s.Answer(a, sim.Renew, 0, 1, 2)
	}},
	{"a client's attempts share a nonce", sim.Mutant{NoncePerClient: true}, nil, sim.P4, func(s *sim.Stage) {
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0)
		s.Drop(a, sim.Acquire, 1, 2)
		s.Pass(270 * ms) // it fails, and its releases wait
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1, 2)
		s.Deliver(a, sim.Confirm, 0, 1, 2)
		s.Deliver(a, sim.Release, 0, 1, 2) // of the first
		s.Acquire(b)
		s.Deliver(b, sim.Acquire, 0, 1, 2)
		s.Deliver(b, sim.Confirm, 0, 1, 2)
	}},
	{"a node that did not answer is taken not to have granted", sim.Mutant{TimeoutIsNo: true}, nil, sim.L2, func(s *sim.Stage) {
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1)
		s.Pass(255 * ms)
		s.Arrive(a, sim.Acquire, 2)
		s.Release(a)
		s.Pass(50 * ms)
		s.Settle()
		s.Forgotten(a)
	}},
	{"who answers after the decision is not listened to", sim.Mutant{StragglersDropped: true}, nil, sim.L2, func(s *sim.Stage) {
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1)
		s.Release(a)
		s.Settle()
		s.Pass(100 * ms)
		s.Settle()
		s.Forgotten(a)
	}},
	{"the lock is deleted whosesoever it is", sim.Mutant{ReleaseByKey: true}, nil, sim.P4, func(s *sim.Stage) {
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1, 2)
		s.Pause(a, 1010*ms)
		s.Pass(1020 * ms)
		s.Acquire(b)
		s.Deliver(b, sim.Acquire, 0, 1, 2)
		s.Release(a)
		s.Deliver(a, sim.Release, 0, 1, 2)
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1, 2)
	}},
	{"a renewal writes a lock that is gone", sim.Mutant{RenewRecreates: true}, nil, sim.P7, func(s *sim.Stage) {
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1, 2)
		s.Flush(2)
		s.Renew(a)
		s.Deliver(a, sim.Renew, 0, 1, 2)
	}},
	{"a renewal compares the nonce alone", sim.Mutant{RenewByNonceOnly: true}, []uint64{107, 107, 107}, sim.P7, func(s *sim.Stage) {
		s.Acquire(a)
		s.Twice(a, sim.Acquire, 2)
		s.Deliver(a, sim.Acquire, 0, 1)
		s.Step(2, 2*time.Second) // a's hold there ends
		s.Acquire(b)
		s.Deliver(b, sim.Acquire, 2)
		s.Drop(b, sim.Acquire, 0, 1)
		s.Pass(270 * ms) // b fails, and lets go
		s.Deliver(b, sim.Release, 2)
		s.Arrive(a, sim.Acquire, 2) // again, with another value
		s.Pass(10 * ms)
		s.Renew(a)
		s.Deliver(a, sim.Renew, 0, 1, 2)
	}},
	{"a restarted node grants at once", sim.Mutant{QuarantineOff: true}, nil, sim.P4, func(s *sim.Stage) {
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1)
		s.Drop(a, sim.Acquire, 2)
		s.Restart(1)
		s.Acquire(b)
		s.Deliver(b, sim.Acquire, 1, 2)
	}},
	{"a restart is told by the uptime", sim.Mutant{UptimeForRunID: true}, nil, sim.P4, func(s *sim.Stage) {
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1)
		s.Drop(a, sim.Acquire, 2)
		s.Restart(1)
		s.Step(1, time.Minute) // before b has seen it
		s.Sound()
		s.Acquire(b)
		s.Deliver(b, sim.Acquire, 1, 2)
		s.Deliver(b, sim.Confirm, 1, 2)
	}},
	{"a restart is told by a missing marker", sim.Mutant{MarkerOnly: true}, nil, sim.P4, func(s *sim.Stage) {
		s.Snapshot(1)
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1)
		s.Drop(a, sim.Acquire, 2)
		s.Restart(1)
		s.Acquire(b)
		s.Deliver(b, sim.Acquire, 1, 2)
		s.Deliver(b, sim.Confirm, 1, 2)
	}},
	{"a missing counter starts at one", sim.Mutant{NoFloor: true}, []uint64{99, 99, 59}, sim.P2, func(s *sim.Stage) {
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1) // 100 and 100
		s.Drop(a, sim.Acquire, 2)
		s.Release(a)
		s.Settle()
		s.Restart(1)
		sitOut(s, 1)
		s.Acquire(b)
		s.Drop(b, sim.Acquire, 0)
		s.Settle()
	}},
	{"a counter of another incarnation is believed", sim.Mutant{FloorForMissingOnly: true}, []uint64{98, 59, 59}, sim.P2, func(s *sim.Stage) {
		s.Snapshot(1)
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1) // 99 and 60
		s.Drop(a, sim.Acquire, 2)
		s.Deliver(a, sim.Confirm, 0, 1)
		s.Release(a)
		s.Settle()
		s.Restart(1)
		sitOut(s, 1)
		s.Acquire(b)
		s.Drop(b, sim.Acquire, 0)
		s.Settle() // 60 and 60
	}},
	{"any candidate is taken", sim.Mutant{ClampOff: true}, nil, sim.P1, func(s *sim.Stage) {
		s.Poison(a)
		for _, c := range []int{a, b} {
			s.Acquire(c)
			s.Deliver(c, sim.Acquire, 0, 1, 2)
			s.Release(c)
			s.Settle()
			s.Pass(ms)
		}
	}},
	{"tokens are joined to strings in Lua", sim.Mutant{FormatInLua: true}, nil, sim.P1, func(s *sim.Stage) {
		for _, c := range []int{a, b} {
			s.Acquire(c)
			s.Deliver(c, sim.Acquire, 0, 1, 2)
			s.Release(c)
			s.Settle()
			s.Pass(time.Microsecond)
		}
	}},
	{"the lock is written before the counter", sim.Mutant{LockBeforeFence: true}, nil, sim.P8, func(s *sim.Stage) {
		s.Die(1)
		s.Acquire(a)
		s.Deliver(a, sim.Acquire, 0, 1, 2)
	}},
}

// sitOut lets a restarted node notice that it was, and its quarantine pass.
func sitOut(s *sim.Stage, node int) {
	s.Acquire(b)
	s.Deliver(b, sim.Acquire, node)
	s.Pass(3 * time.Second)
	s.Settle()
}

// The protocol breaks nothing where a mistake does.
func TestEveryMistakeHasAScheduleThatShowsIt(t *testing.T) {
	for _, test := range schedules {
		t.Run(test.name, func(t *testing.T) {
			wrong := sim.NewStage(test.mutant, test.counters...)
			test.play(wrong)
			r := wrong.Report()
			if !breaks(r, test.property) {
				t.Errorf("with the mistake: got violations %v, want one of %s\n%s", r.Violations, test.property, r.Story())
			}
			right := sim.NewStage(sim.Mutant{}, test.counters...)
			test.play(right)
			if r := right.Report(); len(r.Violations) > 0 {
				t.Errorf("without the mistake: got\n%s", r.Failed())
			}
		})
	}
}

// Each mistake that the simulator can make is one of the schedules'.
func TestEveryMistakeIsPlayed(t *testing.T) {
	all := reflect.TypeFor[sim.Mutant]()
	for i := range all.NumField() {
		played := slices.ContainsFunc(schedules, func(s schedule) bool { return reflect.ValueOf(s.mutant).Field(i).Bool() })
		if !played {
			t.Errorf("%s: no schedule shows it", all.Field(i).Name)
		}
	}
}

func breaks(r *sim.Report, property string) bool {
	for _, v := range r.Violations {
		if v.Property == property {
			return true
		}
	}
	return false
}

// A duplicate of an old acquire reaches a node after another client has had the
// key: what it brings is no vote, so that the old lease is not renewed by it,
// even with a clock that ended the lease at one node too early.
func TestALateGrantDoesNotKeepAnOldLeaseAlive(t *testing.T) {
	s := sim.NewStage(sim.Mutant{}, 107, 107, 107)
	s.Acquire(a)
	s.Deliver(a, sim.Acquire, 0, 1) // 108 and 108; the request to n2 is slow
	s.Step(1, 2*time.Second)
	s.Acquire(b)
	s.Deliver(b, sim.Acquire, 1, 2) // 109 and 108
	s.Deliver(b, sim.Confirm, 1, 2)
	if s.Held(a) != 108 || s.Held(b) != 109 {
		t.Fatalf("tokens of both, with a broken clock: got %d and %d, want 108 and 109", s.Held(a), s.Held(b))
	}
	s.Write(b)
	s.Release(b)
	s.Deliver(b, sim.Release, 1, 2)
	s.Deliver(a, sim.Acquire, 2) // 110
	if !s.Holds(a, 2) {
		t.Fatalf("the slow request was not granted, so that the schedule shows nothing")
	}
	s.Renew(a)
	s.Deliver(a, sim.Renew, 0, 1, 2)
	if token := s.Held(a); token != 0 {
		t.Errorf("after the renewal: got a lease with %d, want none", token)
	}
	if r := s.Report(); len(r.Violations) > 0 {
		t.Errorf("got\n%s", r.Failed())
	}
}
