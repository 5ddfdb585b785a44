package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write docs/cli.md anew")

// docs/cli.md is what the program says of itself. To write it anew:
//
//	go test ./cmd/pawl -run TestReference -update
func TestReferenceIsWhatTheProgramSays(t *testing.T) {
	const name = "../../docs/cli.md"
	var b bytes.Buffer
	fmt.Fprintf(&b, "# The command line\n\nWhat `pawl COMMAND --help` prints, for each command. A test compares this file with the program, and writes it:\n"+
		"`go test ./cmd/pawl -run TestReference -update`. [wrapper.md](wrapper.md) says how to use `pawl run` in cron, systemd, Kubernetes and scripts.\n")
	p := &program{out: &b, err: io.Discard}
	document(&b, p.root())
	want := b.String()
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the program says: run go test ./cmd/pawl -run TestReference -update", name)
	}
}

func document(b *bytes.Buffer, cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag() // it would come with the first use
	fmt.Fprintf(b, "\n## %s\n\n```\n", cmd.CommandPath())
	_ = cmd.Help() // to memory
	fmt.Fprint(b, "```\n")
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			document(b, c)
		}
	}
}

// Who asks for help wants to see how it is done.
func TestEveryHelpHasAnExample(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.IsAvailableCommand() && cmd.Runnable() && !cmd.HasAvailableSubCommands() && cmd.Name() != "help" && cmd.Example == "" {
			t.Errorf("%s: got no example in its help", cmd.CommandPath())
		}
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit((&program{out: io.Discard, err: io.Discard}).root())
}
