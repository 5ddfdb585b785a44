package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawlock/pawl/internal/testserver"
)

// The race detector has every process that it is in sleep for a second at its
// end, unless told not to.
const quickEnd = "atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	os.Setenv("GORACE", quickEnd)
	testscript.Main(tests{m}, map[string]func(){
		"pawl":   main,
		"status": status,
		"await":  await,
		"tree":   tree,
		"apart":  apart,
	})
}

type tests struct{ *testing.M }

// Run runs the tests, and not the commands that the binary is as well, with no
// signal ignored: nohup, or an & in a script, are not for the processes that
// the tests start.
func (t tests) Run() int {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	return t.M.Run()
}

// status runs a command and exits with 0 if that ends as its first argument
// says: a number is an exit code, a name is a signal that it died of.
func status() {
	cmd := exec.Command(os.Args[2], os.Args[3:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	_ = cmd.Run()
	got := "not started"
	if cmd.ProcessState != nil {
		ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
		got = strconv.Itoa(ws.ExitStatus())
		if ws.Signaled() {
			got = ws.Signal().String()
		}
	}
	if got != os.Args[1] {
		fmt.Fprintf(os.Stderr, "status of %q: got %s, want %s\n", os.Args[2:], got, os.Args[1])
		os.Exit(1)
	}
}

// await runs a command until it exits with 0, for at most 20 seconds.
func await() {
	for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(10 * time.Millisecond) {
		if exec.Command(os.Args[1], os.Args[2:]...).Run() == nil {
			return
		}
	}
	fmt.Fprintf(os.Stderr, "%q never succeeded\n", os.Args[1:])
	os.Exit(1)
}

// tree is a command that has left its processes in every way there is, and
// ignores TERM. It writes their process IDs to the file that is its argument:
// itself, a child, one in a session of its own, one that has lost its parent,
// and one in a process group of its own.
func tree() {
	signal.Ignore(syscall.SIGTERM)
	script := `echo $$ >>"$1"; trap "" TERM HUP
sh -c 'echo $$ >>"$1"; trap "" TERM; while :; do sleep 1; done' sh "$1" &
setsid sh -c 'echo $$ >>"$1"; trap "" TERM; while :; do sleep 1; done' sh "$1" &
(setsid sh -c 'setsid sh -c "echo \$\$ >>\"$1\"; trap \"\" TERM HUP; while :; do sleep 1; done" &' sh "$1" &)
set -m; sh -c 'echo $$ >>"$1"; while :; do sleep 1; done' sh "$1" &
while :; do sleep 1; done`
	if err := syscall.Exec("/bin/sh", []string{"sh", "-c", script, "sh", os.Args[1]}, os.Environ()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// apart is a command that makes a process group of its own, and exits with 5 when
// it gets INT.
func apart() {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	if err := syscall.Setpgid(0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ready")
	fmt.Println("got", <-interrupted)
	os.Exit(5)
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"terminate": send(syscall.SIGTERM), "interrupt": send(syscall.SIGINT),
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", quickEnd)
			env.Setenv("PAWL_URL", "file://"+env.WorkDir+"/locks")
			return nil
		},
	})
}

// send returns a command of scripts that sends s to the background command whose
// command line has the text args[0] in it.
func send(s syscall.Signal) func(ts *testscript.TestScript, _ bool, args []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		for _, cmd := range ts.BackgroundCmds() {
			if strings.Contains(strings.Join(cmd.Args, " "), args[0]) {
				ts.Check(cmd.Process.Signal(s))
				return
			}
		}
		ts.Fatalf("no background command is %s", args[0])
	}
}

// TestRedisScripts runs the scripts that need a server, on one of their own
// each.
func TestRedisScripts(t *testing.T) {
	t.Parallel()
	testserver.Require(t, "redis", testserver.Program(), "redis-cli")
	r := testserver.StartRedis(t, testserver.RedisOptions{Socket: true})
	locked := testserver.StartRedis(t, testserver.RedisOptions{Args: []string{"--requirepass", "open sesame"}})
	r.Do("ACL", "SETUSER", "locker", "on", ">old", "~*", "&*", "+@all")
	certs := testserver.NewCertificates(t)
	secure := testserver.StartRedis(t, testserver.RedisOptions{TLS: certs, AnyClient: true})
	var quorum [3]string
	for i := range quorum {
		quorum[i] = testserver.StartRedis(t, testserver.RedisOptions{Args: []string{"--requirepass", "open sesame"}}).Addr
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/redis",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			host, port, _ := strings.Cut(r.Addr, ":")
			env.Setenv("GORACE", quickEnd)
			env.Setenv("HOST", host)
			env.Setenv("PORT", port)
			env.Setenv("SOCKET", r.Socket)
			env.Setenv("LOCKED", locked.Addr)
			env.Setenv("TLS", secure.Addr)
			env.Setenv("CA", certs.CA)
			for i, addr := range quorum {
				env.Setenv(fmt.Sprint("QUORUM", i+1), addr)
			}
			env.Setenv("PAWL_URL", "redis://"+r.Addr)
			return nil
		},
	})
}
