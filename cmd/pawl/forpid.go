package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/proc"
	"github.com/pawlock/pawl/driver"
)

// An errand is what acquire --for-pid tells the process that keeps the lock for
// it: on a pipe, since the URLs may have a password in them.
type errand struct {
	Handle string   `json:"handle"`
	URLs   []string `json:"urls"`
	PID    int      `json:"pid"`
}

// keepFor starts a process of its own that renews the lock of h until the
// process pid has ended, and then releases it.
func (p *program) keepFor(pid int, h handle) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"keep-for"}
	for _, flag := range [][2]string{{"--password-file", p.passwordFile}, {"--password-command", p.passwordCommand}} {
		if flag[1] != "" {
			args = append(args, flag[0], flag[1])
		}
	}
	cmd := exec.Command(self, args...)
	cmd.Args[0] = "pawl"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no Ctrl-C, and no terminal's end, is for it
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := json.NewEncoder(in).Encode(errand{h.String(), p.urls, pid}); err != nil {
		return err
	}
	_ = in.Close()
	// It says one line when it has begun.
	if b, _ := io.ReadAll(out); len(b) == 0 {
		return errors.New("the process that was to renew it has ended")
	}
	return nil
}

// keepForCommand is the process that keepFor starts.
func (p *program) keepForCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "keep-for",
		Short:  "Renew a lock while a process lives",
		Hidden: true,
		Args:   usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			var e errand
			if err := json.NewDecoder(os.Stdin).Decode(&e); err != nil {
				return usage("keep-for is started by acquire --for-pid")
			}
			h, err := parseHandle(e.Handle)
			if err != nil {
				return usage("%v", err)
			}
			p.quiet, p.urls = true, e.URLs
			s, err := p.openStore()
			if err != nil {
				return err
			}
			defer s.Close()
			gone, err := proc.Gone(e.PID)
			if err != nil {
				return usage("%v", err)
			}
			fmt.Fprintln(p.out, "renewing")
			if f, ok := p.out.(*os.File); ok {
				_ = f.Close() // acquire waits for it
			}
			return keepAll(s, h, gone)
		},
	}
}

// keepAll keeps each lock of h. One that is lost is not asked for again, but the
// others stay: the process still works under them, until it asks.
func keepAll(s *store, h handle, gone <-chan struct{}) error {
	all := h.all()
	failed := make([]error, len(all))
	var kept sync.WaitGroup
	for i, one := range all {
		kept.Go(func() { failed[i] = keep(s, one.claim(), gone) })
	}
	kept.Wait()
	return errors.Join(failed...)
}

// keep renews c until gone is closed, and then releases it. It returns when c is
// lost, which includes that somebody has released it.
func keep(s *store, c driver.Claim, gone <-chan struct{}) error {
	pause := c.TTL / 3
	for {
		select {
		case <-gone:
			_, err := persist(func(ctx context.Context) (driver.Grant, error) { return driver.Grant{}, s.Release(ctx, c) })
			return err
		case <-time.After(pause):
		}
		ctx, cancel := context.WithTimeout(context.Background(), c.TTL/3)
		grant, err := attempt(ctx, func(ctx context.Context) (driver.Grant, error) { return s.Renew(ctx, c) })
		cancel()
		pause = c.TTL / 3
		switch {
		case err == nil:
			c.Grant = grant
		case errors.Is(err, pawl.ErrLost):
			return &failure{code: exitLost}
		default:
			pause = min(pause, time.Second)
		}
	}
}
