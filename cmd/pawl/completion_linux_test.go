package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlock/pawl/internal/testserver"
)

// completions are what is typed, up to the Tab, and the words that the program
// is given then.
var completions = []struct{ typed, want string }{
	{"pawl sho\t", "<show>"},
	{"pawl show dep\t", "<show><deploy/a>"},
	{"pawl show with\t", "<show><with space>"},
	{"pawl show quo\t", `<show><quo"t'e$x>`},
	{"pawl show col\t", "<show><col:on>"},
	{"pawl show col:\t", "<show><col:on>"},
	{"pawl run --also dep\t", "<run><--also><deploy/a>"},
	{"pawl run --on-lost ign\t", "<run><--on-lost><ignore>"},
	{"pawl run deploy/a --show-c\t", "<run><deploy/a><--show-command>"},
	{"pawl run deploy/a --show-command ful\t", "<run><deploy/a><--show-command><full>"},
	{"pawl run deploy/a --show-command=ful\t", "<run><deploy/a><--show-command=full>"},
	{"pawl run --pgroup=sa\t", "<run><--pgroup=same>"},
	{"pawl run deploy/a cat --show-command=ful\t", "<run><deploy/a><cat><--show-command=ful>"},
	{"pawl run deploy/a only-pro\t", "<run><deploy/a><only-program>"},
	{"pawl run -n deploy/a -- only-pro\t", "<run><-n><deploy/a><--><only-program>"},
	{"pawl run deploy/a cat only-f\t", "<run><deploy/a><cat><only-file>"},
	{"pawl run deploy/a ./only-f\t", "<run><deploy/a><./only-file>"},
}

// completionShell starts a shell at a terminal in a folder with a file, a program
// and locks to complete. There pawl prints what it is given.
func completionShell(t *testing.T, setup, name string, args ...string) *terminal {
	t.Helper()
	testserver.Require(t, name, name)
	c := startTerminal(t, name, args...)
	for _, key := range []string{"deploy/a", "with space", `quo"t'e$x`, "col:on"} {
		if code, out := ask(t, c.url, "acquire", key, "--ttl", "300"); code != 0 {
			t.Fatalf("acquire %q: got exit code %d, %s", key, code, out)
		}
	}
	for name, mode := range map[string]os.FileMode{"only-file": 0o600, "bin/only-program": 0o700} {
		name = filepath.Join(c.cmd.Dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	c.enter(setup + "\n")
	c.see("ready\r\n")
	return c
}

// completes has c complete each of completions. One that came to nothing is typed
// again: names of locks have 300 ms, and a busy machine may take longer.
func completes(t *testing.T, c *terminal) {
	t.Helper()
	for _, test := range completions {
		for try := 1; ; try++ {
			before := len(c.screen.String())
			c.enter(test.typed)
			time.Sleep(time.Duration(try) * 200 * time.Millisecond)
			c.enter("\n")
			eventually(t, "what "+test.typed+" is made of", func() bool { return strings.Contains(c.screen.String()[before:], "end\r\n") })
			if strings.Contains(c.screen.String()[before:], "got"+test.want+"end") {
				break
			}
			if try == 5 {
				t.Errorf("%q: got %q, want %s", test.typed, c.screen.String()[before:], test.want)
				break
			}
		}
	}
	// In a second, a shell that carries it out has done so.
	c.enter("pawl run --reason $(touch carried-out) dep\t")
	time.Sleep(time.Second)
	if _, err := os.Stat(filepath.Join(c.cmd.Dir, "carried-out")); err == nil {
		t.Error("what was typed has been carried out by completing it")
	}
}

func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	completes(t, completionShell(t, `PATH=$PATH:$PWD/bin; source <(pawl completion bash); pawl() { printf got; printf '<%s>' "$@"; echo end; }; echo ready`,
		"bash", "--norc", "--noprofile", "-i"))
}

func TestCompletionInZsh(t *testing.T) {
	t.Parallel()
	completes(t, completionShell(t, `PATH=$PATH:$PWD/bin; autoload -U compinit; compinit -u -D; source <(pawl completion zsh); pawl() { printf got; printf '<%s>' "$@"; echo end; }; echo ready`,
		"zsh", "-f", "-i"))
}

func TestCompletionInFish(t *testing.T) {
	t.Parallel()
	completes(t, completionShell(t, `set PATH $PATH $PWD/bin; pawl completion fish | source; function pawl; printf got; printf '<%s>' $argv; echo end; end; echo ready`,
		"fish", "--no-config", "--interactive"))
}
