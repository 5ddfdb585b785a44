package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
	"github.com/pawlock/pawl/cmd/pawl/internal/proc"
	"github.com/pawlock/pawl/cmd/pawl/internal/who"
)

// claimFlags are the flags of run and acquire.
type claimFlags struct {
	ttl      time.Duration
	wait     time.Duration
	noWait   bool
	shared   bool
	slots    int
	conflict int
	reason   string
}

const defaultTTL = 30 * time.Second

func (f *claimFlags) add(cmd *cobra.Command) {
	f.ttl, f.wait = defaultTTL, forever
	flags := cmd.Flags()
	flags.Var(durationFlag{value: &f.ttl}, "ttl", "how long the lock outlives a holder that has vanished")
	flags.VarP(durationFlag{value: &f.wait, forever: true}, "wait", "w", "how long to wait for the lock")
	flags.BoolVarP(&f.noWait, "no-wait", "n", false, "do not wait: exit 75 if the lock is held")
	flags.BoolVarP(&f.shared, "shared", "s", false, "share the lock with others who do; excludes those who do not")
	flags.IntVar(&f.slots, "slots", 1, "let `n` hold the lock at a time; all should agree on n")
	flags.IntVarP(&f.conflict, "conflict-exit-code", "E", exitBusy, "exit `code` if the lock is held, 0 to 255; 0 also prints nothing")
	flags.StringVar(&f.reason, "reason", "", "`text` shown to those who wait")
}

// request checks the flags.
func (f *claimFlags) request(cmd *cobra.Command, key, command string) (request, error) {
	changed := cmd.Flags().Changed
	switch {
	case f.conflict < 0 || f.conflict > 255:
		return request{}, usage("-E %d: an exit code is 0 to 255", f.conflict)
	case f.slots < 1:
		return request{}, usage("--slots %d: at least one is needed", f.slots)
	case f.shared && changed("slots"):
		return request{}, usage("--shared and --slots exclude each other")
	case f.noWait && changed("wait"):
		return request{}, usage("--no-wait and --wait exclude each other")
	case f.ttl <= 0:
		return request{}, usage("--ttl 0: a lock that never expires is not offered")
	}
	if f.noWait {
		f.wait = 0
	}
	return request{
		key: key, shared: f.shared, slots: f.slots, wait: f.wait, noWait: f.noWait, conflict: f.conflict,
		opts: pawl.Options{TTL: f.ttl, Label: who.Self(command, f.reason).String()},
	}, nil
}

// runFlags are the flags of run alone.
type runFlags struct {
	claimFlags
	killAfter  time.Duration
	maxRuntime time.Duration
	minHold    time.Duration
	group      string
	leftovers  string
}

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
password) and PAWL_LOCKS (all locks it runs under, a JSON array).

If the lock is lost, or can't be renewed, the command and all its processes are stopped before the
lock can go to another: TERM when --kill-after is left of the lease, KILL at its end. exit 79.
A process that it leaves behind when it ends is named, and the lock is released anyway; see
--leftovers.`,
		Example: `  pawl run deploy -- ./deploy.sh --verbose
  pawl run -n -E 0 nightly -- ./report.sh           # cron: skip quietly if it still runs
  pawl run --wait 10m --reason "release 2.41" deploy ./deploy.sh
  pawl run --slots 4 build make -j8                 # at most four at a time
  pawl run -s data ./read.sh                        # readers share, writers (without -s) exclude`,
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(cmd, &f, args) },
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.VarP(durationFlag{value: &f.killAfter}, "kill-after", "k", "time between TERM and KILL (default 5s, or a quarter of the TTL if that is less)")
	flags.Var(durationFlag{value: &f.maxRuntime}, "max-runtime", "stop the command after so long, exit 124")
	flags.Var(durationFlag{value: &f.minHold}, "min-hold", "keep the lock taken for so long at least, also if the command ends sooner")
	flags.StringVar(&f.group, "pgroup", "auto", "process group of the command: `auto`, same or new; auto is new where there is no terminal")
	flags.StringVar(&f.leftovers, "leftovers", "warn", "processes that outlive the command: `warn`, wait or kill")
	return cmd
}

// run is pawl run.
func (p *program) run(cmd *cobra.Command, f *runFlags, args []string) error {
	key, argv, err := cutCommand(cmd, args)
	if err != nil || argv == nil {
		return err
	}
	job := job{program: p, argv: argv, maxRuntime: f.maxRuntime}
	r, err := f.request(cmd, key, commandName(argv[0]))
	if err != nil {
		return err
	}
	if job.timing, err = f.timing(cmd.Flags().Changed("kill-after")); err != nil {
		return err
	}
	switch f.group {
	case "auto":
		job.newGroup = !proc.Terminal()
	case "new":
		job.newGroup = true
	case "same":
	default:
		return usage("--pgroup %s: it is auto, same or new", plain.Quote(f.group))
	}
	switch f.leftovers {
	case "warn", "wait", "kill":
		job.leftovers = f.leftovers
	default:
		return usage("--leftovers %s: it is warn, wait or kill", plain.Quote(f.leftovers))
	}
	if job.path, err = proc.Resolve(argv[0]); err != nil {
		return notStarted(err)
	}
	r.opts.RenewEvery, r.opts.MinHold = job.timing.renewEvery, f.minHold
	r.opts.Observer = job.observer()
	r.purpose = "The command was not run"
	s, err := p.openStore()
	if err != nil {
		return err
	}
	defer s.Close()
	signals := proc.Catch()
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
		return "", nil, usage("which lock? (see pawl run --help)")
	}
	key, argv = args[0], args[1:]
	flags := cmd.Flags()
	if flags.ArgsLenAtDash() < 0 { // no -- yet: it is still to come, and so may flags
		if err := flags.Parse(argv); err != nil {
			return "", nil, usage("%v (see pawl run --help)", err)
		}
		if help, _ := flags.GetBool("help"); help {
			return "", nil, cmd.Help()
		}
		if err := cmd.ValidateFlagGroups(); err != nil {
			return "", nil, usage("%v", err)
		}
		argv = flags.Args()
	}
	if len(argv) == 0 {
		return "", nil, usage("which command? pawl run %s -- COMMAND", plain.Shell(key))
	}
	return key, argv, nil
}

// A timing is when things happen before the end of a lease.
type timing struct {
	killAfter  time.Duration // TERM is sent so long before the end
	margin     time.Duration // KILL is sent so long before the end
	renewEvery time.Duration
}

// timing fits --kill-after into what the core leaves of the TTL: a hundredth is
// for clocks of unequal rate, and a tenth, but no more than a second, lies
// between the end of a lease and what the store keeps. Renewals come early
// enough that a healthy command is never told to stop: two fit in before TERM
// would be sent.
func (f *runFlags) timing(chosen bool) (timing, error) {
	t := timing{killAfter: f.killAfter, margin: min(500*time.Millisecond, f.ttl/10)}
	if !chosen {
		t.killAfter = min(5*time.Second, f.ttl/4)
	}
	t.killAfter = max(t.killAfter, t.margin)
	core := f.ttl/100 + min(time.Second, f.ttl/10)
	room := f.ttl - core - t.margin - t.killAfter
	if room <= 0 {
		return t, usage("--kill-after %s and a margin of %s do not fit into a --ttl of %s: the command could not be stopped before its lock ends",
			plain.Duration(t.killAfter), plain.Duration(t.margin+core), plain.Duration(f.ttl))
	}
	t.renewEvery = max(time.Millisecond, min(f.ttl/3, room/2))
	return t, nil
}

func notStarted(err error) error {
	var start *proc.StartError
	if errors.As(err, &start) {
		return fail(start.Code, "%v", err)
	}
	return &failure{code: exitInternal, text: fmt.Sprintf("%v. exit %d", err, exitInternal)}
}
