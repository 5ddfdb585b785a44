package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
)

func (p *program) completionCommand() *cobra.Command {
	shells := map[string]func(*cobra.Command) error{
		"bash":       func(root *cobra.Command) error { return root.GenBashCompletionV2(p.out, true) },
		"zsh":        func(root *cobra.Command) error { return root.GenZshCompletion(p.out) },
		"fish":       func(root *cobra.Command) error { return root.GenFishCompletion(p.out, true) },
		"powershell": func(root *cobra.Command) error { return root.GenPowerShellCompletionWithDesc(p.out) },
	}
	names := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script that completes commands, flags and the names of locks",
		Long:  "Print a script for bash, zsh, fish or powershell that completes commands, flags and the names of locks that are held.",
		Example: `  source <(pawl completion bash)
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
		return nil, cobra.ShellCompDirectiveDefault
	}
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
