package chaos_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	chaosFor  = flag.Duration("chaos.duration", soak(), "how long the rounds of each fault repeat; at least one is run")
	chaosSeed = flag.Uint64("chaos.seed", 0, "the seed of the first round, 0 for any")
)

func soak() time.Duration {
	if os.Getenv("PAWL_SOAK") == "1" {
		return 10 * time.Second
	}
	return 0
}

// Under each fault the clients of a real server see what docs/guarantees.md
// promises, and are served again when it has been healed.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Run("faults", func(t *testing.T) {
		for _, f := range faults {
			for _, guarded := range []bool{false, true} {
				if guarded && f.exclusion != quarantined {
					continue
				}
				name := f.name
				if guarded {
					name += " with a quarantine"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					seed := *chaosSeed
					for began := time.Now(); seed == *chaosSeed || time.Since(began) < *chaosFor; {
						if seed == 0 || seed == *chaosSeed && time.Since(began) > time.Second {
							seed = rand.Uint64()
						}
						s := seed
						t.Run(fmt.Sprint("seed=", s), func(t *testing.T) { judge(t, round(t, f, guarded, s, nil)) })
						seed = rand.Uint64()
						if t.Failed() {
							return
						}
					}
				})
			}
		}
	})
	goroutinesEnd(t)
}

func judge(t *testing.T, r report) {
	t.Logf("%d holds, %d overlaps, %d looks at the keys", r.holds, r.overlaps, r.samples)
	for _, w := range r.wrong {
		t.Error(w)
	}
	if t.Failed() {
		t.Logf("history:\n%s", r.record)
	}
}

// goroutinesEnd waits until no goroutine runs code of pawl but the caller's.
func goroutinesEnd(t *testing.T) {
	t.Helper()
	var left []string
	for end := time.Now().Add(patience); ; time.Sleep(20 * ms) {
		buf := make([]byte, 1<<20)
		stacks := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
		left = slices.DeleteFunc(stacks[1:], func(s string) bool {
			return !strings.Contains(s, "github.com/pawlock/pawl") || strings.Contains(s, "testing.tRunner")
		})
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Errorf("goroutines left:\n%s", strings.Join(left, "\n\n"))
			return
		}
	}
}

// docs/guarantees.md says of each fault what the table here does, and of no other.
func TestTheGuaranteesNameEachFault(t *testing.T) {
	doc, err := os.ReadFile("../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(doc), "\n# Under faults\n")
	if !ok {
		t.Fatal("docs/guarantees.md has no section Under faults")
	}
	var got, want []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \| yes \|`).FindAllStringSubmatch(section, -1) {
		got = append(got, row[1]+": "+row[2])
	}
	for _, f := range faults {
		want = append(want, f.name+": "+string(f.exclusion))
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows of docs/guarantees.md:\ngot  %q\nwant %q", got, want)
	}
}
