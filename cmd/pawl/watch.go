package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
	"github.com/pawlock/pawl/cmd/pawl/internal/proc"
)

func (p *program) watchCommand() *cobra.Command {
	var asJSON bool
	interval := time.Second
	cmd := &cobra.Command{
		Use:   "watch [PREFIX...]",
		Short: "Watch locks being taken and released",
		Long: `Watch the locks whose names begin with a PREFIX, or all of them: as a table on a terminal, and as a line
for each event elsewhere. It looks every --interval: what comes and goes in between is not seen. It ends with
exit 0 when it is interrupted.

Events are held, freed, waiting (the number of those who wait has changed), trouble (the store can't be
reached) and resync: what follows is all that is held, at the beginning and after trouble.`,
		Example: `  pawl watch deploy
  pawl watch --json | jq 'select(.event == "freed")'`,
		ValidArgsFunction: p.completeLock,
		RunE: func(_ *cobra.Command, args []string) error {
			if interval < 50*time.Millisecond {
				return usage("--interval %s: at least 50ms are between two looks at a store", interval)
			}
			s, err := p.openStore()
			if err != nil {
				return err
			}
			defer s.Close()
			if len(args) == 0 {
				args = []string{""}
			}
			w := watcher{program: p, store: s, prefixes: args, json: asJSON}
			w.table = !asJSON && isTerminal(p.out)
			return w.run(interval)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, an object per line")
	cmd.Flags().Var(durationFlag{value: &interval}, "interval", "time between two looks at the store")
	return cmd
}

// A watcher tells what changes between two looks at a store.
type watcher struct {
	program  *program
	store    *store
	prefixes []string
	json     bool
	table    bool

	seq     int
	trouble bool
	seen    map[string]lockSeen // by key; nil before the first look
}

// A lockSeen is a lock as it was at a look.
type lockSeen struct {
	holders []pawl.Holder // in order of their tokens
	waiting int           // -1 if it was not asked for
}

// A watchEvent is a line of watch --json.
type watchEvent struct {
	Schema  string      `json:"schema"`
	Seq     int         `json:"seq"`  // from 1, without gaps
	Time    string      `json:"time"` // RFC 3339, UTC
	Event   string      `json:"event"`
	Lock    string      `json:"lock,omitempty"`
	Holder  *holderJSON `json:"holder,omitempty"`
	Waiting *int        `json:"waiting,omitempty"`
	Error   string      `json:"error,omitempty"`
}

func (w *watcher) run(interval time.Duration) error {
	signals := proc.Catch()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for first := true; ; first = false {
		locks, err := w.look()
		if err != nil && first {
			return w.program.unseen(w.store, err)
		}
		if err := w.tell(locks, err); err != nil {
			return err
		}
		for waiting := true; waiting; {
			select {
			case s := <-signals:
				if proc.Stops(s) {
					if w.table {
						fmt.Fprintln(w.program.out)
					}
					return nil
				}
			case <-tick.C:
				waiting = false
			}
		}
	}
}

// waitersAsked is for how many locks a look asks who waits: one request each.
const waitersAsked = 100

// look returns the locks that are held.
func (w *watcher) look() (map[string]lockSeen, error) {
	locks := map[string]lockSeen{}
	err := look(func(ctx context.Context) error {
		for _, prefix := range w.prefixes {
			if err := w.list(ctx, prefix, locks); err != nil {
				return err
			}
		}
		for i, key := range slices.Sorted(maps.Keys(locks)) {
			l := locks[key]
			l.waiting = -1
			if i < waitersAsked {
				state, err := w.store.Inspect(ctx, key, 1)
				if err != nil {
					return err
				}
				l.waiting = state.Waiting
			}
			locks[key] = l
		}
		return nil
	})
	return locks, err
}

func (w *watcher) list(ctx context.Context, prefix string, locks map[string]lockSeen) error {
	for h, err := range w.store.List(ctx, prefix) {
		if err != nil {
			return err
		}
		l := locks[h.Key]
		known := slices.ContainsFunc(l.holders, func(o pawl.Holder) bool { return o.ID == h.ID }) // by another prefix
		if h.Held && !known {
			l.holders = append(l.holders, h)
			slices.SortFunc(l.holders, func(a, b pawl.Holder) int { return strings.Compare(a.ID, b.ID) })
			locks[h.Key] = l
		}
	}
	return nil
}

// tell tells what has changed since the look before.
func (w *watcher) tell(locks map[string]lockSeen, err error) error {
	if w.table {
		return w.draw(locks, err)
	}
	switch {
	case err != nil && w.trouble:
		return nil
	case err != nil:
		w.trouble = true
		return w.event(watchEvent{Event: "trouble", Error: reason(err)})
	case w.trouble || w.seen == nil:
		w.trouble, w.seen = false, map[string]lockSeen{}
		if err := w.event(watchEvent{Event: "resync"}); err != nil {
			return err
		}
	}
	before := w.seen
	w.seen = locks
	all := maps.Clone(before)
	maps.Copy(all, locks)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if err := w.compare(key, before[key], locks[key]); err != nil {
			return err
		}
	}
	return nil
}

// compare tells what has become of the lock key.
func (w *watcher) compare(key string, old, now lockSeen) error {
	missing := func(from, in []pawl.Holder, event string) error {
		for _, h := range from {
			if slices.ContainsFunc(in, func(o pawl.Holder) bool { return o.ID == h.ID && o.Grant.Token == h.Grant.Token }) {
				continue
			}
			j := holderToJSON(h)
			if err := w.event(watchEvent{Event: event, Lock: key, Holder: &j}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := missing(old.holders, now.holders, "freed"); err != nil {
		return err
	}
	if err := missing(now.holders, old.holders, "held"); err != nil {
		return err
	}
	if now.waiting != old.waiting && now.waiting >= 0 && len(now.holders) > 0 {
		return w.event(watchEvent{Event: "waiting", Lock: key, Waiting: &now.waiting})
	}
	return nil
}

// event prints one event.
func (w *watcher) event(e watchEvent) error {
	w.seq++
	now := time.Now()
	e.Schema, e.Seq, e.Time = schema, w.seq, now.UTC().Format(time.RFC3339Nano)
	if w.json {
		b, err := json.Marshal(e)
		if err == nil {
			_, err = fmt.Fprintf(w.program.out, "%s\n", b)
		}
		return unprinted(err)
	}
	text := now.Format("15:04:05") + " " + e.Event
	if e.Lock != "" {
		text += " " + plain.Quote(e.Lock)
	}
	if e.Holder != nil {
		text += " " + processText(*e.Holder)
	}
	if e.Waiting != nil {
		text += fmt.Sprintf(" %d", *e.Waiting)
	}
	if e.Error != "" {
		text += ": " + plain.Text(e.Error)
	}
	_, err := fmt.Fprintln(w.program.out, text)
	return unprinted(err)
}

func processText(h holderJSON) string {
	if h.Host == "" {
		return plain.Text(h.Label)
	}
	text := fmt.Sprintf("%s pid %d", plain.Text(h.Host), h.PID)
	if h.User != "" {
		text = plain.Text(h.User) + "@" + text
	}
	if h.Fence != 0 {
		text += fmt.Sprintf(" (fence %d)", h.Fence)
	}
	return text
}

// What a terminal is told to begin a table anew.
const home, toEnd = "\x1b[H", "\x1b[J"

// draw draws the table of all locks.
func (w *watcher) draw(locks map[string]lockSeen, err error) error {
	var b bytes.Buffer
	tab := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "LOCK\tHOLDER\tHELD FOR\tENDS IN\tWAITING\tFENCE")
	for _, key := range slices.Sorted(maps.Keys(locks)) {
		l := locks[key]
		for _, h := range l.holders {
			waiting := "?"
			if l.waiting >= 0 {
				waiting = fmt.Sprint(l.waiting)
			}
			age, left, fence := agesOf(h)
			fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\n", plain.Text(key), processOf(h), age, left, waiting, fence)
		}
	}
	_ = tab.Flush() // to memory
	text := b.String()
	head, rows, _ := strings.Cut(text, "\n")
	screen := home + toEnd + w.program.paint(w.program.out, bold, head) + "\n" + rows
	switch {
	case err != nil:
		screen += fmt.Sprintf("cannot %s %s: %s; still trying\n", cannot(err), w.store.name, plain.Text(reason(err)))
	case len(locks) == 0:
		screen += "no lock is held\n"
	}
	_, err = fmt.Fprint(w.program.out, screen)
	return unprinted(err)
}
