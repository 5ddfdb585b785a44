package main

import (
	"context"
	"embed"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
)

// The scripts are our own where those of cobra carry out what is typed to complete
// it, such as $(rm x), and that for bash needs another package.
//
//go:embed completion
var shellScripts embed.FS

func (p *program) completionCommand() *cobra.Command {
	script := func(name string) func(*cobra.Command) error {
		return func(*cobra.Command) error {
			text, err := shellScripts.ReadFile("completion/pawl." + name)
			if err != nil {
				return err
			}
			_, err = p.out.Write(text)
			return err
		}
	}
	shells := map[string]func(*cobra.Command) error{
		"bash":       script("bash"),
		"zsh":        script("zsh"),
		"fish":       script("fish"),
		"powershell": func(root *cobra.Command) error { return root.GenPowerShellCompletionWithDesc(p.out) },
	}
	names := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script that completes commands, flags and the names of locks",
		Long: `Print a script for bash, zsh, fish or powershell that completes commands, flags and their values, the names of
locks that are held, and what pawl run is to run: programs, and then files.`,
		Example: `  source <(pawl completion bash)     # or zsh, there after compinit
  pawl completion fish >~/.config/fish/completions/pawl.fish`,
		Args:      usageArgs(cobra.ExactArgs(1)),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			generate, ok := shells[args[0]]
			if !ok {
				return usage("%s: the shells are %s", plain.Quote(args[0]), strings.Join(names, ", "))
			}
			return unprinted(generate(cmd.Root()))
		},
	}
}

// completionTime is how long the names of locks may take: somebody waits with a
// finger on the key.
const completionTime = 300 * time.Millisecond

// completeLock completes the first argument with the names of locks that are
// held. It never complains: what can't be looked up is not offered.
func (p *program) completeLock(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.lockNames(cmd, begun)
}

// lockNames returns the names of locks that are held and begin so.
func (p *program) lockNames(cmd *cobra.Command, begun string) ([]string, cobra.ShellCompDirective) {
	quiet := *p
	quiet.quiet, quiet.err = true, io.Discard
	found := make(chan []string, 1)
	go func() {
		var names []string
		defer func() { found <- names }()
		if quiet.settleQuietly(cmd) != nil {
			return
		}
		s, err := quiet.openStore()
		if err != nil {
			return
		}
		defer s.Close()
		ctx, cancel := context.WithTimeout(context.Background(), completionTime)
		defer cancel()
		for h, err := range s.List(ctx, begun) {
			if err != nil {
				return
			}
			if plain.Text(h.Key) == h.Key && !slices.Contains(names, h.Key) { // no key of control characters
				names = append(names, h.Key)
			}
		}
		slices.Sort(names)
	}()
	select {
	case names := <-found:
		return names, cobra.ShellCompDirectiveNoFileComp
	case <-time.After(completionTime):
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeRun completes LOCK, flags after it, and the command.
func (p *program) completeRun(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return p.lockNames(cmd, begun)
	}
	flags := cmd.Flags()
	words := p.typed(args[1:], &begun)
	if flags.ArgsLenAtDash() < 0 {
		if err := flags.Parse(words); err != nil {
			return p.completeValue(cmd, words, begun)
		}
		words = flags.Args()
		if len(words) == 0 && flags.ArgsLenAtDash() < 0 && strings.HasPrefix(begun, "-") {
			return flagNames(cmd, begun), cobra.ShellCompDirectiveNoFileComp
		}
	}
	if len(words) > 0 || flags.Changed("shell") || strings.Contains(begun, "/") {
		return nil, cobra.ShellCompDirectiveDefault // files
	}
	return programs(begun), cobra.ShellCompDirectiveDefault
}

// typed returns the words after LOCK, up to the one that is begun, as they were
// typed: where that may be the value of a flag cobra has taken the flag away.
func (p *program) typed(words []string, begun *string) []string {
	n := len(p.args)
	if n < 2 || !strings.HasPrefix(p.args[n-1], "-") && !strings.HasPrefix(p.args[n-2], "-") {
		return words
	}
	if flag, value, ok := strings.Cut(p.args[n-1], "="); ok && strings.HasPrefix(flag, "-") {
		*begun = value
		return append(slices.Clone(words), flag)
	}
	if flag := p.args[n-2]; strings.HasPrefix(flag, "-") && flag != "--" && (len(words) == 0 || words[len(words)-1] != flag) {
		return append(slices.Clone(words), flag)
	}
	return words
}

// completeValue completes the value of a flag after LOCK, which is the last of
// words.
func (p *program) completeValue(cmd *cobra.Command, words []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(words) > 0 {
		name := strings.TrimLeft(words[len(words)-1], "-")
		flag := cmd.Flags().Lookup(name)
		if len(name) == 1 {
			flag = cmd.Flags().ShorthandLookup(name)
		}
		if flag != nil {
			if complete, ok := cmd.GetFlagCompletionFunc(flag.Name); ok {
				return complete(cmd, nil, begun)
			}
		}
	}
	return nil, cobra.ShellCompDirectiveDefault
}

func flagNames(cmd *cobra.Command, begun string) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if name := "--" + f.Name; !f.Hidden && strings.HasPrefix(name, begun) {
			names = append(names, name)
		}
	})
	return names
}

// programs returns the names of programs in PATH that begin so.
func programs(begun string) []string {
	var names []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		entries, _ := os.ReadDir(dir) // or nothing is offered
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), begun) || plain.Text(e.Name()) != e.Name() {
				continue
			}
			if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// choices are the values of flags that have only so many.
var choices = map[string][]string{
	"on-lost":      {"kill", "signal:", "ignore"},
	"pgroup":       {"auto", "same", "new"},
	"leftovers":    {"warn", "wait", "kill"},
	"show-command": {showName, showFull, showNone},
	"sort":         {"name", "age", "ttl", "waiters"},
	"require":      promises,
	"color":        {"auto", "always", "never"},
	"log-format":   {"text", "json"},
	"kill-signal":  {"TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "KILL"},
}

// addChoices has the values of the flags of cmd, and of all commands below it,
// completed.
func (p *program) addChoices(cmd *cobra.Command) {
	complete := func(f *pflag.Flag) {
		switch values, ok := choices[f.Name]; {
		case ok:
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // once for each
		case f.Name == "also":
			_ = cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
				return p.lockNames(cmd, begun)
			})
		}
	}
	cmd.Flags().VisitAll(complete)
	cmd.PersistentFlags().VisitAll(complete)
	for _, child := range cmd.Commands() {
		p.addChoices(child)
	}
}
