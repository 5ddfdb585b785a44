package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pawlock/pawl/cmd/pawl/internal/open"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
)

// configResult is what config show --json prints.
type configResult struct {
	Files    []string     `json:"files"` // that were read, the strongest first
	Settings []settingRow `json:"settings"`
}

type settingRow struct {
	Name   string `json:"name"`
	Value  string `json:"value"` // *** for a secret
	Origin string `json:"origin"`
}

func (p *program) configCommand() *cobra.Command {
	config := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var origin, asJSON bool
	show := &cobra.Command{
		Use:   "show",
		Short: "Print every setting, and where its value comes from",
		Long: `Print every setting that has a value in the environment, in a configuration file or by default, and with
--origin where the value comes from. Secrets are printed as ***.

A flag is stronger than the environment (--kill-after: PAWL_KILL_AFTER), and that than the configuration: the
file of --config or PAWL_CONFIG, else pawl/config.toml in the user's configuration folder ($XDG_CONFIG_HOME,
~/.config), and beneath it /etc/pawl/config.toml. There is none in the working directory.

  url = "redis://r1"                 # or a list, for a quorum
  password_file = "/etc/pawl/password"
  kill_after = "10s"

  [profile.prod]                     # --profile prod, or PAWL_PROFILE
  url = "rediss://lock.example.com"`,
		Example: `  pawl config show --origin
  pawl config show --profile prod`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := p.readConfig()
			if err != nil {
				return err
			}
			rows := p.settingRows(cmd, conf)
			if asJSON {
				return p.printJSON(configResult{Files: append([]string{}, conf.files...), Settings: rows})
			}
			var b bytes.Buffer
			w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
			for _, row := range rows {
				fmt.Fprintf(w, "%s\t%s", row.Name, plain.Text(row.Value))
				if origin {
					fmt.Fprintf(w, "\t%s", row.Origin)
				}
				fmt.Fprintln(w)
			}
			_ = w.Flush() // to memory
			_, err = p.out.Write(b.Bytes())
			return unprinted(err)
		},
	}
	show.Flags().BoolVar(&origin, "origin", false, "also print where each value comes from")
	show.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	config.AddCommand(show)
	return config
}

// settingRows are all settings, and the secrets beside them.
func (p *program) settingRows(cmd *cobra.Command, conf *config) []settingRow {
	var rows []settingRow
	run := p.runCommand()
	for _, s := range settings {
		v, ok := p.lookup(s, cmd.Flags(), conf)
		switch {
		case ok:
		case s == "url":
			v = value{[]string{""}, "default"}
			if target, err := open.Default(); err == nil {
				v.text[0] = target.String()
			}
		default:
			flag := cmd.Flags().Lookup(string(s))
			if flag == nil {
				flag = run.Flags().Lookup(string(s))
			}
			v = value{[]string{flag.DefValue}, "default"}
			if v.text[0] == "" {
				continue
			}
		}
		text := strings.Join(v.text, " ")
		if s == "url" {
			text = redacted(v.text)
		}
		rows = append(rows, settingRow{string(s), text, v.from})
	}
	for _, name := range secrets {
		if os.Getenv(name) != "" {
			rows = append(rows, settingRow{"password", "***", name})
		}
	}
	if credential() != "" {
		rows = append(rows, settingRow{"password", "***", "$CREDENTIALS_DIRECTORY"})
	}
	return rows
}

// redacted returns URLs as they may be printed.
func redacted(raws []string) string {
	var shown []string
	for _, raw := range raws {
		target, err := open.Parse(raw)
		if err != nil {
			shown = append(shown, "*** (not the URL of a store)")
			continue
		}
		text := target.String()
		if target.HasPassword || target.SentinelPassword != "" {
			text += " (password ***)"
		}
		shown = append(shown, text)
	}
	return strings.Join(shown, " ")
}
