// Command pawl runs commands under a distributed lock, and shows who holds
// what.
//
//	pawl run deploy -- ./deploy.sh
//
// Run pawl --help for the rest.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// A program is one invocation.
type program struct {
	out, err io.Writer
	args     []string // as they were typed

	urls            []string
	passwordFile    string
	passwordCommand string
	configFile      string
	profile         string
	color           string
	logFormat       string
	quiet           bool
	verbose         bool

	values map[setting]value // of all settings that have one
}

func main() {
	p := &program{out: os.Stdout, err: os.Stderr}
	os.Exit(p.execute(os.Args[1:]))
}

// execute returns the exit code. A command that died of a signal takes this
// process with it before that.
func (p *program) execute(args []string) (code int) {
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(p.err, "pawl: internal error: %v\n%s", r, debug.Stack())
			code = exitInternal
		}
	}()
	p.args = args
	root := p.root()
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	fail := asFailure(err)
	if fail.text != "" {
		p.say("%s", fail.text)
	}
	if fail.death != nil {
		fail.death.Die()
	}
	return fail.code
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "pawl",
		Short: "Run commands under a distributed lock",
		Example: `  pawl run deploy -- ./deploy.sh                       one at a time, the others wait
  pawl run -n nightly -- ./report.sh                   one at a time, the others give up (exit 75)
  pawl run --url redis://r1 --slots 3 build -- make    three at a time, on all machines that use r1
  pawl show deploy                                     who holds it, who waits`,
		Long: `pawl runs a command while it holds a lock, and stops it before the lock can go to
another. Without --url the locks are kept in a directory of this machine.

Stores (--url or PAWL_URL):
  file:///dir                                   a directory of this machine
  redis://[user[:password]@]host[:port][/db]    a Redis or Valkey server
  rediss://...                                  the same over TLS
  redis+unix://[user[:password]@]/path[?db=n]   the same over a Unix socket
  redis+sentinel://s1[:port],s2/master[/db]     the master that Sentinel names (rediss+sentinel: TLS)
  redis+cluster://h1[:port],h2                  a cluster, of which some nodes are named (rediss+cluster)
  redlock+redis://h1[:port],h2,h3[/db]          servers of which a majority decides (redlock+rediss)
  etcd://[user:password@]h1[:port],h2[/prefix]  an etcd cluster; prefix begins all keys (etcds: TLS)
  zk://[user:password@]h1[:port],h2[/root]      a ZooKeeper ensemble (zks: TLS)
  mem://                                        this process alone, to try things out

Parameters come after a ?, with & between them: ca, cert and key, PEM files for TLS, and insecure=true,
which trusts any server; sentinel_username and sentinel_password; quarantine=60s, the longest --ttl of
all clients, for which a server that may have forgotten its locks grants nothing; of ZooKeeper session=40s,
which bounds --ttl, and tick=2s, the servers' tickTime.

A password is better given in PAWL_PASSWORD or --password-file than in a URL on the command line,
where other users of the machine can read it. A file is read again for each new connection. For
sentinels of their own password there is PAWL_SENTINEL_PASSWORD.

` + exitTable(),
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if name := cmd.Name(); (name == "run" || name == "once") && cmd.Parent() == cmd.Root() {
				return nil // more flags may stand after LOCK
			}
			return p.settle(cmd)
		},
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetHelpTemplate(helpTemplate)
	root.SetOut(p.out)
	root.SetErr(p.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%v (see %s --help)", err, cmd.CommandPath())
	})
	flags := root.PersistentFlags()
	flags.StringArrayVar(&p.urls, "url", nil, "`store` that keeps the locks; several are the servers of a quorum (default PAWL_URL, else a directory of this machine)")
	flags.StringVar(&p.passwordFile, "password-file", "", "`file` with the password of the store on its first line")
	flags.StringVar(&p.passwordCommand, "password-command", "", "`command` for sh that prints the password of the store on its first line")
	flags.StringVar(&p.configFile, "config", "", "configuration `file` (default PAWL_CONFIG, else see pawl config show --help)")
	flags.StringVar(&p.profile, "profile", "", "`name` of a profile in the configuration (default PAWL_PROFILE)")
	flags.StringVar(&p.color, "color", "auto", "`when` to use colours: auto, always or never")
	flags.StringVar(&p.logFormat, "log-format", "text", "`format` of messages on standard error: text or json")
	flags.BoolVarP(&p.quiet, "quiet", "q", false, "print errors only")
	flags.BoolVarP(&p.verbose, "verbose", "v", false, "also say what goes well")
	root.MarkFlagsMutuallyExclusive("quiet", "verbose")
	root.AddCommand(
		p.runCommand(), p.onceCommand(), p.acquireCommand(), p.renewCommand(), p.releaseCommand(), p.checkCommand(),
		p.lsCommand(), p.showCommand(), p.watchCommand(), p.historyCommand(), p.forceReleaseCommand(), p.fenceCommand(), p.versionCommand(),
		p.configCommand(), p.completionCommand(), p.manCommand(), p.keepForCommand(),
	)
	p.addChoices(root)
	return root
}

// helpTemplate has the examples first: most who ask for help want one.
const helpTemplate = `{{.Short}}.

Usage:
  {{if .Runnable}}{{.UseLine}}{{else}}{{.CommandPath}} COMMAND{{end}}
{{if .HasExample}}
Examples:
{{.Example}}
{{end}}
{{.Long | trimTrailingWhitespaces}}
{{if .HasAvailableSubCommands}}
Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}
{{end}}{{if .HasAvailableLocalFlags}}
Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}{{if .HasAvailableInheritedFlags}}
Flags of all commands:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}{{if .HasAvailableSubCommands}}
{{.CommandPath}} COMMAND --help tells more.
{{end}}`

// say writes a message of one or more lines to standard error; those after the
// first are indented.
func (p *program) say(format string, args ...any) {
	p.write(fmt.Sprintf("pawl: "+format, args...))
}

// more writes another line of the message before.
func (p *program) more(format string, args ...any) {
	p.write(fmt.Sprintf("      "+format, args...))
}

// note is a message that --quiet leaves out.
func (p *program) note(format string, args ...any) {
	if !p.quiet {
		p.say(format, args...)
	}
}

// usageArgs makes the complaint of a positional argument check a usage failure.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usage("%v (see %s --help)", err, cmd.CommandPath())
		}
		return nil
	}
}

func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	// What cobra itself complains about is what was typed.
	return &failure{code: exitUsage, text: fmt.Sprintf("%v (see pawl --help). exit %d", err, exitUsage)}
}
