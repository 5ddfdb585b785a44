package main

import (
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
	"github.com/pawlock/pawl/cmd/pawl/internal/proc"
)

// runFlags are the flags of run alone.
type runFlags struct {
	claimFlags
	killAfter   time.Duration
	killSignal  string
	maxRuntime  time.Duration
	minHold     time.Duration
	once        bool          // of pawl once
	every       time.Duration // of pawl once alone
	onLost      string
	group       string
	leftovers   string
	shell       string
	showCommand string
	forward     []string
	okSignals   []string
	statusFD    int
	statusFile  string
	scrubEnv    bool
}

func (f *runFlags) add(cmd *cobra.Command) {
	f.claimFlags.add(cmd)
	flags := cmd.Flags()
	flags.VarP(durationFlag{value: &f.killAfter}, "kill-after", "k", "time between the --kill-signal and KILL (default 5s, or a quarter of the TTL if that is less)")
	flags.StringVar(&f.killSignal, "kill-signal", "TERM", "`signal` that asks the command to end")
	flags.Var(durationFlag{value: &f.maxRuntime}, "max-runtime", "stop the command after so long, exit 124")
	flags.Var(durationFlag{value: &f.minHold}, "min-hold", "keep the lock taken for so long at least, also if the command ends sooner")
	flags.StringVar(&f.onLost, "on-lost", "kill", "what to do when the lock is lost: `kill`, signal:NAME or ignore; exit 79 in any case")
	flags.StringVar(&f.group, "pgroup", "auto", "process group of the command: `auto`, same or new; auto is new where there is no terminal")
	flags.StringVar(&f.leftovers, "leftovers", "warn", "processes that outlive the command: `warn`, wait or kill")
	flags.StringVarP(&f.shell, "shell", "c", "", "run `string` with sh; words after LOCK are its $1, $2 and so on")
	flags.StringVar(&f.showCommand, "show-command", showName, "what others see of the command: its `name`, full (with its arguments) or none")
	flags.StringSliceVar(&f.forward, "forward", nil, "pass these `signals` on to the command, too")
	flags.StringSliceVar(&f.okSignals, "ok-signals", nil, "exit 0 if the command ends by one of these `signals`, or with 128+n as a shell does")
	flags.IntVar(&f.statusFD, "status-fd", -1, "write what happens to file descriptor `n`, a JSON object per line")
	flags.StringVar(&f.statusFile, "status-file", "", "write what happens to `file`, a JSON object per line")
	flags.BoolVar(&f.scrubEnv, "scrub-env", false, "keep passwords of the store from the command's environment")
	cmd.MarkFlagsMutuallyExclusive("status-fd", "status-file")
}

// job checks the flags, and returns the job of running argv.
func (f *runFlags) job(p *program, cmd *cobra.Command, argv []string) (*job, error) {
	j := &job{program: p, argv: argv, maxRuntime: f.maxRuntime, scrub: f.scrubEnv}
	var err error
	if j.timing, err = f.timing(cmd.Flags().Changed("kill-after")); err != nil {
		return nil, err
	}
	switch f.group {
	case "auto":
		j.newGroup = !proc.Terminal()
	case "new":
		j.newGroup = true
	case "same":
	default:
		return nil, usage("--pgroup %s: it is auto, same or new", plain.Quote(f.group))
	}
	switch f.leftovers {
	case "warn", "wait", "kill":
		j.leftovers = f.leftovers
	default:
		return nil, usage("--leftovers %s: it is warn, wait or kill", plain.Quote(f.leftovers))
	}
	if j.killSignal, err = parseSignal("--kill-signal", f.killSignal); err != nil {
		return nil, err
	}
	if err := f.lostPolicy(j); err != nil {
		return nil, err
	}
	for _, name := range f.okSignals {
		s, err := parseSignal("--ok-signals", name)
		if err != nil {
			return nil, err
		}
		j.okSignals = append(j.okSignals, s)
	}
	for _, name := range f.forward {
		s, err := parseSignal("--forward", name)
		if err != nil {
			return nil, err
		}
		if s == syscall.SIGKILL || s == syscall.SIGSTOP || s == syscall.SIGCHLD || s == syscall.SIGURG {
			return nil, usage("--forward %s: that signal can't be passed on", plain.Quote(name))
		}
		j.forward = append(j.forward, s)
	}
	if j.path, err = proc.Resolve(argv[0]); err != nil {
		return nil, notStarted(err)
	}
	status, err := openStatus(f.statusFD, f.statusFile)
	if err != nil {
		return nil, err
	}
	j.status = status
	return j, nil
}

func (f *runFlags) lostPolicy(j *job) error {
	kind, name, _ := strings.Cut(f.onLost, ":")
	switch {
	case f.onLost == "kill", f.onLost == "ignore":
		j.onLost = kind
	case kind == "signal" && name != "":
		s, err := parseSignal("--on-lost", name)
		if err != nil {
			return err
		}
		j.onLost, j.lostSignal = kind, s
	default:
		return usage("--on-lost %s: it is kill, signal:NAME or ignore", plain.Quote(f.onLost))
	}
	return nil
}

// parseSignal reads TERM, SIGTERM, RTMIN+1 or a number.
func parseSignal(flag, s string) (syscall.Signal, error) {
	name := strings.TrimPrefix(strings.ToUpper(s), "SIG")
	n, err := strconv.Atoi(name)
	if rest, ok := strings.CutPrefix(name, "RTMIN"); ok && err != nil {
		if n, err = 0, nil; rest != "" {
			n, err = strconv.Atoi(strings.TrimPrefix(rest, "+"))
		}
		n += rtmin
	}
	if err != nil {
		n = int(unix.SignalNum("SIG" + name))
	}
	last := 31
	if runtime.GOOS == "linux" {
		last = 64
	}
	if n < 1 || n > last {
		return 0, usage("%s %s: there is no such signal", flag, plain.Quote(s))
	}
	return syscall.Signal(n), nil
}

// rtmin is the first of Linux's real-time signals that its C library leaves to
// programs.
const rtmin = 34
