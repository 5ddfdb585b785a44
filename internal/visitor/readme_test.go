package visitor_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What stands before a block of shell commands that this test does not run,
// because CI does.
const byCI = "<!-- run by .ci/run -->"

// A block is a fenced part of a document.
type block struct {
	lang string
	text string
	mark string // the comment on the line before it, if there is one
	line int    // of its first line
}

// TestTheCommandsInTheReadmeRun runs every block of shell commands, as it is
// written, in one clone and in order. A program among them becomes the main.go
// of the folder that the commands have led to.
func TestTheCommandsInTheReadmeRun(t *testing.T) {
	repo := clone(t)
	readme := read(t, repo, "README.md")
	ci := read(t, repo, ".ci/run")

	script, commands := "set -euo pipefail\n", 0
	for _, b := range blocks(readme) {
		switch {
		case b.lang == "sh" && b.mark == byCI:
			for line := range strings.Lines(b.text) {
				if command, _, _ := strings.Cut(line, " #"); !strings.Contains(ci, "\n"+strings.TrimSpace(command)+"\n") {
					t.Errorf("README.md:%d: .ci/run does not run %q", b.line, strings.TrimSpace(line))
				}
			}
		case b.lang == "sh":
			script += b.text
			commands++
		case b.lang == "go" && strings.HasPrefix(b.text, "package main\n"):
			script += "cat >main.go <<'END OF PROGRAM'\n" + b.text + "END OF PROGRAM\ngofmt -d main.go | (! grep .)\n"
		}
	}
	if commands < 2 {
		t.Fatalf("got %d blocks of commands in the README, want at least one to try it and one to use it", commands)
	}
	t.Logf("%s", run(t, repo, nil, "bash", "-c", script))
}

// TestTheReadmeListsTheExitCodes compares its table with that of the program,
// which documents 0 and the code of the command in other words.
func TestTheReadmeListsTheExitCodes(t *testing.T) {
	var program struct {
		Codes []struct{ Code string } `json:"exit_codes"`
	}
	if err := json.Unmarshal([]byte(run(t, "../..", nil, "go", "run", "./cmd/pawl", "version", "--json")), &program); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, c := range program.Codes {
		if c.Code > "0" && c.Code < "a" {
			want = append(want, c.Code)
		}
	}
	for _, row := range regexp.MustCompile(`(?m)^\| ([0-9][0-9n+]*) \|`).FindAllStringSubmatch(read(t, "../..", "README.md"), -1) {
		got = append(got, row[1])
	}
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("got exit codes %q in the README, want those of the program, %q", got, want)
	}
}

// TestTheDocumentsPointSomewhere follows every relative link in every document.
func TestTheDocumentsPointSomewhere(t *testing.T) {
	repo := clone(t)
	links := 0
	err := filepath.WalkDir(repo, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".md" {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, part := range strings.Split(string(text), "](")[1:] {
			link, _, closed := strings.Cut(part, ")")
			link, _, _ = strings.Cut(link, "#")
			if !closed || link == "" || strings.Contains(link, "://") || strings.ContainsAny(link, " \n") {
				continue
			}
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), link)); err != nil {
				rel, _ := filepath.Rel(repo, name) // both are absolute
				t.Errorf("%s: the link to %s leads nowhere", rel, link)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if links == 0 {
		t.Error("got no links at all: this test does not look where it should")
	}
}

// TestTheArchitectureNamesWhatExists looks for every file and folder that
// ARCHITECTURE.md sends its reader to.
func TestTheArchitectureNamesWhatExists(t *testing.T) {
	names := 0
	for i, name := range strings.Split(read(t, "../..", "ARCHITECTURE.md"), "`") {
		outside := i%2 == 0 // of backquotes
		if outside || !strings.Contains(name, "/") && !strings.HasSuffix(name, ".go") || strings.HasPrefix(name, "testing/") || strings.Contains(name, "\n") {
			continue
		}
		names++
		if _, err := os.Stat(filepath.Join("../..", name)); err != nil {
			t.Errorf("ARCHITECTURE.md names %s, which does not exist", name)
		}
	}
	if names == 0 {
		t.Error("got no names at all: this test does not look where it should")
	}
}

func blocks(text string) []block {
	var all []block
	var open *block
	var before string
	number := 0
	for line := range strings.Lines(text) {
		number++
		lang, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && open == nil:
			open = &block{lang: lang, mark: before, line: number + 1}
		case fence:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += line
		}
		before = strings.TrimSpace(line)
	}
	return all
}

func read(t *testing.T, repo, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repo, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
