package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
	"github.com/pawlock/pawl/cmd/pawl/internal/proc"
	"github.com/pawlock/pawl/cmd/pawl/internal/who"
)

func (p *program) acquireCommand() *cobra.Command {
	var f claimFlags
	var asJSON, export bool
	var file string
	var pid int
	cmd := &cobra.Command{
		Use:   "acquire LOCK",
		Short: "Acquire a lock for a script, and print a handle",
		Long: `Acquire a lock and print a handle, with which to renew, check and release it, and the fencing token.

Nobody renews the lock once acquire has ended: it is held until its TTL is over, unless pawl renew is
called before. With --for-pid a process in the background renews it until that process has ended, and
then releases it: --for-pid $$ is for the life of a script. Nothing stops a script whose lock is lost
nevertheless; it can ask with pawl check. Where one command can do the work, pawl run is safer: it renews, and stops the command
when the lock is lost.

With --also it acquires several locks, all of them or none. There is one handle for all, which is used
with the name LOCK; a line with the fence of each, in the order of the command line; and it does not
hold any more when one of them is lost.`,
		Example: `  eval "$(pawl acquire deploy --ttl 5m --export)"    # sets PAWL_HANDLE, PAWL_LOCK, PAWL_MODE, PAWL_FENCE
  ./deploy.sh && pawl release deploy

  pawl acquire deploy --for-pid $$ --handle-file h   # in a script: until it ends
  ./deploy.sh && pawl check deploy --handle-file h`,
		Args:              usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: p.completeLock,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := f.request(cmd, args[0], who.Label{})
			if err != nil {
				return err
			}
			r.purpose = "The lock was not acquired"
			if cmd.Flags().Changed("for-pid") {
				if _, err := proc.Gone(pid); err != nil {
					return usage("--for-pid: %v", err)
				}
			}
			s, err := p.openStore()
			if err != nil {
				return err
			}
			h, err := p.acquire(s, r, proc.Catch())
			if err != nil {
				_ = s.Close()
				return err
			}
			// Neither the client nor the store is closed: that would release
			// the lock, or could.
			handle := handleOf(h)
			if file != "" {
				if err := writeHandle(file, handle); err != nil {
					_ = h.Release(context.Background()) // it ends with its TTL otherwise
					return fail(exitConfig, "cannot write --handle-file: %v; the lock was released", err)
				}
			}
			if cmd.Flags().Changed("for-pid") {
				if err := p.keepFor(pid, handle); err != nil {
					_ = h.Release(context.Background()) // it ends with its TTL otherwise
					return fail(exitInternal, "cannot renew the lock in the background: %v; it was released", err)
				}
			}
			lease := h.first()
			ends := time.Until(h.Deadline())
			switch {
			case asJSON:
				v := acquired{
					Lock: lease.Key(), Handle: handle.String(), Fence: lease.Token(), Holder: lease.Holder(), Backend: s.name,
					TTL: handle.TTL, AcquiredAt: time.Now().UTC().Format(time.RFC3339Nano), EndsIn: ends.Milliseconds(),
				}
				if len(h.leases) > 1 {
					v.Locks = h.outer()
				}
				return p.printJSON(v)
			case export:
				_, err = fmt.Fprintf(p.out, "export PAWL_HANDLE=%s PAWL_LOCK=%s PAWL_MODE=%s PAWL_FENCE=%d\n", handle, plain.Shell(lease.Key()), mode(lease), lease.Token())
			case file != "":
				_, err = fmt.Fprint(p.out, fenceLines(h.leases))
			default:
				_, err = fmt.Fprintf(p.out, "handle=%s\n%s", handle, fenceLines(h.leases))
			}
			return unprinted(err)
		},
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	flags.BoolVar(&export, "export", false, "print for eval in a shell")
	flags.IntVar(&pid, "for-pid", 0, "renew the lock until the process `pid` has ended, and release it then")
	flags.StringVar(&file, "handle-file", "", "write the handle to `file`, which only its owner can read, rather than print it")
	cmd.MarkFlagsMutuallyExclusive("json", "export")
	return cmd
}

// acquired is what acquire --json prints.
type acquired struct {
	Lock       string `json:"lock"`
	Handle     string `json:"handle"`
	Fence      uint64 `json:"fence"`
	Holder     string `json:"holder"`
	Backend    string `json:"backend"`
	TTL        int64  `json:"ttl_ms"`
	AcquiredAt string `json:"acquired_at"`
	EndsIn     int64  `json:"lease_ends_in_ms"`

	Locks []outerLock `json:"locks,omitempty"` // of several
}

// fenceLines are the tokens of leases, a line each, in the order of the command
// line.
func fenceLines(leases []*pawl.Lease) string {
	text := ""
	for _, l := range leases {
		text += fmt.Sprintf("fence=%d\n", l.Token())
	}
	return text
}
