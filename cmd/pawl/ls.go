package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
)

func (p *program) lsCommand() *cobra.Command {
	var asJSON bool
	var limit int
	var waiting bool
	var order string
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List the locks that are held",
		Long: `List the locks that are held, all of them or those whose names begin with PREFIX. How many wait is asked for
each lock by itself, and only for --waiting and --sort waiters.`,
		Example: `  pawl ls
  pawl ls deploy/ --sort age
  pawl ls --waiting --json`,
		Args:              usageArgs(cobra.MaximumNArgs(1)),
		ValidArgsFunction: p.completeLock,
		RunE: func(_ *cobra.Command, args []string) error {
			if !slices.Contains([]string{"name", "age", "ttl", "waiters"}, order) {
				return usage("--sort %s: it is name, age, ttl or waiters", plain.Quote(order))
			}
			prefix := ""
			if len(args) > 0 {
				prefix = args[0]
			}
			s, err := p.openStore()
			if err != nil {
				return err
			}
			defer s.Close()
			holders, err := p.list(s, prefix)
			if err != nil {
				return err
			}
			var waiters map[string]int
			if waiting || order == "waiters" {
				if waiters, err = p.waiters(s, holders); err != nil {
					return err
				}
			}
			if waiting {
				holders = slices.DeleteFunc(holders, func(h pawl.Holder) bool { return waiters[h.Key] == 0 })
			}
			sortHolders(holders, order, waiters)
			more := max(0, len(holders)-limit)
			holders = holders[:len(holders)-more]
			if asJSON {
				j := lsResult{Backend: s.name, Prefix: prefix, Holders: []holderJSON{}, More: more}
				for _, h := range holders {
					holder := holderToJSON(h)
					if n, ok := waiters[h.Key]; ok {
						holder.Waiting = &n
					}
					j.Holders = append(j.Holders, holder)
				}
				return p.printJSON(j)
			}
			return p.printList(holders, waiters, more)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&waiting, "waiting", false, "only locks that somebody waits for")
	cmd.Flags().StringVar(&order, "sort", "name", "`order`: name, age (longest held first), ttl (first to end first) or waiters (most first)")
	cmd.Flags().IntVar(&limit, "limit", 1000, "print at most `n` holders")
	return cmd
}

// lsResult is what ls --json prints.
type lsResult struct {
	Backend string       `json:"backend"`
	Prefix  string       `json:"prefix"`
	Holders []holderJSON `json:"holders"`
	More    int          `json:"more"` // left out by --limit
}

// list returns the holders of all locks that begin with prefix, by name.
func (p *program) list(s *store, prefix string) ([]pawl.Holder, error) {
	var holders []pawl.Holder
	err := look(func(ctx context.Context) error {
		for h, err := range s.List(ctx, prefix) {
			if err != nil {
				return err
			}
			if h.Held {
				holders = append(holders, h)
			}
		}
		return nil
	})
	if err != nil {
		return nil, p.unseen(s, err)
	}
	slices.SortFunc(holders, func(a, b pawl.Holder) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Grant.Token, b.Grant.Token), cmp.Compare(a.ID, b.ID))
	})
	return holders, nil
}

// waiters returns how many wait for each lock.
func (p *program) waiters(s *store, holders []pawl.Holder) (map[string]int, error) {
	waiting := map[string]int{}
	for _, h := range holders {
		if _, ok := waiting[h.Key]; ok {
			continue
		}
		state, err := p.inspect(s, h.Key, 1)
		if err != nil {
			return nil, err
		}
		waiting[h.Key] = state.Waiting
	}
	return waiting, nil
}

// sortHolders sorts holders, which are sorted by name. What is not known comes last.
func sortHolders(holders []pawl.Holder, order string, waiters map[string]int) {
	never := func(d time.Duration) time.Duration {
		if d < 0 {
			return forever
		}
		return d
	}
	slices.SortStableFunc(holders, func(a, b pawl.Holder) int {
		switch order {
		case "age":
			return cmp.Compare(b.Age, a.Age)
		case "ttl":
			return cmp.Compare(never(a.Left), never(b.Left))
		case "waiters":
			return cmp.Compare(waiters[b.Key], waiters[a.Key])
		}
		return 0
	})
}

func (p *program) printList(holders []pawl.Holder, waiters map[string]int, more int) error {
	if len(holders) == 0 {
		p.note("no lock is held")
		return nil
	}
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	column := ""
	if waiters != nil {
		column = "\tWAITING"
	}
	fmt.Fprintf(w, "LOCK\tHOLDER\tHELD FOR\tENDS IN\tMODE\tFENCE%s\tID\n", column)
	for _, h := range holders {
		age, left, fence := agesOf(h)
		id := "-"
		if !h.Foreign {
			id = plain.Text(shortID(h))
		}
		if waiters != nil {
			fence += fmt.Sprintf("\t%d", waiters[h.Key])
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", plain.Text(h.Key), processOf(h), age, left, modeOf(h), fence, id)
	}
	_ = w.Flush() // to memory
	if more > 0 {
		fmt.Fprintf(&b, "and %d more (--limit)\n", more)
	}
	head, rows, _ := strings.Cut(b.String(), "\n")
	_, err := fmt.Fprint(p.out, p.paint(p.out, bold, head)+"\n"+rows)
	return unprinted(err)
}

// agesOf returns for how long h has held, when it ends, and its token, as columns.
func agesOf(h pawl.Holder) (age, left, fence string) {
	age, left, fence = "?", "never", "?"
	if h.Age >= 0 {
		age = plain.Duration(h.Age)
	}
	if h.Left >= 0 {
		left = plain.Duration(h.Left)
	}
	if h.Grant.Token != 0 {
		fence = fmt.Sprint(h.Grant.Token)
	}
	return age, left, fence
}
