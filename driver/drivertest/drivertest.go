// Package drivertest is the conformance suite: what every backend of pawl
// promises, as tests. Each subtest of [Run] is a guarantee under the name that
// it has in docs/guarantees.md.
//
// The suite judges a store by its answers and by the clock of the test, never
// by luck: a pause of the machine can make a check repeat itself with a longer
// TTL, but not fail.
package drivertest

import (
	"sync"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
)

// A Harness gives the suite what the driver interface can't.
type Harness struct {
	// New readies a store for t: a new one, or one that other tests use at
	// the same time, since no two checks use the same keys. What it starts
	// it stops in t.Cleanup. Without Wrap it is called concurrently.
	New func(t *testing.T) Store

	// Wrap runs one check, in a bubble say: synctest.Test for a store in
	// this process. Without it the guarantees are tested concurrently, on
	// the real clock.
	Wrap func(t *testing.T, check func(*testing.T))

	// TTL is that of claims which are left to end, and sets the pace of the
	// suite. It must not be below the backend's MinTTL. Default 250ms.
	TTL time.Duration

	// Prompt is how late the store may be with what ought to come at once:
	// to serve a waiter when there is room, to drop a claim that has ended.
	// It only has to be far below a minute. Default 5s.
	Prompt time.Duration

	// Skip names guarantees that the store can't give, and says why. What a
	// backend skips its documentation has to say.
	Skip map[string]string
}

// A Store is what one check runs on.
type Store struct {
	// Connect returns a backend on the store. Each call is another process,
	// as far as that can be had. The suite closes what it gets.
	Connect func() driver.Backend

	// Sleep lets d pass, for the test and the store. Default time.Sleep.
	Sleep func(d time.Duration)

	// Stall makes the store swallow the requests of b for d and carry out
	// late what was sent meanwhile, as after a pause of the server or on a
	// slow network. It returns at once. Nil: what needs it is skipped.
	Stall func(b driver.Backend, d time.Duration)

	// Crash stops the store with no chance to tidy up, and starts it again.
	// Nil: the processes crash, and the store does not.
	Crash func()
}

// Run tests the backend of h, one subtest per guarantee.
func Run(t *testing.T, h Harness) {
	if h.TTL == 0 {
		h.TTL = 250 * time.Millisecond
	}
	if h.Prompt == 0 {
		h.Prompt = 5 * time.Second
	}
	for name := range h.Skip {
		if !known(name) {
			t.Errorf("the harness skips %q: there is no such guarantee", name)
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	for _, g := range guarantees() {
		if h.Wrap != nil {
			t.Run(g.name, func(t *testing.T) { g.run(t, h) })
			continue
		}
		// Not t.Parallel: most of the time is spent asleep, and the number
		// of processors is no reason to sleep one after the other.
		running.Go(func() {
			t.Run(g.name, func(t *testing.T) { g.run(t, h) })
		})
	}
}

// Guarantees returns the names of the subtests of [Run].
func Guarantees() []string {
	var names []string
	for _, g := range guarantees() {
		names = append(names, g.name)
	}
	return names
}

// A guarantee is what users may rely on, and how it is tested.
type guarantee struct {
	name   string
	checks []check
}

// A check tests one side of a guarantee, on keys of its own.
type check struct {
	name string
	run  func(*stage)
}

func guarantees() []guarantee {
	return []guarantee{
		{"Exclusion", exclusion()},
		{"Ownership", ownership()},
		{"Idempotence", idempotence()},
		{"Expiry", expiry()},
		{"Renewal", renewal()},
		{"Keep", keep()},
		{"ReaderWriter", readerWriter()},
		{"Counting", counting()},
		{"Downgrade", downgrade()},
		{"Fairness", fairness()},
		{"Wakeup", wakeup()},
		{"Withdrawal", withdrawal()},
		{"LateRequest", lateRequest()},
		{"Fencing", fencing()},
		{"Floors", floors()},
		{"Blocks", blocks()},
		{"AnyKey", anyKey()},
		{"Listing", listing()},
		{"Revocation", revocation()},
		{"Durability", durability()},
		{"Validation", validation()},
		{"Traits", traits()},
		{"History", histories()},
	}
}

func known(name string) bool {
	for _, g := range guarantees() {
		if g.name == name {
			return true
		}
	}
	return false
}

func (g guarantee) run(t *testing.T, h Harness) {
	if why, ok := h.Skip[g.name]; ok {
		t.Skip(why)
	}
	for _, c := range g.checks {
		t.Run(c.name, func(t *testing.T) {
			if h.Wrap == nil {
				c.run(newStage(t, h))
				return
			}
			h.Wrap(t, func(t *testing.T) { c.run(newStage(t, h)) })
		})
	}
}
