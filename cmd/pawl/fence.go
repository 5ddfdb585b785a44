package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
	"github.com/pawlock/pawl/cmd/pawl/internal/proc"
	"github.com/pawlock/pawl/fence"
	"github.com/pawlock/pawl/fence/fencefile"
)

func (p *program) fenceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fence",
		Short: "Let a resource refuse those who have lost its lock",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.fenceCheckCommand(), p.fenceSQLCommand())
	return cmd
}

// fenceFlags are the flags of fence check.
type fenceFlags struct {
	resource, state, lock, token string
	wait                         time.Duration
}

func (p *program) fenceCheckCommand() *cobra.Command {
	f := fenceFlags{wait: forever}
	cmd := &cobra.Command{
		Use:   "check --resource NAME --state FILE [-- COMMAND [ARG...]]",
		Short: "Check a fencing token, and run a command that writes if it is not stale",
		Long: `Check the fencing token of the lock that this process runs under against the highest that the
resource has seen. If it is smaller, another has written under a later hold: exit 79, and COMMAND is
not run. Else it is remembered in FILE, on disk, and COMMAND is run in place of pawl.

FILE.lock is locked until COMMAND, and all that it starts, has ended: nobody with a later token gets
in between, not even if COMMAND is killed and leaves something running. Those who come meanwhile
wait. Without COMMAND the token is only checked and remembered, and a write that follows is not
protected from a pause in between.

FILE belongs to the machine that the resource is on. The token is that of the lock named by PAWL_LOCK,
PAWL_MODE and PAWL_FENCE, as pawl run has set them; that of --lock, if it runs under several; or --token, which is how it gets to another
machine. Tokens are compared by one lock only: a resource that has seen one of another lock refuses.`,
		Example: `  pawl run deploy -- sh -c './build && pawl fence check --resource site --state /srv/fence -- ./install'
  pawl run deploy -- sh -c 'ssh web1 pawl fence check --resource site --state /srv/fence \
      --token "$PAWL_LOCK:$PAWL_MODE:$PAWL_FENCE" -- ./install'`,
		RunE: func(cmd *cobra.Command, args []string) error { return p.fenceCheck(&f, args) },
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.StringVar(&f.resource, "resource", "", "`name` of what is protected")
	flags.StringVar(&f.state, "state", "", "`file` that remembers the highest tokens")
	flags.StringVar(&f.token, "token", "", "`token` to check, as NAME:MODE:NUMBER (default that of PAWL_LOCK, PAWL_MODE and PAWL_FENCE)")
	flags.StringVar(&f.lock, "lock", "", "`name` of the lock of PAWL_LOCKS whose token to check (default that of PAWL_LOCK)")
	cmd.MarkFlagsMutuallyExclusive("lock", "token")
	flags.VarP(durationFlag{value: &f.wait, forever: true}, "wait", "w", "how long to wait for others that write under the same file")
	return cmd
}

func (p *program) fenceCheck(f *fenceFlags, argv []string) error {
	switch {
	case f.resource == "":
		return usage("which resource? --resource NAME (see pawl fence check --help)")
	case f.state == "":
		return usage("where are its tokens remembered? --state FILE (see pawl fence check --help)")
	}
	token, err := f.read()
	if err != nil {
		return err
	}
	write := func(context.Context) error { return nil }
	if len(argv) > 0 {
		path, err := proc.Resolve(argv[0])
		if err != nil {
			return notStarted(err)
		}
		write = func(ctx context.Context) error {
			lock, _ := fencefile.LockFromContext(ctx)
			return proc.Become(path, argv, lock)
		}
	}
	guard, err := fencefile.New(f.state)
	if err != nil {
		return fail(exitConfig, "cannot keep tokens in --state %s: %s", plain.Quote(f.state), plain.Text(err.Error()))
	}
	wait := max(f.wait, 100*time.Millisecond) // 0 still has to look whether it is free
	ctx, cancel := context.WithTimeoutCause(context.Background(), wait, errBusyState)
	defer cancel()
	return p.fenced(f, guard.Do(ctx, f.resource, token, write))
}

var errBusyState = errors.New("another write is under way")

// fenced says what err, of the check, means.
func (p *program) fenced(f *fenceFlags, err error) error {
	var stale *fence.StaleError
	var other *fence.OtherLockError
	var start *proc.StartError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &stale):
		return fail(exitLost, "stale token %s: %s has seen %s. The lock was lost, nothing was written",
			plain.Quote(stale.Token.String()), plain.Quote(stale.Resource), plain.Quote(stale.Highest.String()))
	case errors.As(err, &other):
		return fail(exitConfig, "%s is protected by the lock %s, and %s is of another: one resource, one lock. Nothing was written",
			plain.Quote(other.Resource), plain.Quote(other.Key), plain.Quote(other.Token.String()))
	case errors.Is(err, errBusyState):
		return fail(exitBusy, "another write under --state %s has not ended within %s. Nothing was written", plain.Quote(f.state), plain.Duration(f.wait))
	case errors.Is(err, pawl.ErrInvalid):
		return usage("%s", plain.Text(err.Error()))
	case errors.As(err, &start):
		return notStarted(err)
	}
	return fail(exitConfig, "cannot check the token: %s. Nothing was written", plain.Text(err.Error()))
}

// read returns the token that is to be checked.
func (f *fenceFlags) read() (pawl.Token, error) {
	text, from := f.token, "--token"
	if text == "" && f.lock != "" {
		l, ok := innermost(f.lock)
		if !ok || l.Fence == 0 {
			return pawl.Token{}, usage("there is no token: this process does not run under the lock %s, or PAWL_LOCKS is not set", plain.Quote(f.lock))
		}
		text, from = strings.Join([]string{l.Lock, l.Mode, strconv.FormatUint(l.Fence, 10)}, ":"), "PAWL_LOCKS"
	}
	if text == "" {
		from = "PAWL_LOCK, PAWL_MODE and PAWL_FENCE"
		number := os.Getenv("PAWL_FENCE")
		if number == "" {
			return pawl.Token{}, usage("there is no token: PAWL_FENCE is not set, as it is under pawl run, and --token is not given")
		}
		mode := os.Getenv("PAWL_MODE")
		if mode == "" {
			mode = "x" // refuses more than it would have to, if it was s
		}
		text = strings.Join([]string{os.Getenv("PAWL_LOCK"), mode, number}, ":")
	}
	token, err := pawl.ParseToken(text)
	if err != nil {
		return token, usage("%s: %s", from, plain.Text(err.Error()))
	}
	return token, nil
}

// mode is how lease holds its lock, as the text of a token has it.
func mode(lease *pawl.Lease) string {
	if pawl.TokenOf(lease).Shared {
		return "s"
	}
	return "x"
}
