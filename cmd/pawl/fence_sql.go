package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlock/pawl/fence/fencesql"
)

func (p *program) fenceSQLCommand() *cobra.Command {
	var dialect string
	cmd := &cobra.Command{
		Use:   "sql --dialect postgres|mysql|sqlite",
		Short: "Print the table that guards in a database need",
		Long: `Print the statement that makes the table pawl_fence, in which package fencesql, and whoever follows
docs/protocol.md, remembers the highest tokens. It does nothing where the table exists. mysql is for
MariaDB too.`,
		Example: `  pawl fence sql --dialect postgres | psql invoices`,
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if dialect == "" {
				return usage("which --dialect? postgres, mysql or sqlite")
			}
			d, err := fencesql.ParseDialect(dialect)
			if err != nil {
				return usage("--dialect: %v", err)
			}
			_, err = fmt.Fprint(p.out, fencesql.Migration(d))
			return unprinted(err)
		},
	}
	cmd.Flags().StringVar(&dialect, "dialect", "", "`kind` of database: postgres, mysql or sqlite")
	return cmd
}
