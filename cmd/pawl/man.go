package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func (p *program) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIRECTORY",
		Short:   "Write the manual pages",
		Long:    "Write a manual page for each command to a directory, which is made if it is not there.",
		Example: "  pawl man ~/.local/share/man/man1",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return fail(exitConfig, "cannot make the directory: %v", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // with a date no two builds were the same
			never := time.Unix(0, 0)
			err := doc.GenManTree(root, &doc.GenManHeader{Title: "PAWL", Section: "1", Source: "pawl " + versionOf(), Manual: "pawl", Date: &never}, args[0])
			if err != nil {
				return fail(exitConfig, "cannot write the manual pages: %v", err)
			}
			return nil
		},
	}
}
