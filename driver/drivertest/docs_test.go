package drivertest_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
	"github.com/pawlock/pawl/file"
	"github.com/pawlock/pawl/memory"
	"github.com/pawlock/pawl/quorum"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// find returns what the first group of pattern matches, everywhere in text.
func find(text, pattern string) []string {
	var all []string
	for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, found[1])
	}
	return all
}

func TestGuaranteesAreTheSubtestsOfTheSuite(t *testing.T) {
	text := read(t, "../../docs/guarantees.md")
	want := drivertest.Guarantees()
	if got := find(text, `(?m)^## (.*)$`); !slices.Equal(got, want) {
		t.Errorf("headings: got %v, want %v", got, want)
	}
	if got := find(text, `(?m)^\| \[(\w+)\]`); !slices.Equal(got, want) {
		t.Errorf("rows of the table: got %v, want %v", got, want)
	}
	for _, name := range want {
		if !strings.Contains(text, "["+name+"](#"+strings.ToLower(name)+")") {
			t.Errorf("no link to %s", name)
		}
	}
	sections := strings.Split(text, "\n## ")[1:]
	for _, s := range sections {
		name, _, _ := strings.Cut(s, "\n")
		shown := find(s, "Shown by `([a-z]+\\.go)`")
		if len(shown) != 1 {
			t.Errorf("%s: got %d sentences that say what shows it, want 1", name, len(shown))
			continue
		}
		if _, err := os.Stat(shown[0]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(s, "*Broken by:*") {
			t.Errorf("%s: does not say what breaks it", name)
		}
	}
}

// The table says yes where the store claims the trait, and no where it does
// not.
func TestGuaranteesSayWhatTheStoresClaim(t *testing.T) {
	text := read(t, "../../docs/guarantees.md")
	dir, err := file.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	var nodes []quorum.Node
	for _, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, quorum.Node{Name: name, Backend: memory.New(nil)})
	}
	majority, err := quorum.New(nodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer majority.Close()
	columns := map[int]driver.Traits{0: memory.New(nil).Traits(), 1: dir.Traits(), 3: majority.Traits()}
	for column, traits := range columns {
		for name, claimed := range map[string]bool{
			"Fencing": traits.Fencing, "Durability": traits.Durable, "Fairness": traits.Fair, "Counting": traits.Counting,
		} {
			row := find(text, `(?m)^\| \[`+name+`\][^|]*\|(.*)\|$`)
			if len(row) != 1 {
				t.Fatalf("rows of %s: got %d, want 1", name, len(row))
			}
			cell := strings.TrimSpace(strings.Split(row[0], "|")[column])
			if got := strings.HasPrefix(cell, "yes"); got != claimed {
				t.Errorf("%s of %s: the table says %q, the store claims %v", name, traits.Name, cell, claimed)
			}
		}
	}
}

func TestDocsListTheMutantsAndWhatKilledEach(t *testing.T) {
	var want []string
	for _, m := range mutants() {
		want = append(want, fmt.Sprintf("| %s | %s |", m.name, strings.Join(m.killers, ", ")))
	}
	got := find(read(t, "../../docs/testing.md"), `(?m)^(\| [a-z].* \| [A-Z]\w*(?:, [A-Z]\w*)* \|)$`)
	for _, row := range want {
		if !slices.Contains(got, row) {
			t.Errorf("docs/testing.md lacks the row\n%s", row)
		}
	}
	for _, row := range got {
		if !slices.Contains(want, row) {
			t.Errorf("docs/testing.md has a row for which there is no mutant:\n%s", row)
		}
	}
}

// Each guarantee has a mistake that it alone, or with others, finds: none of
// them is decoration.
func TestEveryGuaranteeKillsAMutant(t *testing.T) {
	killing := make(map[string]bool)
	for _, m := range mutants() {
		for _, name := range m.killers {
			killing[name] = true
			if !slices.Contains(drivertest.Guarantees(), name) {
				t.Errorf("%s: killed by %s, which is no guarantee", m.name, name)
			}
		}
	}
	for _, name := range drivertest.Guarantees() {
		if !killing[name] {
			t.Errorf("%s kills no mutant", name)
		}
	}
}
