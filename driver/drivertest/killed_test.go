package drivertest_test

import (
	"os"
	"os/exec"
	"regexp"
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
			for _, killer := range m.killers {
				h := harness(&m.flaws, m.amnesia)
				h.Skip = allBut(killer)
				games := 1
				if killer == "History" {
					games = 3 // what it plays is drawn by chance
				}
				for survives := true; survives && games > 0; games-- {
					survives = t.Run(killer, func(t *testing.T) { drivertest.Run(t, h) })
				}
			}
		})
	}
}

// allBut returns a Skip of all guarantees but one.
func allBut(name string) map[string]string {
	skip := make(map[string]string)
	for _, g := range drivertest.Guarantees() {
		if g != name {
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
	// A second game is called History#01.
	pattern := "--- FAIL: TestMutant/" + regexp.QuoteMeta(strings.ReplaceAll(m.name, " ", "_")+"/"+killer) + `(#\d+)? `
	return regexp.MustCompile(pattern).MatchString(out)
}
