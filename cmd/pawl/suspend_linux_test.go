package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// state returns the state of a process, as /proc has it: T is stopped.
func state(pid string) string {
	b, _ := os.ReadFile("/proc/" + pid + "/stat")
	_, rest, _ := strings.Cut(string(b), ") ")
	return rest[:min(1, len(rest))]
}

// ticker is a command that writes its number to $1/pid and goes on writing to
// $1/ticks, and has a child in a session of its own, which does so to $1/apart.
const ticker = `sh -c 'echo $$ >"$1/pid"
	setsid sh -c '\''echo $$ >"$1/pid2"; while :; do echo x >>"$1/apart"; sleep 0.02; done'\'' sh "$1" &
	while :; do echo x >>"$1/ticks"; sleep 0.02; done' sh `

// U25: at a Ctrl-Z everything that runs under the lock stops, and goes on
// with the job, which has the lock still.
func TestSuspendedJobGoesOnWithItsLock(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"same", "new"} {
		dir := t.TempDir()
		c := startTerminal(t, "bash", "--norc", "-i")
		c.see("prompt>")
		c.enter("pawl run --pgroup " + group + " k -- " + ticker + dir + "\n")
		eventually(t, "the command", func() bool {
			return len(words(t, filepath.Join(dir, "apart"))) > 0 && len(words(t, filepath.Join(dir, "ticks"))) > 0
		})
		pid, pid2 := words(t, filepath.Join(dir, "pid"))[0], words(t, filepath.Join(dir, "pid2"))[0]
		c.enter("\x1a")
		c.see("pawl: suspended; the lock is yours until ")
		c.see("Stopped")
		for _, p := range []string{pid, pid2} {
			// D waits for a child that it has just started, which is stopped.
			if got := state(p); got != "T" && got != "D" {
				t.Errorf("--pgroup %s: got process %s in state %q, want it stopped", group, p, got)
			}
		}
		ticks, apart := len(words(t, filepath.Join(dir, "ticks"))), len(words(t, filepath.Join(dir, "apart")))
		c.enter("fg\n")
		eventually(t, "another tick", func() bool {
			return len(words(t, filepath.Join(dir, "ticks"))) > ticks && len(words(t, filepath.Join(dir, "apart"))) > apart
		})
		c.enter("\x03")
		c.see("^C")
		eventually(t, "the end of the command", func() bool { return !alive(pid) && !alive(pid2) })
		c.enter("exit\n")
		if strings.Contains(c.screen.String(), "LOCK LOST") {
			t.Errorf("--pgroup %s: the lock was lost", group)
		}
	}
}

// U25: who goes on after the end of the lease has lost the lock, and runs
// no further.
func TestJobSuspendedForTooLongIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startTerminal(t, "bash", "--norc", "-i")
	c.see("prompt>")
	c.enter("pawl run --pgroup new --ttl 1 k -- " + ticker + dir + "; echo \"code $?\"\n")
	eventually(t, "the command", func() bool {
		return len(words(t, filepath.Join(dir, "apart"))) > 0 && len(words(t, filepath.Join(dir, "ticks"))) > 0
	})
	pid, pid2 := words(t, filepath.Join(dir, "pid"))[0], words(t, filepath.Join(dir, "pid2"))[0]
	c.enter("\x1a")
	c.see("Stopped")
	eventually(t, "another holder", func() bool { code, _ := ask(t, c.url, "run", "-n", "k", "--", "true"); return code == 0 })
	ticks, apart := len(words(t, filepath.Join(dir, "ticks"))), len(words(t, filepath.Join(dir, "apart")))
	c.enter("fg\n")
	c.see("LOCK LOST")
	c.see("KILL sent")
	eventually(t, "the end of the command", func() bool { return !alive(pid) && !alive(pid2) })
	if got, got2 := len(words(t, filepath.Join(dir, "ticks"))), len(words(t, filepath.Join(dir, "apart"))); got != ticks || got2 != apart {
		t.Errorf("got %d and %d ticks after the lease had ended, want none", got-ticks, got2-apart)
	}
	c.enter("echo again: $?\n")
	c.see("again: 79")
}

// U26: a wrapper that was stopped without a word can do nothing until it
// goes on; then it is the first thing that it does.
func TestStoppedWrapperKillsItsCommandWhenItGoesOn(t *testing.T) {
	t.Parallel()
	url, name := fileURL(t), filepath.Join(t.TempDir(), "pid")
	run := startPawl(t, url, "run", "--ttl", "1", "k", "--", "sh", "-c", `trap "" TERM; echo $$ >"$1"; while :; do sleep 0.02; done`, "sh", name)
	eventually(t, "the command", func() bool { return len(words(t, name)) == 1 })
	_ = run.cmd.Process.Signal(syscall.SIGSTOP)
	eventually(t, "the end of the lease", func() bool { return !isHeld(t, url, "k") })
	_ = run.cmd.Process.Signal(syscall.SIGCONT)
	if ws := run.wait(); ws.ExitStatus() != exitLost {
		t.Errorf("got exit status %d, want %d", ws.ExitStatus(), exitLost)
	}
	if alive(words(t, name)[0]) {
		t.Error("the command is alive")
	}
	for _, want := range []string{"LOCK LOST \"k\"", "KILL sent"} {
		if !strings.Contains(run.stderr.String(), want) {
			t.Errorf("got %q on standard error, want %q in it", run.stderr, want)
		}
	}
}

// U28: a command that is killed leaves the terminal as it has found it.
func TestTerminalIsRestoredAfterKill(t *testing.T) {
	t.Parallel()
	c := startTerminal(t, "bash", "-c", `stty -a >before; pawl run --max-runtime 0.3 -k 0.1 --ttl 5 k -- bash -c 'trap "" TERM; stty raw -echo; while :; do sleep 0.05; done'
		stty -a >after; cmp before after && echo same terminal`)
	c.see("ran longer")
	c.see("same terminal")
	c.wait()
}

// V34: a command that leaves our process group is not sent what is
// typed; the second Ctrl-C is passed on to it.
func TestSecondInterruptReachesACommandInAGroupOfItsOwn(t *testing.T) {
	t.Parallel()
	c := startTerminal(t, "pawl", "run", "k", "--", "apart")
	c.see("ready")
	eventually(t, "an interrupt", func() bool {
		c.enter("\x03") // two of them may come as one
		time.Sleep(50 * time.Millisecond)
		return strings.Contains(c.screen.String(), "got interrupt")
	})
	if ws := c.wait(); ws.ExitStatus() != 5 {
		t.Errorf("got wait status %#x, want the command's exit status 5", ws)
	}
}

// U12: as process 1, which its own signals do not kill, the wrapper
// ends with the code that a shell would have.
func TestWrapperCanBeProcessOne(t *testing.T) {
	t.Parallel()
	if !hasNamespaces() {
		t.Skip("needs unshare and the right to make PID namespaces")
	}
	for _, test := range []struct {
		script string
		want   int
	}{
		{"exit 7", 7},
		{"kill -TERM $$", 128 + int(syscall.SIGTERM)},
		{"kill -KILL $$", 128 + int(syscall.SIGKILL)},
		{`(sh -c 'exit 3' &) ; (sleep 0.05; exit 4) & sleep 0.2; test "$(ps -e -o stat= | grep -c Z)" = 0`, 0},
	} {
		if got := unshared(t, "run", "k", "--", "sh", "-c", test.script); got != test.want {
			t.Errorf("%s: got exit code %d, want %d", test.script, got, test.want)
		}
	}
}
