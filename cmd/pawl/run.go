package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
	"github.com/pawlock/pawl/cmd/pawl/internal/proc"
	"github.com/pawlock/pawl/cmd/pawl/internal/who"
)

func (p *program) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] LOCK [flags] [--] COMMAND [ARG...]",
		Short: "Run a command while holding a lock",
		Long: `Run a command while holding a lock. Without LOCK being free it waits for its turn.

Flags stand before LOCK or right after it. With the first word that is none, or with --, the
command begins, and everything from there is the command's.

The command is run directly, without a shell, with the standard streams of pawl. It sees
PAWL_LOCK, PAWL_MODE (x, or s if the lock is shared), PAWL_FENCE (the number of the fencing token: hand
it to what you write to, or see pawl fence check), PAWL_HOLDER, PAWL_TTL_MS, PAWL_BACKEND (without
password) and PAWL_LOCKS (all locks it runs under, the outermost first: a JSON array of objects
with lock, mode, holder, fence and backend).

With --also it holds several locks: all of them, or none. They are acquired in the order of their
names, whatever the order they are given in, so that no two commands wait for each other; one that is
taken is waited for with those before it held. --wait is for all of them together. The variables but
PAWL_LOCKS tell of LOCK. The loss of one is the loss of all, and the others are given back when the
command has been stopped. Those who take more locks inside of a run can wait for each other: name in
one run all that is needed.

If the lock is lost, or can't be renewed, the command and all its processes are stopped before the
lock can go to another: TERM when --kill-after is left of the lease, KILL at its end. exit 79.
A process that it leaves behind when it ends is named, and the lock is released anyway; see
--leftovers.

At a Ctrl-Z all of it is stopped, and goes on with fg if the lock is still held then.

` + exitTable(),
		Example: `  pawl run deploy -- ./deploy.sh --verbose
  pawl run -n -E 0 nightly -- ./report.sh           # cron: skip quietly if it still runs
  pawl run --wait 10m --reason "release 2.41" deploy ./deploy.sh
  pawl run --slots 4 build make -j8                 # at most four at a time
  pawl run -s data ./read.sh                        # readers share, writers (without -s) exclude
  pawl run accounts --also ledger -- ./transfer.sh  # both, or none`,
		ValidArgsFunction: p.completeRun,
		RunE:              func(cmd *cobra.Command, args []string) error { return p.run(cmd, &f, args) },
	}
	f.add(cmd)
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// run is pawl run.
func (p *program) run(cmd *cobra.Command, f *runFlags, args []string) error {
	key, argv, err := cutCommand(cmd, args)
	if err != nil || argv == nil {
		return err
	}
	if err := f.period(cmd); err != nil {
		return err
	}
	if err := p.settle(cmd); err != nil {
		return err
	}
	if cmd.Flags().Changed("shell") {
		argv = append([]string{"sh", "-c", f.shell, "sh"}, argv...)
	}
	command, err := shownCommand(f.showCommand, argv)
	if err != nil {
		return err
	}
	r, err := f.request(cmd, key, who.Label{Command: command, MinHold: f.minHold, MaxRuntime: f.maxRuntime})
	if err != nil {
		return err
	}
	job, err := f.job(p, cmd, argv)
	if err != nil {
		return err
	}
	if job.status != nil {
		job.events = newEvents(key, job.status)
		defer job.events.close()
	}
	r.opts.RenewEvery, r.opts.MinHold = job.timing.renewEvery, f.minHold
	r.opts.Observer = job.observer()
	r.every = f.every
	r.purpose = "The command was not run"
	s, err := p.openStore()
	if err != nil {
		return err
	}
	defer s.Close()
	signals := proc.Catch(job.forward...)
	h, err := p.acquire(s, r, signals)
	if err != nil {
		return err
	}
	return job.run(h, signals)
}

// cutCommand takes LOCK, flags after it, and the first -- off the command. It
// returns no argv if help was asked for, and given.
func cutCommand(cmd *cobra.Command, args []string) (key string, argv []string, err error) {
	if len(args) == 0 {
		return "", nil, usage("which lock? (see pawl %s --help)", cmd.Name())
	}
	key, argv = args[0], args[1:]
	flags := cmd.Flags()
	if flags.ArgsLenAtDash() < 0 { // no -- yet: it is still to come, and so may flags
		if err := flags.Parse(argv); err != nil {
			return "", nil, usage("%v (see pawl %s --help)", err, cmd.Name())
		}
		if help, _ := flags.GetBool("help"); help {
			return "", nil, cmd.Help()
		}
		if err := cmd.ValidateFlagGroups(); err != nil {
			return "", nil, usage("%v", err)
		}
		argv = flags.Args()
	}
	if flags.Changed("shell") {
		return key, append([]string{}, argv...), nil // not nil: there is a command
	}
	if len(argv) == 0 {
		return "", nil, usage("which command? pawl %s %s -- COMMAND", cmd.Name(), plain.Shell(key))
	}
	return key, argv, nil
}

func notStarted(err error) error {
	var start *proc.StartError
	if errors.As(err, &start) {
		return fail(start.Code, "%v", err)
	}
	return &failure{code: exitInternal, text: fmt.Sprintf("%v. exit %d", err, exitInternal)}
}
