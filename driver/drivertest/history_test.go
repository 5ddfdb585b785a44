package drivertest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
)

// A script is a history written by hand: times are in milliseconds.
type script struct {
	drivertest.History
	start time.Time
}

func newScript() *script { return &script{start: time.Unix(1e9, 0)} }

func (s *script) at(ms int) time.Time { return s.start.Add(time.Duration(ms) * time.Millisecond) }

// hold records a grant that lasts 100 ms.
func (s *script) hold(id string, weight, capacity int, token uint64, sent, answered int) int {
	return s.holdBlock(id, weight, capacity, token, 1, sent, answered)
}

func (s *script) holdBlock(id string, weight, capacity int, token uint64, block, sent, answered int) int {
	c := driver.Claim{Key: "k", ID: id, Weight: weight, Capacity: capacity}
	c.Grant = driver.Grant{Token: token, Block: block, TTL: 100 * time.Millisecond}
	return s.Granted(c, s.at(sent), s.at(answered))
}

func (s *script) end(hold, at int) { s.Ended(hold, s.at(at)) }

// properties returns what is violated, each once.
func (s *script) properties() []string {
	var names []string
	for _, v := range s.Check() {
		names = append(names, v.Property)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestHistoryFindsWhatIsWrong(t *testing.T) {
	const reader = driver.Unlimited
	for name, test := range map[string]struct {
		play func(*script)
		want []string
	}{
		"nothing": {func(s *script) {}, nil},
		"one after the other": {func(s *script) {
			s.end(s.hold("a", 1, 1, 10, 0, 1), 50)
			s.end(s.hold("b", 1, 1, 11, 20, 51), 60)
			s.hold("c", 1, 1, 12, 61, 62)
		}, nil},
		"at the same instant": {func(s *script) {
			s.end(s.hold("a", 1, 1, 10, 0, 1), 50)
			s.hold("b", 1, 1, 11, 20, 50)
		}, nil},
		"another key": {func(s *script) {
			s.hold("a", 1, 1, 10, 0, 1)
			c := driver.Claim{Key: "other", ID: "b", Weight: 1, Capacity: 1, Grant: driver.Grant{Token: 10, TTL: time.Second}}
			s.Granted(c, s.at(2), s.at(3))
		}, nil},
		"overlap": {func(s *script) {
			s.end(s.hold("a", 1, 1, 10, 0, 1), 50)
			s.hold("b", 1, 1, 11, 20, 49)
		}, []string{drivertest.NoOverlap}},
		"overlap inside": {func(s *script) {
			s.end(s.hold("a", 1, 1, 10, 0, 1), 90)
			s.end(s.hold("b", 1, 1, 11, 20, 30), 31)
		}, []string{drivertest.NoOverlap}},
		"overlap until the end of the validity": {func(s *script) {
			s.hold("a", 1, 1, 10, 0, 60)
			s.hold("b", 1, 1, 11, 61, 99)
		}, []string{drivertest.NoOverlap}},
		"validity counts from the send": {func(s *script) {
			s.hold("a", 1, 1, 10, 0, 60) // until 100, not 160
			s.hold("b", 1, 1, 11, 61, 100)
		}, nil},
		"overlap after a renewal": {func(s *script) {
			s.Renewed(s.hold("a", 1, 1, 10, 0, 1), s.at(90), 100*time.Millisecond)
			s.hold("b", 1, 1, 11, 150, 151)
		}, []string{drivertest.NoOverlap}},
		"granted when it was over": {func(s *script) {
			s.hold("a", 1, 1, 10, 0, 150) // too late to be of use
			s.hold("b", 1, 1, 11, 101, 120)
		}, nil},
		"ended twice": {func(s *script) {
			a := s.hold("a", 1, 1, 10, 0, 1)
			s.end(a, 50)
			s.end(a, 90) // the first counts
			s.hold("b", 1, 1, 11, 51, 52)
		}, nil},
		"readers": {func(s *script) {
			for i := range 5 {
				s.hold(fmt.Sprint(i), 1, reader, uint64(10+i), i, i+1)
			}
		}, nil},
		"writer among readers": {func(s *script) {
			s.hold("a", 1, reader, 10, 0, 1)
			s.hold("b", reader, reader, 11, 2, 3)
		}, []string{drivertest.NoOverlap}},
		"reader under a writer": {func(s *script) {
			s.hold("b", reader, reader, 10, 0, 1)
			s.hold("a", 1, reader, 11, 2, 3)
		}, []string{drivertest.NoOverlap}},
		"semaphore, full": {func(s *script) {
			s.hold("a", 2, 3, 10, 0, 1)
			s.hold("b", 1, 3, 11, 2, 3)
		}, nil},
		"semaphore, one too many": {func(s *script) {
			s.hold("a", 2, 3, 10, 0, 1)
			s.hold("b", 2, 3, 11, 2, 3)
		}, []string{drivertest.NoOverlap}},
		"semaphore, freed": {func(s *script) {
			s.end(s.hold("a", 2, 3, 10, 0, 1), 10)
			s.hold("b", 2, 3, 11, 2, 11)
		}, nil},
		"the same token": {func(s *script) {
			s.end(s.hold("a", 1, 1, 10, 0, 5), 6)
			s.hold("b", 1, 1, 10, 4, 7) // asked before a was answered: no order, but no right to the token
		}, []string{drivertest.DistinctTokens}},
		"a token inside a block": {func(s *script) {
			s.end(s.holdBlock("a", 1, 1, 10, 16, 0, 5), 6)
			s.hold("b", 1, 1, 25, 4, 7)
		}, []string{drivertest.DistinctTokens}},
		"after a block": {func(s *script) {
			s.end(s.holdBlock("a", 1, 1, 10, 16, 0, 1), 2)
			s.hold("b", 1, 1, 26, 3, 4)
		}, nil},
		"a smaller token later": {func(s *script) {
			s.end(s.hold("a", 1, 1, 10, 0, 1), 2)
			s.hold("b", 1, 1, 9, 3, 4)
		}, []string{drivertest.TokenOrder}},
		"a smaller token much later": {func(s *script) {
			s.end(s.hold("a", 1, 1, 50, 0, 1), 2)
			s.end(s.hold("b", 1, 1, 60, 3, 4), 5)
			s.end(s.hold("c", 1, 1, 70, 6, 7), 8)
			s.hold("d", 1, 1, 55, 9, 10)
		}, []string{drivertest.TokenOrder}},
		"a smaller token meanwhile": {func(s *script) {
			s.hold("a", 1, reader, 10, 0, 5)
			s.hold("b", 1, reader, 9, 1, 6) // who was first nobody can tell
		}, nil},
		"writes in order": {func(s *script) {
			s.end(s.hold("a", 1, 1, 10, 0, 1), 2)
			s.hold("b", 1, 1, 11, 3, 4)
			s.Wrote(drivertest.Write{Key: "k", Token: 10, Accepted: true})
			s.Wrote(drivertest.Write{Key: "k", Token: 11, Accepted: true})
			s.Wrote(drivertest.Write{Key: "k", Token: 11, Accepted: true})
			s.Wrote(drivertest.Write{Key: "k", Token: 10, Accepted: false})
		}, nil},
		"a stale write accepted": {func(s *script) {
			s.end(s.hold("a", 1, 1, 10, 0, 1), 2)
			s.hold("b", 1, 1, 11, 3, 4)
			s.Wrote(drivertest.Write{Key: "k", Token: 11, Accepted: true})
			s.Wrote(drivertest.Write{Key: "k", Token: 10, Accepted: true})
		}, []string{drivertest.FencedWrites}},
		"the newest write rejected": {func(s *script) {
			s.hold("a", 1, 1, 10, 0, 1)
			s.Wrote(drivertest.Write{Key: "k", Token: 10, Accepted: false})
		}, []string{drivertest.FencedWrites}},
		"a write with what nobody was granted": {func(s *script) {
			s.hold("a", 1, 1, 10, 0, 1)
			s.Wrote(drivertest.Write{Key: "k", Token: 11, Accepted: true})
		}, []string{drivertest.FencedWrites}},
		"all at once": {func(s *script) {
			s.hold("a", 1, 1, 10, 0, 1)
			s.hold("b", 1, 1, 10, 2, 3)
			s.Wrote(drivertest.Write{Key: "k", Token: 10, Accepted: false})
		}, []string{drivertest.DistinctTokens, drivertest.FencedWrites, drivertest.NoOverlap, drivertest.TokenOrder}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			test.play(s)
			if got := s.properties(); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v: %v", got, test.want, s.Check())
			}
		})
	}
}

// A long sound history stays sound, and one mistake anywhere in it is found.
func TestHistoryFindsOneMistakeAmongMany(t *testing.T) {
	const n = 5000
	sound := func() []drivertest.Hold {
		start := time.Unix(1e9, 0)
		var holds []drivertest.Hold
		for i := range n {
			at := start.Add(time.Duration(i) * 10 * time.Millisecond)
			holds = append(holds, drivertest.Hold{
				Claim: driver.Claim{Key: fmt.Sprint(i % 3), ID: fmt.Sprint(i), Weight: 1, Capacity: 1,
					Grant: driver.Grant{Token: uint64(1000 + 2*i), Block: 1, TTL: time.Second}},
				Sent: at.Add(-100 * time.Millisecond), Answered: at, Until: at.Add(9 * time.Millisecond),
			})
		}
		return holds
	}
	check := func(holds []drivertest.Hold) []drivertest.Violation {
		var h drivertest.History
		for _, i := range rand.Perm(len(holds)) { // in no order
			h.Ended(h.Granted(holds[i].Claim, holds[i].Sent, holds[i].Answered), holds[i].Until)
		}
		return h.Check()
	}
	if found := check(sound()); len(found) > 0 {
		t.Fatalf("a sound history: got %v", found[0])
	}
	for property, spoil := range map[string]func(holds []drivertest.Hold, i int){
		drivertest.NoOverlap:      func(holds []drivertest.Hold, i int) { holds[i].Until = holds[i+3].Answered.Add(time.Nanosecond) },
		drivertest.DistinctTokens: func(holds []drivertest.Hold, i int) { holds[i].Claim.Grant.Token = holds[i+3].Claim.Grant.Token },
		drivertest.TokenOrder:     func(holds []drivertest.Hold, i int) { holds[i].Claim.Grant.Token -= 2*60 + 1 },
	} {
		for _, i := range []int{100, n / 2, n - 100} {
			holds := sound()
			spoil(holds, i)
			found := check(holds)
			if len(found) == 0 || found[0].Property != property {
				t.Errorf("%s spoilt at %d: got %v", property, i, found)
			}
		}
	}
}
