//go:build linux

package proc_test

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlock/pawl/cmd/pawl/internal/proc"
)

// TestMain makes sure that no signal is ignored: nohup, or an & in a script, are
// not for the processes that the tests start.
func TestMain(m *testing.M) {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	os.Exit(m.Run())
}

// The tests of this package take turns: a process has one tree at a time.

func start(t *testing.T, newGroup bool, script string, args ...string) *proc.Tree {
	t.Helper()
	tree, err := proc.Start(proc.Command{
		Path: "/bin/sh", Args: append([]string{"sh", "-c", script, "sh"}, args...), Env: os.Environ(), NewGroup: newGroup,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left := tree.Stop(syscall.SIGKILL, time.After(0)); len(left) > 0 {
			t.Errorf("left after the test: %v", left)
		}
	})
	return tree
}

// eventually waits until ok is true, and fails the test after 20 s.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("never came: %s", what)
		}
	}
}

func lines(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Fields(string(b))
}

func alive(pid string) bool {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// Case V11.
func TestExitIsTheCommands(t *testing.T) {
	for _, test := range []struct {
		script string
		want   proc.Exit
	}{
		{"exit 0", proc.Exit{}},
		{"exit 1", proc.Exit{Code: 1}},
		{"exit 255", proc.Exit{Code: 255}},
		{"kill -TERM $$", proc.Exit{Code: 143, Signal: syscall.SIGTERM}},
		{"kill -KILL $$", proc.Exit{Code: 137, Signal: syscall.SIGKILL}},
	} {
		tree := start(t, true, test.script)
		if got := tree.Exit(); got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.script, got, test.want)
		}
		if !tree.Empty() {
			t.Errorf("%s: something is left", test.script)
		}
	}
	for code := range 256 {
		if got := start(t, true, fmt.Sprint("exit ", code)).Exit(); got != (proc.Exit{Code: code}) {
			t.Errorf("exit %d: got %+v, want that code", code, got)
		}
	}
}

// Whoever reaps orphans can take the command's status by mistake.
// Cases U23 and V49.
func TestOrphansDoNotTakeTheExitCode(t *testing.T) {
	for range 200 {
		tree := start(t, true, "(sh -c 'sleep 0.001' &); (sh -c 'exit 3' &); (exit 4 &); exit 7")
		if got := tree.Exit(); got.Code != 7 {
			t.Fatalf("got exit code %d, want 7", got.Code)
		}
		eventually(t, "the end of the orphans", tree.Empty)
	}
}

// escape is a script that leaves processes in every way there is: a child, one
// in a session of its own, one whose parents have ended, and one that is
// stopped. All but the stopped one ignore TERM. Each writes its number to $1.
const escape = `
echo $$ >>"$1"; trap "" TERM
sh -c 'echo $$ >>"$1"; while :; do sleep 1; done' sh "$1" &
setsid sh -c 'echo $$ >>"$1"; while :; do sleep 1; done' sh "$1" &
(setsid sh -c 'sh -c "echo \$\$ >>\"\$1\"; while :; do sleep 1; done" sh "$1" &' sh "$1" &)
sh -c 'trap - TERM; echo $$ >>"$1"; kill -STOP $$' sh "$1" &
while :; do sleep 1; done`

func TestStopEndsEveryProcess(t *testing.T) {
	for _, group := range []bool{false, true} {
		pids := filepath.Join(t.TempDir(), "pids")
		tree := start(t, group, escape, pids)
		eventually(t, "5 processes", func() bool { return len(lines(t, pids)) == 5 })
		if n := len(tree.Processes()); n < 5 {
			t.Errorf("Processes: got %d, want 5 and their sleeps", n)
		}
		const grace = 200 * time.Millisecond
		began := time.Now()
		if left := tree.Stop(syscall.SIGTERM, time.After(grace)); len(left) > 0 {
			t.Errorf("Stop: got %v left, want none", left)
		}
		if took := time.Since(began); took < grace {
			t.Errorf("Stop returned after %v, before KILL was due: want the processes that ignore TERM alive until then", took)
		}
		for _, pid := range lines(t, pids) {
			if alive(pid) {
				t.Errorf("process %s is alive", pid)
			}
		}
		if got := tree.Exit(); got.Signal != syscall.SIGKILL {
			t.Errorf("got %+v, want death by KILL", got)
		}
	}
}

// A process that forks faster than anyone looks is ended as well.
func TestStopEndsAForkingTree(t *testing.T) {
	tree := start(t, true, "trap '' TERM; f() { sleep 0.01; (f &) ; (sleep 0.02 &); }; f; f; while :; do (sleep 0.005 &); sleep 0.005; done")
	time.Sleep(50 * time.Millisecond) // it has no sign to give
	if left := tree.Stop(syscall.SIGTERM, time.After(0)); len(left) > 0 {
		t.Errorf("got %v left, want none", left)
	}
	if !tree.Empty() {
		t.Error("something is left")
	}
}

func TestStopLetsTheCommandCleanUp(t *testing.T) {
	dir := t.TempDir()
	tree := start(t, true, `trap 'sh -c "sleep 0.2; echo clean >\"$1/done\""; exit 5' TERM; touch "$1/ready"; while :; do sleep 0.01; done`, dir)
	eventually(t, "the trap", func() bool { _, err := os.Stat(filepath.Join(dir, "ready")); return err == nil })
	tree.Stop(syscall.SIGTERM, nil)
	if got := lines(t, filepath.Join(dir, "done")); len(got) != 1 {
		t.Errorf("got %q in the file, want what the trap writes: its processes came after TERM", got)
	}
	if got := tree.Exit(); got.Code != 5 {
		t.Errorf("got exit code %d, want 5", got.Code)
	}
}

// The kernel kills the command with the thread that started it.
// Case V40.
func TestCommandOutlivesThreads(t *testing.T) {
	tree := start(t, true, "while :; do sleep 1; done")
	var threads sync.WaitGroup
	for range 500 {
		threads.Go(func() { runtime.LockOSThread() }) // the thread ends with the goroutine
	}
	threads.Wait()
	time.Sleep(50 * time.Millisecond) // were it killed it would be now
	select {
	case <-tree.Done():
		t.Errorf("got %+v, want the command alive", tree.Exit())
	default:
	}
}

// Case U10.
func TestRelayPassesOnWhatTheTerminalHasNotSent(t *testing.T) {
	const log = `for s in INT QUIT TERM HUP USR1 USR2 WINCH CONT; do trap "echo $s >>\"$1\"" $s; done; echo ready >>"$1"; while :; do sleep 0.01; done`
	all := []os.Signal{
		syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT,
		syscall.SIGINT, syscall.SIGQUIT,
	}
	for _, test := range []struct {
		typed bool
		want  string
	}{
		{false, "ready INT QUIT TERM HUP USR1 USR2 WINCH CONT INT QUIT"},
		{true, "ready TERM HUP USR1 USR2 CONT INT QUIT"},
	} {
		name := filepath.Join(t.TempDir(), "log")
		tree := start(t, true, log, name)
		eventually(t, "the traps", func() bool { return len(lines(t, name)) == 1 })
		relay := proc.Relay{Tree: tree, Typed: test.typed}
		want := strings.Fields(test.want)
		for _, s := range all {
			before := len(lines(t, name))
			relay.Pass(s)
			if before < len(want) && strings.EqualFold("SIG"+want[before], signalName(s)) {
				eventually(t, signalName(s), func() bool { return len(lines(t, name)) > before })
			}
		}
		if got := strings.Join(lines(t, name), " "); got != test.want {
			t.Errorf("typed %v: got %q, want %q", test.typed, got, test.want)
		}
	}
}

func signalName(s os.Signal) string {
	for name, number := range map[string]os.Signal{
		"SIGINT": syscall.SIGINT, "SIGQUIT": syscall.SIGQUIT, "SIGTERM": syscall.SIGTERM, "SIGHUP": syscall.SIGHUP,
		"SIGUSR1": syscall.SIGUSR1, "SIGUSR2": syscall.SIGUSR2, "SIGWINCH": syscall.SIGWINCH, "SIGCONT": syscall.SIGCONT,
	} {
		if number == s {
			return name
		}
	}
	return fmt.Sprint(s)
}

// Case U29.
func TestCommandKeepsUmaskAndSignalMask(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out")
	before := syscall.Umask(0o027)
	t.Cleanup(func() { syscall.Umask(before) })
	start(t, true, `umask >"$1"; grep SigBlk /proc/self/status >>"$1"`, name).Exit()
	want := []string{"0027", "SigBlk:", "0000000000000000"}
	if got := lines(t, name); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCommandsThatCannotStart(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":/bin:/usr/bin")
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain", "hello", 0o644)
	for _, test := range []struct {
		name string
		code int
	}{
		{"no-such-command", proc.NotFound},
		{dir + "/missing", proc.NotFound},
		{"", proc.NotFound},
		{"plain", proc.NotExecutable},
		{plain, proc.NotExecutable},
		{dir, proc.NotExecutable},
		{plain + "/x", proc.NotExecutable},
	} {
		path, err := proc.Resolve(test.name)
		var start *proc.StartError
		if !errors.As(err, &start) || start.Code != test.code {
			t.Errorf("Resolve(%q): got %q, %v, want a StartError with code %d", test.name, path, err, test.code)
		}
	}
	for _, test := range []struct {
		path string
		code int
	}{
		{write("format", "hello", 0o755), proc.NotExecutable},
		{write("interpreter", "#!/no/such/file\n", 0o755), proc.NotFound},
		{dir + "/missing", proc.NotFound},
	} {
		_, err := proc.Start(proc.Command{Path: test.path, Args: []string{"x"}, Env: os.Environ()})
		var start *proc.StartError
		if !errors.As(err, &start) || start.Code != test.code {
			t.Errorf("Start(%q): got %v, want a StartError with code %d", test.path, err, test.code)
		}
	}
	if path, err := proc.Resolve("sh"); err != nil || !strings.HasSuffix(path, "/sh") {
		t.Errorf("Resolve(sh): got %q, %v, want its path", path, err)
	}
}
