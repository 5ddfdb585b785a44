package main

import (
	"github.com/spf13/cobra"

	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
)

func (p *program) historyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "history LOCK",
		Short: "Tell who held a lock before, if the store knows",
		Long: `Tell who held a lock before. No store keeps that yet: exit 78. pawl show tells who was forced out lately;
pawl watch --json, and pawl run --status-file, write down what happens from now on.`,
		Args:   usageArgs(cobra.ExactArgs(1)),
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return fail(exitConfig, "no store keeps a history: pawl show %s tells who was forced out lately, and pawl watch --json writes down what happens from now on", plain.Shell(args[0]))
		},
	}
}
