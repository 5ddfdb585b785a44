package drivertest_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/pawlock/pawl/driver/drivertest"
)

// mutantEnv names the mutant that TestMutant runs the suite on. It is set in
// the processes that TestSuiteKillsMutants starts, since a suite that fails is
// what is wanted there and would fail the test here.
const mutantEnv = "PAWL_TEST_MUTANT"

func TestMutant(t *testing.T) {
	name := os.Getenv(mutantEnv)
	if name == "" {
		t.Skip("runs in a process of its own, see TestSuiteKillsMutants")
	}
	for _, m := range mutants() {
		if m.name == name {
			drivertest.Run(t, harness(&m.flaws, m.amnesia))
			return
		}
	}
	t.Fatalf("there is no mutant %q", name)
}

func TestSuiteKillsMutants(t *testing.T) {
	slots := make(chan struct{}, 2)
	var all sync.WaitGroup
	defer all.Wait()
	for _, m := range mutants() {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) { m.mustDie(t) })
		})
	}
}

// mustDie runs the subtests of the mutant's killers, each of which must fail.
// What History plays is drawn by chance: it gets three games.
func (m mutant) mustDie(t *testing.T) {
	for _, killer := range m.killers {
		games := 1
		if killer == "History" {
			games = 3
		}
		var out []byte
		killed := false
		for ; games > 0 && !killed; games-- {
			out, killed = m.run(t, killer)
		}
		if !killed {
			t.Errorf("the mutant survives %s:\n%s", killer, out[max(0, len(out)-3000):])
		}
	}
}

// run plays the subtest killer in a process of its own, and reports whether it
// failed as a test does, and not in a panic.
func (m mutant) run(t *testing.T, killer string) (out []byte, killed bool) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMutant$/^"+killer+"$", "-test.v", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), mutantEnv+"="+m.name)
	out, err := cmd.CombinedOutput()
	return out, err != nil && bytes.Contains(out, []byte("    --- FAIL: TestMutant/"+killer+" ")) && !bytes.Contains(out, []byte("panic: "))
}
