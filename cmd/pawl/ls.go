package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
)

func (p *program) lsCommand() *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List the locks that are held",
		Long:  `List the locks that are held, all of them or those whose names begin with PREFIX.`,
		Args:  usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
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
			more := max(0, len(holders)-limit)
			holders = holders[:len(holders)-more]
			if asJSON {
				j := lsResult{Backend: s.name, Prefix: prefix, Holders: []holderJSON{}, More: more}
				for _, h := range holders {
					j.Holders = append(j.Holders, holderToJSON(h))
				}
				return p.printJSON(j)
			}
			return p.printList(holders, more)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
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

func (p *program) printList(holders []pawl.Holder, more int) error {
	if len(holders) == 0 {
		p.note("no lock is held")
		return nil
	}
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LOCK\tHOLDER\tHELD FOR\tENDS IN\tMODE\tFENCE\tID")
	for _, h := range holders {
		age, left, fence, id := "?", "never", "?", "-"
		if h.Age >= 0 {
			age = plain.Duration(h.Age)
		}
		if h.Left >= 0 {
			left = plain.Duration(h.Left)
		}
		if h.Grant.Token != 0 {
			fence = fmt.Sprint(h.Grant.Token)
		}
		if !h.Foreign {
			id = plain.Text(shortID(h))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", plain.Text(h.Key), processOf(h), age, left, modeOf(h), fence, id)
	}
	_ = w.Flush() // to memory
	if more > 0 {
		fmt.Fprintf(&b, "and %d more (--limit)\n", more)
	}
	_, err := p.out.Write(b.Bytes())
	return unprinted(err)
}
