package main

import (
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var overheadRounds = flag.Int("overhead", 0, "measure what pawl run costs in so many rounds, on a machine that does nothing else")

// What pawl run may cost beside the command that it runs, with locks in a
// directory.
const (
	mostOverhead = 10 * time.Millisecond
	mostMemory   = 40 << 20
)

// The program is built as users have it, without the race detector. Its memory is
// bounded always, its time only where it is measured: make bench-run.
func TestRunCostsLittle(t *testing.T) {
	program := filepath.Join(t.TempDir(), "pawl")
	build := exec.Command("go", "build", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rounds, url := max(5, *overheadRounds), fileURL(t)
	var bare, under []time.Duration
	var memory []int64
	for range rounds {
		bare = append(bare, measure(t, "/bin/true"))
		under = append(under, measure(t, program, "run", "--url", url, "k", "--", "/bin/true"))
		memory = append(memory, resident(t, program, url))
	}
	cost := median(under) - median(bare)
	text := fmt.Sprintf("%d rounds, medians: the command alone %v, under pawl run %v (p90 %v), so %v more; %.1f MB resident at most",
		rounds, median(bare).Round(10*time.Microsecond), median(under).Round(10*time.Microsecond),
		under[len(under)*9/10].Round(10*time.Microsecond), cost.Round(10*time.Microsecond), float64(median(memory))/(1<<20))
	t.Log(text)
	if got := median(memory); got > mostMemory {
		t.Errorf("got %.1f MB resident, want at most %d", float64(got)/(1<<20), mostMemory>>20)
	}
	if *overheadRounds > 0 && cost > mostOverhead {
		t.Errorf("got %v more than the command alone, want at most %v", cost, mostOverhead)
	}
}

// measure runs a command to its end and returns how long that took.
func measure(t *testing.T, name string, args ...string) time.Duration {
	t.Helper()
	cmd := exec.Command(name, args...)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return took
}

// median sorts list and returns what is in its middle.
func median[T int64 | time.Duration](list []T) T {
	slices.Sort(list)
	return list[len(list)/2]
}
