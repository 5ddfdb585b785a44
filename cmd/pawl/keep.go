package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/open"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
	"github.com/pawlock/pawl/driver"
)

func (p *program) renewCommand() *cobra.Command {
	var f handleFlags
	var ttl time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "renew LOCK --handle HANDLE",
		Short: "Restart the TTL of a lock that acquire has acquired",
		Example: `  pawl renew deploy --handle-file h
  pawl renew deploy --handle "$PAWL_HANDLE" --ttl 10m`,
		Long: `Restart the TTL of a lock that pawl acquire has acquired. exit 79 if the lock was lost: it is never
acquired again.`,
		Args:              usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: p.completeLock,
		RunE: func(cmd *cobra.Command, args []string) error {
			h, s, err := p.withHandle(&f, args[0])
			if err != nil {
				return err
			}
			defer s.Close()
			if cmd.Flags().Changed("ttl") {
				if err := driver.ValidateTTL("--ttl", ttl, s.Traits()); err != nil {
					return usage("%v", err)
				}
			}
			var grant driver.Grant // of the first that was renewed: it ends first
			var sent time.Time
			err = h.each(func(one handle) error {
				claim := one.claim()
				if cmd.Flags().Changed("ttl") {
					claim.TTL = ttl
				}
				began := time.Now()
				g, err := persist(func(ctx context.Context) (driver.Grant, error) {
					began = time.Now()
					return s.Renew(ctx, claim)
				})
				if err != nil {
					return p.notKept(s, one, "not renewed", err)
				}
				if sent.IsZero() {
					grant, sent = g, began
				}
				return nil
			})
			if err != nil {
				return err
			}
			if asJSON {
				left := grant.TTL - time.Since(sent)
				return p.printJSON(renewal{Lock: h.Key, Fence: h.Token, Holder: h.ID, TTL: grant.TTL.Milliseconds(), EndsIn: left.Milliseconds()})
			}
			return nil
		},
	}
	f.add(cmd)
	cmd.Flags().Var(durationFlag{value: &ttl}, "ttl", "another TTL than the lock was acquired with")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// renewal is what renew --json and check --json print.
type renewal struct {
	Lock   string `json:"lock"`
	Fence  uint64 `json:"fence"`
	Holder string `json:"holder"`
	TTL    int64  `json:"ttl_ms"`
	EndsIn int64  `json:"lease_ends_in_ms"`
}

func (p *program) releaseCommand() *cobra.Command {
	var f handleFlags
	cmd := &cobra.Command{
		Use:     "release LOCK --handle HANDLE",
		Short:   "Release a lock that acquire has acquired",
		Example: `  pawl release deploy --handle-file h`,
		Long: `Release a lock that pawl acquire has acquired. exit 79 if the handle does not hold it any more: what
was done under it may have overlapped another's work.`,
		Args:              usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: p.completeLock,
		RunE: func(_ *cobra.Command, args []string) error {
			h, s, err := p.withHandle(&f, args[0])
			if err != nil {
				return err
			}
			defer s.Close()
			return h.each(func(one handle) error {
				// A store may not know any more whether what is gone was released
				// or has expired. That it was still there must be seen before.
				_, err := persist(func(ctx context.Context) (driver.Grant, error) { return driver.Grant{}, one.check(ctx, s, nil) })
				if err == nil {
					_, err = persist(func(ctx context.Context) (driver.Grant, error) { return driver.Grant{}, s.Release(ctx, one.claim()) })
				}
				if err != nil {
					return p.notKept(s, one, "not released", err)
				}
				return nil
			})
		},
	}
	f.add(cmd)
	return cmd
}

func (p *program) checkCommand() *cobra.Command {
	var f handleFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check LOCK [--handle HANDLE]",
		Short: "Tell whether a lock is still held: exit 0 or 79",
		Example: `  pawl run deploy -- sh -c 'make build && pawl check deploy && make install'
  pawl check deploy --handle-file h`,
		Long: `Tell whether a lock is still held under a handle, exit 0, or was lost, exit 79. Without a handle it is
the lock that this process runs under, by PAWL_HOLDER and PAWL_FENCE, as pawl run has set them.`,
		Args:              usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: p.completeLock,
		RunE: func(_ *cobra.Command, args []string) error {
			h, s, err := p.withHandleOrEnv(&f, args[0])
			if err != nil {
				return err
			}
			defer s.Close()
			var first pawl.Holder // to end
			err = h.each(func(one handle) error {
				var holder pawl.Holder
				if _, err := persist(func(ctx context.Context) (driver.Grant, error) {
					return driver.Grant{}, one.check(ctx, s, &holder)
				}); err != nil {
					return p.notKept(s, one, "not held", err)
				}
				if first.ID == "" || holder.Left < first.Left {
					first = holder
				}
				return nil
			})
			if err != nil {
				return err
			}
			if asJSON {
				return p.printJSON(renewal{Lock: h.Key, Fence: h.Token, Holder: h.ID, TTL: first.TTL.Milliseconds(), EndsIn: first.Left.Milliseconds()})
			}
			return nil
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// each calls f for each lock of h, also after one has failed, and returns the
// first failure.
func (h handle) each(f func(one handle) error) error {
	var failed error
	for _, one := range h.all() {
		if err := f(one); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

func (p *program) withHandle(f *handleFlags, key string) (handle, *store, error) {
	h, err := f.read(key)
	if err != nil {
		return handle{}, nil, err
	}
	p.prefer(h.Store) // unless another one was named
	s, err := p.openStore()
	return h, s, err
}

// prefer makes the URL name, if it is one, stand in for a --url that was not
// given.
func (p *program) prefer(name string) {
	if _, err := open.Parse(name); err == nil && len(p.urls) == 0 {
		p.urls = []string{name}
	}
}

func (p *program) withHandleOrEnv(f *handleFlags, key string) (handle, *store, error) {
	holder := os.Getenv("PAWL_HOLDER")
	one, other := innermost(key)
	if os.Getenv("PAWL_LOCK") == key && holder != "" {
		token, err := strconv.ParseUint(os.Getenv("PAWL_FENCE"), 10, 64)
		if err != nil && !f.given() {
			return handle{}, nil, usage("PAWL_FENCE is not a number")
		}
		one, other = outerLock{Holder: holder, Fence: token, Backend: os.Getenv("PAWL_BACKEND")}, true
	}
	if f.given() || !other {
		return p.withHandle(f, key)
	}
	// The lock may be in another store than that of PAWL_URL, or of the
	// configuration, which is better if it is the same, for it has the password.
	backend := one.Backend
	if p.values["url"].from != "--url" && !names(p.urls, backend) {
		if _, err := open.Parse(backend); err == nil {
			p.urls = []string{backend}
		}
	}
	s, err := p.openStore()
	return handle{Store: backend, Key: key, ID: one.Holder, Token: one.Fence}, s, err
}

// names reports whether raws are the store that is called name.
func names(raws []string, name string) bool {
	var targets []*open.Target
	for _, raw := range raws {
		t, err := open.Parse(raw)
		if err != nil {
			return false
		}
		targets = append(targets, t)
	}
	if len(targets) == 0 {
		return false
	}
	target, err := open.Join(targets)
	return err == nil && target.String() == name
}

// check returns a *pawl.LostError unless h holds its key, and tells found what
// the store knows of it.
func (h handle) check(ctx context.Context, s *store, found *pawl.Holder) error {
	holder, err := find(ctx, s, h.Key, h.ID)
	switch {
	case err != nil:
		return err
	case holder == nil, holder.Grant.Token != 0 && h.Token != 0 && holder.Grant.Token != h.Token:
		return &pawl.LostError{Reason: driver.Expired}
	}
	if found != nil {
		*found = *holder
	}
	return nil
}

// persist calls f, which may be repeated, until the store has answered or
// patience is at its end.
func persist(f func(context.Context) (driver.Grant, error)) (driver.Grant, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		g, err := attempt(ctx, f)
		if err == nil || classify(err) != exitUnreachable || ctx.Err() != nil {
			return g, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return g, err
		}
	}
}

// attempt calls f, and waits no longer than for ctx whatever f does.
func attempt(ctx context.Context, f func(context.Context) (driver.Grant, error)) (driver.Grant, error) {
	type answer struct {
		grant driver.Grant
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		g, err := f(ctx)
		answers <- answer{g, err}
	}()
	select {
	case a := <-answers:
		return a.grant, a.err
	case <-ctx.Done():
		return driver.Grant{}, ctx.Err()
	}
}

// notKept says why a handle is of no use, and who has the lock now.
func (p *program) notKept(s *store, h handle, what string, err error) error {
	switch code := classify(err); code {
	case exitLost:
		return fail(code, "%s: this handle (%s) lost %s%s; %s", what, plain.Text(shortID(driver.Holder{Claim: h.claim()})), plain.Quote(h.Key),
			lostHow(err), p.nowHeld(s, h))
	case exitUnreachable:
		return fail(code, "%s: cannot %s %s: %s", what, cannot(err), s.name, plain.Text(reason(err)))
	default:
		return fail(code, "%s: %s", what, plain.Text(reason(err)))
	}
}

func lostHow(err error) string {
	var lost *pawl.LostError
	if errors.As(err, &lost) && lost.Notice != nil {
		return ": forced by " + byWhom(lost.Notice.By)
	}
	return ""
}

// nowHeld tells who has the lock of a handle that has not.
func (p *program) nowHeld(s *store, h handle) string {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	state, err := s.Inspect(ctx, h.Key, 1)
	switch {
	case err != nil:
		return "who holds it now is not known"
	case len(state.Holders) == 0 || !state.Holders[0].Held:
		if h.Store != "" && h.Store != s.name {
			return fmt.Sprintf("nobody holds it now in %s (the handle was made for %s)", s.name, plain.Text(h.Store))
		}
		return "nobody holds it now"
	}
	holder := state.Holders[0]
	text := "it now belongs to " + processOf(holder)
	if !holder.Foreign {
		text += " (" + plain.Text(shortID(holder)) + ")"
	}
	return text
}
