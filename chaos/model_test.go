package chaos_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/pawlock/pawl/driver/drivertest"
)

type opKind int

// The operations of the model. One of each acquire and free for each grant: that
// some claim was refused, or its outcome is unknown, is always sound.
const (
	opAcquire opKind = iota
	opFree           // the promise of the grant ended: its release was sent, or its validity was over
	opWrite
)

// An op is what a client did with a token.
type op struct {
	kind      opKind
	token     uint64
	accepted  bool // of a write
	call, ret time.Duration
}

// forever is when the operations end whose effect may come at any time.
const forever = time.Duration(math.MaxInt64)

// lockState is a lock and the resource that it guards.
type lockState struct{ holder, last, top uint64 }

// lockModel returns the specification of a lock with tokens and the register that
// checks them. Without exclusive it is that of the tokens alone.
func lockModel(exclusive bool) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return lockState{} },
		Step: func(state, input, _ any) (bool, any) {
			s, o := state.(lockState), input.(op)
			switch o.kind {
			case opAcquire:
				if exclusive && s.holder != 0 || o.token <= s.last {
					return false, s
				}
				return true, lockState{o.token, o.token, s.top}
			case opFree:
				if exclusive && s.holder != o.token {
					return false, s
				}
				return true, lockState{0, s.last, s.top}
			}
			if !o.accepted {
				return o.token < s.top, s
			}
			return s.top <= o.token && o.token <= s.last, lockState{s.holder, s.last, o.token}
		},
		DescribeOperation: func(input, _ any) string {
			o := input.(op)
			return [...]string{"acquire", "free", "write"}[o.kind] + fmt.Sprintf(" %d %v", o.token, o.accepted)
		},
	}
}

// linearizable asks the model about the operations on one key. Without exclusive
// the ends of promises mean nothing, and are left out.
func linearizable(ops []op, exclusive bool) porcupine.CheckResult {
	var history []porcupine.Operation
	for i, o := range ops {
		if o.kind == opFree && !exclusive {
			continue
		}
		history = append(history, porcupine.Operation{ClientId: i, Input: o, Call: int64(o.call), Return: int64(o.ret)})
	}
	return porcupine.CheckOperationsTimeout(lockModel(exclusive), history, 20*time.Second)
}

// What is planted is found by the model and by the direct invariants, each for itself.
func TestBothJudgesFindPlantedViolations(t *testing.T) {
	hold := func(token uint64, from, to time.Duration) []op {
		return []op{{opAcquire, token, false, from, from + 1}, {opFree, token, false, to, forever}}
	}
	write := func(token uint64, at time.Duration, accepted bool) op {
		return op{opWrite, token, accepted, at, at + 1}
	}
	join := func(parts ...[]op) (all []op) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	// A long sound history around each of them, so that they are not found for
	// being all there is.
	var before []op
	for i := range 200 {
		at := time.Duration(i) * 10
		before = append(before, join(hold(uint64(i+1), at, at+5), []op{write(uint64(i+1), at+2, true)})...)
	}
	const at = 10_000
	for _, test := range []struct {
		name             string
		ops              []op
		exclusive, plain bool // whether it is sound with the exclusion, and without
	}{
		{"sound", join(hold(1000, at, at+10), []op{write(1000, at+5, true)}, hold(1001, at+20, at+30), []op{write(1000, at+40, true), write(1001, at+50, true), write(1000, at+60, false)}), true, true},
		{"two holders", join(hold(1000, at, at+10), hold(1001, at+5, at+15)), false, true},
		{"a token twice", join(hold(1000, at, at+10), hold(1000, at+20, at+30)), false, false},
		{"a token that is smaller", join(hold(1001, at, at+10), hold(1000, at+20, at+30)), false, false},
		{"a token from before all others", hold(7, at, at+10), false, false},
		{"an old token accepted", join(hold(1000, at, at+10), hold(1001, at+20, at+40), []op{write(1001, at+25, true), write(1000, at+30, true)}), false, false},
		{"the rightful holder rejected", join(hold(1000, at, at+10), []op{write(1000, at+5, false)}), false, false},
		{"a token that nobody was granted", join(hold(1000, at, at+10), []op{write(1005, at+5, true)}), false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, exclusive := range []bool{true, false} {
				sound := exclusive && test.exclusive || !exclusive && test.plain
				wrong, _ := recorded(join(before, test.ops)).check(exclusive)
				model := slices.ContainsFunc(wrong, isOfModel)
				direct := slices.ContainsFunc(wrong, func(w string) bool { return !isOfModel(w) })
				if model == sound || direct == sound {
					t.Errorf("exclusive=%v: got %q, want that both find it sound: %v", exclusive, wrong, sound)
				}
			}
		})
	}
}

// recorded returns a recorder that has seen ops, in which the end of a hold follows its
// beginning.
func recorded(ops []op) *recorder {
	rec := newRecorder()
	at := func(d time.Duration) time.Time { return rec.began.Add(d) }
	var ended func(time.Time)
	for i, o := range ops {
		switch o.kind {
		case opAcquire:
			ended = rec.granted("k", fmt.Sprint("claim", i), o.token, at(o.call), at(o.ret))
		case opFree:
			ended(at(o.call))
		default:
			rec.history.Wrote(drivertest.Write{Key: "k", Token: o.token, Accepted: o.accepted})
			rec.ops["k"] = append(rec.ops["k"], o)
		}
	}
	return rec
}
