package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
)

func (p *program) onceCommand() *cobra.Command {
	f := runFlags{once: true}
	cmd := &cobra.Command{
		Use:   "once --every PERIOD [flags] LOCK [flags] [--] COMMAND [ARG...]",
		Short: "Run a command at most once in a period, on one of many machines",
		Long: `Run a command at most once in a period, on whichever machine comes first. The others do not run it:
exit 75, or what -E says.

The store keeps LOCK until the period is over, counted from when the command was to start: whether it
succeeds or fails, and also if its machine crashes. What the clocks of the machines say does not
matter. A command that takes longer than the period keeps LOCK until it ends. To have it run again
before, see pawl show and pawl force-release.

From cron, which is as exact as its clock, give a period somewhat shorter than the time between two
runs, or a --wait that is longer than the clocks differ.

The command is run as pawl run does it, and stopped when the lock is lost.`,
		Example: `  pawl once --every 55m -E 0 hourly-bill -- ./bill.sh    # in the crontab of every machine: 0 * * * *
  pawl once --every 24h --wait 1m report -- ./report.sh`,
		ValidArgsFunction: p.completeRun,
		RunE:              func(cmd *cobra.Command, args []string) error { return p.run(cmd, &f, args) },
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.Var(durationFlag{value: &f.every}, "every", "the `period` in which the command is run once at most")
	f.wait = 0
	wait := flags.Lookup("wait")
	wait.DefValue, wait.Usage = "0s", "how long to wait for the period to be over"
	for _, name := range notForOnce {
		flags.Lookup(name).Hidden = true
	}
	return cmd
}

// notForOnce are the flags of run that make no sense for once.
var notForOnce = []string{"shared", "slots", "also", "min-hold", "no-wait"}

// period checks the flags of once, before the configuration has its say: what it
// has for locks that are waited for, or kept for a while, is not meant here.
func (f *runFlags) period(cmd *cobra.Command) error {
	if !f.once {
		return nil
	}
	for _, name := range notForOnce {
		if cmd.Flags().Changed(name) {
			return usage("--%s: not for pawl once, where one runs the command and the lock is kept for the period", name)
		}
	}
	if f.every <= 0 {
		return usage("--every: in which period is the command to be run once? 1h, say")
	}
	for _, name := range []string{"wait", "min-hold"} {
		cmd.Flags().Lookup(name).Changed = true // so that it stays as it is
	}
	return nil
}

// hadItsRun says who was first in the period.
func hadItsRun(r request, held *pawl.HeldError) *failure {
	again := ""
	if held.Left >= 0 {
		again = fmt.Sprintf("; the next run may begin in %s", plain.Duration(held.Left))
	}
	return &failure{text: fmt.Sprintf("%s has had its run of --every %s, by %s%s. exit %d",
		plain.Quote(r.keys[0]), plain.Duration(r.every), holderOf(held.Holder), again, r.conflict)}
}
