package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionResult is what version --json prints.
type versionResult struct {
	Version string    `json:"version"`
	Commit  string    `json:"commit"`
	Go      string    `json:"go"`
	OS      string    `json:"os"`
	Arch    string    `json:"arch"`
	Codes   []codeRow `json:"exit_codes"`
}

func (p *program) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  pawl version --json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			v := versionResult{Version: versionOf(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Codes: codeTable()}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v.Commit = s.Value
					}
				}
			}
			if asJSON {
				return p.printJSON(v)
			}
			_, err := fmt.Fprintf(p.out, "pawl %s (%s %s/%s)\n", v.Version, v.Go, v.OS, v.Arch)
			return unprinted(err)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with the table of exit codes")
	return cmd
}

// release is the version that the linker was told, of a release.
var release string

// versionOf returns the version of this program.
func versionOf() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}
