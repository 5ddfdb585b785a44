package drivertest_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/pawlock/pawl/driver/drivertest"
)

// mutantEnv says which mutants TestMutant runs the suite on: the name of one,
// or all. It is set in the process that TestSuiteKillsMutants starts, since a
// suite that fails is what is wanted there and would fail the test here.
const mutantEnv = "PAWL_TEST_MUTANT"

func TestMutant(t *testing.T) {
	name := os.Getenv(mutantEnv)
	if name == "" {
		t.Skip("is meant to fail: runs in a process of its own, see TestSuiteKillsMutants")
	}
	for _, m := range mutants() {
		if name != "all" && name != m.name {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			h := harness(&m.flaws, m.amnesia)
			h.Skip = allBut(m.killers...)
			drivertest.Run(t, h)
			// What History plays is drawn by chance: it gets three games.
			h.Skip = allBut("History")
			for game := 2; game <= 3 && slices.Contains(m.killers, "History"); game++ {
				t.Run(fmt.Sprint("game ", game), func(t *testing.T) { drivertest.Run(t, h) })
			}
		})
	}
}

// allBut returns a Skip of all guarantees but some.
func allBut(some ...string) map[string]string {
	skip := make(map[string]string)
	for _, g := range drivertest.Guarantees() {
		if !slices.Contains(some, g) {
			skip[g] = "is not asked"
		}
	}
	return skip
}

func TestSuiteKillsMutants(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMutant$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), mutantEnv+"=all")
	text, err := cmd.CombinedOutput()
	out := string(text)
	if err == nil {
		t.Errorf("all mutants survive")
	}
	if i := strings.Index(out, "panic: "); i >= 0 {
		t.Fatalf("the suite fell over a mutant:\n%s", out[i:min(len(out), i+3000)])
	}
	for _, m := range mutants() {
		for _, killer := range m.killers {
			if !m.killedBy(killer, out) {
				t.Errorf("%q survives %s", m.name, killer)
			}
		}
	}
}

// killedBy reports whether the subtest killer failed in the output of a run.
func (m mutant) killedBy(killer, out string) bool {
	name := strings.ReplaceAll(m.name, " ", "_")
	if strings.Contains(out, "--- FAIL: TestMutant/"+name+"/"+killer+" ") {
		return true
	}
	return strings.Contains(out, "--- FAIL: TestMutant/"+name+"/game_2/"+killer+" ") ||
		strings.Contains(out, "--- FAIL: TestMutant/"+name+"/game_3/"+killer+" ")
}
