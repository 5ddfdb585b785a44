package main

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/open"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
	"github.com/pawlock/pawl/cmd/pawl/internal/who"
	"github.com/pawlock/pawl/driver"
)

// claimFlags are the flags of run and acquire.
type claimFlags struct {
	ttl      time.Duration
	wait     time.Duration
	noWait   bool
	shared   bool
	slots    int
	also     []string
	conflict int
	reason   string
	meta     []string
	require  []string
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
	flags.StringArrayVar(&f.also, "also", nil, "acquire this `lock`, too, in the same way: all or none; may be repeated")
	flags.IntVarP(&f.conflict, "conflict-exit-code", "E", exitBusy, "exit `code` if the lock is held, 0 to 255; 0 also prints nothing")
	flags.StringVar(&f.reason, "reason", "", "`text` shown to those who wait")
	flags.StringArrayVar(&f.meta, "meta", nil, "`name=value` shown to those who look; may be repeated")
	flags.StringSliceVar(&f.require, "require", nil, "`promises` without which the lock is not taken, exit 78: "+strings.Join(promises, ", "))
}

// request checks the flags. The label tells what about has of the command.
func (f *claimFlags) request(cmd *cobra.Command, key string, about who.Label) (request, error) {
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
	keys := []string{key}
	for _, also := range f.also {
		if err := driver.ValidateKey(also); err != nil {
			return request{}, usage("--also %s: %v", plain.Quote(also), err)
		}
		if slices.Contains(keys, also) {
			return request{}, usage("--also %s: that lock is named twice, and would wait for itself", plain.Quote(also))
		}
		keys = append(keys, also)
	}
	for _, promise := range f.require {
		if !slices.Contains(promises, promise) {
			return request{}, usage("--require %s: it is one or more of %s", plain.Quote(promise), strings.Join(promises, ", "))
		}
	}
	if f.noWait {
		f.wait = 0
	}
	label := who.Self(about.Command, f.reason)
	label.MinHold, label.MaxRuntime = about.MinHold, about.MaxRuntime
	for _, pair := range f.meta {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return request{}, usage("--meta %s: it is name=value", plain.Quote(pair))
		}
		if err := label.Add(name, value); err != nil {
			return request{}, usage("--meta %s: %v", plain.Quote(pair), err)
		}
	}
	return request{
		keys: keys, shared: f.shared, slots: f.slots, wait: f.wait, noWait: f.noWait, conflict: f.conflict,
		opts: pawl.Options{TTL: f.ttl, Label: label.String()}, require: f.require,
	}, nil
}

// What --require can ask for.
var promises = []string{"exclusive", "fencing", "durable", "fair", "quorum"}

// kept returns a failure unless the store keeps what r requires.
func (r request) kept(s *store) error {
	traits := s.Traits()
	for _, promise := range r.require {
		ok, why := true, ""
		switch promise {
		case "exclusive":
			ok, why = s.target.Scheme != open.Memory, "its locks are seen by this process alone"
		case "fencing":
			ok, why = traits.Fencing, "its tokens need not rise"
		case "durable":
			ok, why = traits.Durable, "it may forget a lock when it crashes"
		case "fair":
			ok, why = traits.Fair, "those who wait are not served in order of arrival"
		case "quorum":
			ok, why = len(s.target.Nodes) > 0, "one server decides"
		}
		if !ok {
			return fail(exitConfig, "%s does not keep what --require %s asks for: %s. %s", s.name, promise, why, r.purpose)
		}
	}
	return nil
}

// What --show-command can be.
const (
	showName = "name"
	showFull = "full"
	showNone = "none"
)

// shownCommand is what the label of a holder tells of its command. Arguments may
// be secret: they are told only to those who ask for it.
func shownCommand(how string, argv []string) (string, error) {
	switch how {
	case showName:
		return commandName(argv[0]), nil
	case showFull:
		words := make([]string, len(argv))
		for i, arg := range argv {
			words[i] = plain.Shell(arg)
		}
		return strings.Join(words, " "), nil
	case showNone:
		return "", nil
	}
	return "", usage("--show-command %s: it is %s, %s or %s", plain.Quote(how), showName, showFull, showNone)
}
