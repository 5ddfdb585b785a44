package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
	"github.com/pawlock/pawl/cmd/pawl/internal/who"
	"github.com/pawlock/pawl/driver"
)

// schema names the JSON that this program prints.
const schema = "pawl/v1"

func (p *program) showCommand() *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:   "show LOCK",
		Short: "Show who holds a lock, and who waits for it",
		Example: `  pawl show deploy
  pawl show -q deploy && echo "somebody deploys"
  pawl show deploy --json | jq .holders[].label`,
		Long: `Show who holds a lock, and who waits for it, in order of arrival. With -q it prints nothing, and exits
0 if the lock is held and 1 if it is free.`,
		Args:              usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: p.completeLock,
		RunE: func(_ *cobra.Command, args []string) error {
			key := args[0]
			if err := driver.ValidateKey(key); err != nil {
				return usage("%v", err)
			}
			s, err := p.openStore()
			if err != nil {
				return err
			}
			defer s.Close()
			state, err := p.inspect(s, key, limit)
			if err != nil {
				return err
			}
			switch {
			case p.quiet && !held(state):
				return &failure{code: exitNo}
			case p.quiet:
				return nil
			case asJSON:
				return p.printJSON(stateJSON(s, key, state))
			}
			return p.printState(s, key, state)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().IntVar(&limit, "limit", 100, "print at most `n` holders and waiters")
	return cmd
}

func held(state pawl.State) bool { return len(state.Holders) > 0 && state.Holders[0].Held }

// inspect looks key up.
func (p *program) inspect(s *store, key string, limit int) (pawl.State, error) {
	var state pawl.State
	err := look(func(ctx context.Context) (err error) {
		state, err = s.Inspect(ctx, key, limit)
		return err
	})
	if err != nil {
		return pawl.State{}, p.unseen(s, err)
	}
	return state, nil
}

// look calls f, which asks the store once, and bounds how long it takes.
func look(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return f(ctx)
}

// unseen says why a store can't be looked at.
func (p *program) unseen(s *store, err error) *failure {
	code := classify(err)
	if code == exitUnreachable {
		return fail(code, "cannot %s %s: %s", cannot(err), s.name, plain.Text(reason(err)))
	}
	return fail(code, "cannot look at %s: %s", s.name, plain.Text(reason(err)))
}

func (p *program) printState(s *store, key string, state pawl.State) error {
	var b []byte
	add := func(format string, args ...any) { b = fmt.Appendf(b, format+"\n", args...) }
	if !held(state) {
		last := ""
		if state.Last != 0 {
			last = fmt.Sprintf(" (last fence %d)", state.Last)
		}
		add("%s is free%s", plain.Quote(key), last)
	}
	place := 0
	for _, h := range state.Holders {
		if h.Held {
			add("%s is held by %s", plain.Quote(key), holderOf(h))
			if h.Foreign {
				add("  it was written by another program than pawl")
			}
			if d := detailsOf(h, state.Last); d != "" {
				add("  %s", d)
			}
			add("  lease: %s", leaseOf(h))
			if !h.Foreign {
				add("  mode: %s · id: %s", modeOf(h), plain.Text(shortID(h)))
			}
			continue
		}
		if place++; place == 1 {
			add("waiting: %d", state.Waiting)
		}
		line := fmt.Sprintf("  %d. %s", place, holderOf(h))
		if d := detailsOf(h, 0); d != "" {
			line += " · " + d
		}
		if !h.Exclusive() {
			line += " · " + modeOf(h)
		}
		add("%s", line)
	}
	if place > 0 && place < state.Waiting {
		add("  and %d more", state.Waiting-place)
	}
	for _, n := range state.Notices {
		verb := "was asked back"
		if n.Force {
			verb = "was forced out"
		}
		holder := "a holder"
		if l, _ := who.Parse(n.By); l.Forced.ID != "" {
			holder = fmt.Sprintf("%s (id %s, fence %d)", byWhom(l.Forced.From), plain.Text(l.Forced.ID), l.Forced.Fence)
		}
		line := fmt.Sprintf("notice: %s %s by %s at %s", holder, verb, byWhom(n.By), n.At.UTC().Format("2006-01-02 15:04:05 UTC"))
		if n.Why != "" {
			line += " (" + plain.Text(n.Why) + ")"
		}
		add("%s", line)
	}
	_, err := p.out.Write(b)
	return unprinted(err)
}

func byWhom(label string) string {
	if l, ok := who.Parse(label); ok {
		return l.Process()
	}
	return plain.Text(label)
}

// holderJSON is a holder, or a waiter, as JSON.
type holderJSON struct {
	Lock     string            `json:"lock"`
	ID       string            `json:"id"`
	ShortID  string            `json:"short_id"`
	Label    string            `json:"label"`
	User     string            `json:"user,omitempty"`
	Host     string            `json:"host,omitempty"`
	PID      int               `json:"pid,omitempty"`
	Command  string            `json:"command,omitempty"`
	Reason   string            `json:"reason,omitempty"`
	Meta     map[string]string `json:"meta,omitempty"`
	MinHold  int64             `json:"min_hold_ms,omitempty"`    // of run: the lock is kept for so long at least
	MaxRun   int64             `json:"max_runtime_ms,omitempty"` // of run: the command is stopped after so long
	Held     bool              `json:"held"`
	Foreign  bool              `json:"foreign"`
	Mode     string            `json:"mode"`
	Weight   int               `json:"weight"`
	Capacity int               `json:"capacity"`
	Fence    uint64            `json:"fence"`             // 0 if unknown
	TTL      int64             `json:"ttl_ms"`            // 0 if unknown
	Age      *int64            `json:"age_ms"`            // null if unknown
	EndsIn   *int64            `json:"lease_ends_in_ms"`  // null if never
	Waiting  *int              `json:"waiting,omitempty"` // ls --waiting: for the lock
}

func holderToJSON(h pawl.Holder) holderJSON {
	j := holderJSON{
		Lock: h.Key, ID: h.ID, ShortID: shortID(h), Label: labelOf(h), Held: h.Held, Foreign: h.Foreign, Mode: modeOf(h),
		Weight: h.Weight, Capacity: h.Capacity, Fence: h.Grant.Token, TTL: h.TTL.Milliseconds(),
		Age: milliseconds(h.Age), EndsIn: milliseconds(h.Left),
	}
	if l, ok := who.Parse(j.Label); ok && !h.Foreign {
		j.User, j.Host, j.PID, j.Command, j.Reason = l.User, l.Host, l.PID, l.Command, l.Reason
		j.MinHold, j.MaxRun = l.MinHold.Milliseconds(), l.MaxRuntime.Milliseconds()
		for _, m := range l.Meta {
			if j.Meta == nil {
				j.Meta = map[string]string{}
			}
			j.Meta[m.Name] = m.Value
		}
	}
	return j
}

func milliseconds(d time.Duration) *int64 {
	if d < 0 {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}

type noticeJSON struct {
	Force bool   `json:"force"`
	By    string `json:"by"`
	Why   string `json:"why"`
	At    string `json:"at"`                // by the store's clock
	From  string `json:"from,omitempty"`    // who was to let go, if pawl force-release said so
	ID    string `json:"from_id,omitempty"` // in short
	Fence uint64 `json:"from_fence,omitempty"`
}

func noticeToJSON(n driver.Notice) noticeJSON {
	j := noticeJSON{Force: n.Force, By: n.By, Why: n.Why, At: n.At.UTC().Format(time.RFC3339Nano)}
	if l, ok := who.Parse(n.By); ok && l.Forced.ID != "" {
		j.By, j.From, j.ID, j.Fence = l.Holder(), l.Forced.From, l.Forced.ID, l.Forced.Fence
	}
	return j
}

// shown is what show --json prints.
type shown struct {
	Backend string       `json:"backend"`
	Lock    string       `json:"lock"`
	Held    bool         `json:"held"`
	Holders []holderJSON `json:"holders"`
	Waiting int          `json:"waiting"`
	Waiters []holderJSON `json:"waiters"`
	Last    uint64       `json:"last_fence"`
	Notices []noticeJSON `json:"notices"`
}

func stateJSON(s *store, key string, state pawl.State) shown {
	j := shown{
		Backend: s.name, Lock: key, Held: held(state), Waiting: state.Waiting, Last: state.Last,
		Holders: []holderJSON{}, Waiters: []holderJSON{}, Notices: []noticeJSON{},
	}
	for _, h := range state.Holders {
		h.Key = key
		if h.Held {
			j.Holders = append(j.Holders, holderToJSON(h))
		} else {
			j.Waiters = append(j.Waiters, holderToJSON(h))
		}
	}
	for _, n := range state.Notices {
		j.Notices = append(j.Notices, noticeToJSON(n))
	}
	return j
}

// printJSON prints v, an object, with the schema as its first field.
func (p *program) printJSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fail(exitInternal, "%v", err)
	}
	_, err = fmt.Fprintf(p.out, "{\"schema\":%q,%s\n", schema, b[1:])
	return unprinted(err)
}

// unprinted makes a failure of what standard output says, except that nobody
// wants to read any more.
func unprinted(err error) error {
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return fail(exitInternal, "cannot write the output: %v", err)
}
