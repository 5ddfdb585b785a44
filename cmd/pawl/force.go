package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
	"github.com/pawlock/pawl/cmd/pawl/internal/who"
	"github.com/pawlock/pawl/driver"
)

func (p *program) forceReleaseCommand() *cobra.Command {
	var id, why string
	var yes, asJSON bool
	cmd := &cobra.Command{
		Use:   "force-release LOCK --id HOLDER",
		Short: "Take a lock away from its holder",
		Example: `  pawl show deploy
  pawl force-release deploy --id 1f0c3a5e.1 --reason "host is gone, OPS-7"`,
		Long: `Take a lock away from its holder. That does not stop the holder's work: it learns of it when it renews,
and until then two may work at once. Only writes that check the fencing token are safe then.

HOLDER is the id that pawl show prints: if the holder has changed since, nothing is done. exit 75. On a terminal
the name of the lock has to be typed; elsewhere --yes has to be said. Who did it, from where, when and why, and whom
it was taken from, is kept with the lock for an hour or for its TTL, if that is more, where pawl show prints it, and told to the holder. No store keeps it
for longer: --json prints it as a record to keep.`,
		Args:              usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: p.completeLock,
		RunE: func(_ *cobra.Command, args []string) error {
			key := args[0]
			if id == "" {
				return usage("which holder? pawl show %s prints its id", plain.Shell(key))
			}
			s, err := p.openStore()
			if err != nil {
				return err
			}
			defer s.Close()
			h, err := p.holderByID(s, key, id)
			if err != nil {
				return err
			}
			if !yes {
				if err := p.confirm(key, h); err != nil {
					return err
				}
			}
			by := who.Self("", "")
			by.Forced = who.Forced{From: labelled(h), ID: shortID(h), Fence: h.Grant.Token}
			n := driver.Notice{Force: true, By: by.String(), Why: why}
			if err := driver.ValidateLabel(why); err != nil {
				return usage("--reason: %v", err)
			}
			_, err = persist(func(ctx context.Context) (driver.Grant, error) { return driver.Grant{}, s.Revoke(ctx, key, h.ID, n) })
			switch code := classify(err); {
			case err == nil:
				p.note("%s was taken from %s; its work goes on until it notices", plain.Quote(key), holderOf(h))
				if asJSON {
					old := holderToJSON(h)
					old.Lock = key
					return p.printJSON(forced{Lock: key, From: old, By: by.Holder(), Why: why, At: time.Now().UTC().Format(time.RFC3339Nano)})
				}
				return nil
			case errors.Is(err, pawl.ErrLost):
				return changed(key, id)
			default:
				return fail(code, "cannot force %s: %s", plain.Quote(key), plain.Text(reason(err)))
			}
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "`holder` to take it from, as pawl show prints it")
	cmd.Flags().StringVar(&why, "reason", "", "`text` that the holder is told")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a record of it as JSON")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// forced is what force-release --json prints.
type forced struct {
	Lock string     `json:"lock"`
	From holderJSON `json:"from"`
	By   string     `json:"by"`
	Why  string     `json:"why"`
	At   string     `json:"at"`
}

// labelled returns the process of h as its label has it.
func labelled(h pawl.Holder) string {
	if l, ok := who.Parse(labelOf(h)); ok {
		return l.Holder()
	}
	return labelOf(h)
}

func changed(key, id string) *failure {
	return fail(exitBusy, "nothing was done: %s does not hold %s, the holder has changed; look: pawl show %s", plain.Text(id), plain.Quote(key), plain.Shell(key))
}

// holderByID returns the holder of key that id, in full or in short, names.
func (p *program) holderByID(s *store, key, id string) (pawl.Holder, error) {
	state, err := p.inspect(s, key, wholeLine)
	if err != nil {
		return pawl.Holder{}, err
	}
	var found []pawl.Holder
	for _, h := range state.Holders {
		if h.Held && (h.ID == id || shortID(h) == id) {
			found = append(found, h)
		}
	}
	switch len(found) {
	case 0:
		return pawl.Holder{}, changed(key, id)
	case 1:
		return found[0], nil
	}
	return pawl.Holder{}, usage("%s names %d holders of %s: give the id in full, from pawl show --json", plain.Text(id), len(found), plain.Quote(key))
}

// confirm asks on a terminal for the name of the lock.
func (p *program) confirm(key string, h pawl.Holder) error {
	info, err := os.Stdin.Stat()
	null, _ := os.Stat(os.DevNull) // is a device, but nobody sits there
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || os.SameFile(info, null) {
		return usage("not forced: there is no terminal to confirm it on; say --yes")
	}
	alive := ""
	if h.Left >= 0 && h.TTL > 0 && h.Left >= h.TTL/3 {
		alive = fmt.Sprintf(" and WAS RENEWED %s ago: the holder is alive", plain.Duration(h.TTL-h.Left))
	}
	tokens := ""
	if h.Grant.Token != 0 {
		tokens = fmt.Sprintf(" (%d, the next is greater)", h.Grant.Token)
	}
	fmt.Fprintf(p.err, `%s is held by %s%s.
%sForcing does not stop it. Until it notices (at most %s), two processes may work at once;
only writes that check the fencing token%s are safe.
Type the lock name to go on: `, plain.Quote(key), holderOf(h), alive, indented(detailsOf(h, 0)), plain.Duration(max(h.Left, 0)), tokens)
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n') // at the end of input nothing was typed
	if strings.TrimRight(line, "\r\n") != key {
		return fail(exitUsage, "not forced: that is not the name of the lock")
	}
	return nil
}

// indented returns a line for text, and nothing for none.
func indented(text string) string {
	if text == "" {
		return ""
	}
	return "  " + text + "\n"
}
