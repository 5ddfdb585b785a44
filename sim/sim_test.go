package sim_test

import (
	"flag"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/pawlock/pawl/sim"
)

var seeds = flag.Int("seeds", 300, "worlds to simulate; make seeds does 10000")

// weathers are the kinds of trouble that worlds have.
var weathers = []struct {
	name   string
	faults sim.Faults
}{
	{"calm", sim.Faults{Loss: 0.01, ClientSkew: 5 * time.Millisecond, NodeSkew: 5 * time.Millisecond}},
	{"rough", rough(sim.Faults{ClientSkew: time.Hour})},
	{"counters alone", rough(sim.Faults{NoWall: true})},
	{"clocks set", rough(sim.Faults{ClientSkew: time.Hour, NodeSteps: true, Suspends: true})},
	{"clocks set, counters alone", rough(sim.Faults{NoWall: true, NodeSteps: true, Suspends: true})},
	{"restarts", rough(sim.Faults{ClientSkew: time.Hour, NodeSkew: 200 * time.Millisecond, Restarts: true})},
	{"restarts together", rough(sim.Faults{ClientSkew: time.Hour, NodeSkew: 200 * time.Millisecond, Restarts: true, Together: true})},
	{"restarts of good clocks", rough(sim.Faults{ClientSkew: 2 * time.Second, NodeSkew: 50 * time.Millisecond, Restarts: true, Together: true})},
	{"poison", rough(sim.Faults{ClientSkew: 5 * time.Millisecond, Poison: true})},
}

func rough(f sim.Faults) sim.Faults {
	f.Loss, f.Duplicates, f.Slow = 0.05, 0.1, 0.08
	f.Pauses, f.Partitions = true, true
	return f
}

// In every world the protocol keeps what it promises.
// Case R07.
func TestEveryPropertyHoldsInEveryWorld(t *testing.T) {
	var (
		all    sync.WaitGroup
		mu     sync.Mutex
		next   int
		failed int
		sums   = make([]sim.Report, len(weathers))
	)
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for {
				mu.Lock()
				seed := next
				next++
				stop := seed >= *seeds || failed >= 3
				mu.Unlock()
				if stop {
					return
				}
				kind := seed % len(weathers)
				cfg := sim.Config{Seed: uint64(seed), Faults: weathers[kind].faults}
				r := sim.Run(cfg)
				mu.Lock()
				sums[kind].Acquired += r.Acquired
				sums[kind].Fast += r.Fast
				sums[kind].Attempts += r.Attempts
				sums[kind].Events += r.Events
				sums[kind].Writes += r.Writes
				sums[kind].Rejected += r.Rejected
				if len(r.Violations) > 0 {
					failed++
					cfg.Trace = true
					t.Errorf("%s: %s", weathers[kind].name, sim.Run(cfg).Failed())
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for i, w := range weathers {
		s := sums[i]
		t.Logf("%-28s %6d leases, %5.1f%% in one round, of %6d attempts; %6d writes, %5d rejected; %d events",
			w.name, s.Acquired, 100*float64(s.Fast)/float64(max(1, s.Acquired)), s.Attempts, s.Writes, s.Rejected, s.Events)
		if s.Acquired == 0 && failed == 0 {
			t.Errorf("%s: nobody got a lease: the run proves nothing", w.name)
		}
	}
}
