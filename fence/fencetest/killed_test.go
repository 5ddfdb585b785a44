package fencetest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pawlock/pawl/fence"
	"github.com/pawlock/pawl/fence/fencetest"
)

// mutantEnv is set in the process that TestSuiteKillsMutants starts, since a suite
// that fails is what is wanted there and would fail the test here.
const mutantEnv = "PAWL_TEST_MUTANT"

func harness(p plain) fencetest.Harness {
	return fencetest.Harness{New: func(t *testing.T) fencetest.Store {
		s := newServer()
		return fencetest.Store{Guard: func() fence.Guard { return p.connect(s) }, Append: s.append, Read: s.read}
	}}
}

func TestSuitePassesASoundGuard(t *testing.T) { fencetest.Run(t, harness(plain{})) }

func TestMutant(t *testing.T) {
	if os.Getenv(mutantEnv) == "" {
		t.Skip("is meant to fail: runs in a process of its own, see TestSuiteKillsMutants")
	}
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			for _, killer := range m.killers {
				h := harness(m.guard)
				if m.guard.stuck || m.guard.trusting {
					h.Patience = time.Second // it hangs, and is meant to
				}
				h.Skip = make(map[string]string)
				for _, p := range fencetest.Promises() {
					if p != killer {
						h.Skip[p] = "is not asked"
					}
				}
				games := 1
				if killer == "History" || killer == "FirstWrites" {
					games = 5 // who meets whom is chance
				}
				for survives := true; survives && games > 0; games-- {
					survives = t.Run(killer, func(t *testing.T) { fencetest.Run(t, h) })
				}
			}
		})
	}
}

func TestSuiteKillsMutants(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMutant$", "-test.v", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), mutantEnv+"=all")
	text, err := cmd.CombinedOutput()
	out := string(text)
	if err == nil {
		t.Error("all mutants survive")
	}
	if i := strings.Index(out, "panic: "); i >= 0 {
		t.Fatalf("the suite fell over a mutant:\n%s", out[i:min(len(out), i+3000)])
	}
	killed := make(map[string]bool) // promises that have failed for some mutant
	for _, m := range mutants() {
		for _, killer := range m.killers {
			killed[killer] = true
			if !strings.Contains(out, "--- FAIL: TestMutant/"+strings.ReplaceAll(m.name, " ", "_")+"/"+killer) {
				t.Errorf("%q survives %s", m.name, killer)
			}
		}
	}
	for _, p := range fencetest.Promises() {
		if !killed[p] {
			t.Errorf("no mutant fails %s: it may assert nothing", p)
		}
	}
}
