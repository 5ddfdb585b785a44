package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A terminal is a pseudo terminal with a command in its foreground.
type terminal struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string // of its store
	master *os.File
	screen *buffer
	ended  chan struct{}
}

func startTerminal(t *testing.T, name string, args ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("needs pseudo terminals: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	c := &terminal{t: t, cmd: exec.Command(name, args...), url: fileURL(t), master: master, screen: new(buffer), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), "PAWL_URL="+c.url, "PS1=prompt> ")
	c.cmd.Dir = t.TempDir()
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = slave, slave, slave
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			_, _ = c.screen.Write(b[:n])
			if err != nil {
				return // closed, or nobody has the other end any more
			}
		}
	}()
	go func() {
		_ = c.cmd.Wait()
		close(c.ended)
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
		if t.Failed() {
			t.Logf("screen of %q:\n%s", c.cmd.Args, c.screen)
		}
	})
	return c
}

// see waits until text has been printed.
func (c *terminal) see(text string) {
	c.t.Helper()
	eventually(c.t, text, func() bool { return strings.Contains(c.screen.String(), text) })
}

func (c *terminal) enter(keys string) {
	c.t.Helper()
	if _, err := c.master.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

func (c *terminal) wait() syscall.WaitStatus {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(30 * time.Second):
		c.t.Fatalf("%q did not end", c.cmd.Args)
	}
	return c.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// U10 and U12, V35, V37 and V38: one Ctrl-C reaches the command
// once, and ends the shell script around it, which sees that its command died of
// it.
func TestInterruptIsSeenOnceAndByTheScriptAround(t *testing.T) {
	t.Parallel()
	c := startTerminal(t, "bash", "-c", `for i in 1 2 3; do
		pawl run k -- sh -c 'trap "echo INT" INT; echo ready; for i in 1 2 3 4 5; do sleep 0.1; done; trap - INT; kill -INT $$'
		echo next; done; echo end`)
	c.see("ready")
	c.enter("\x03")
	if ws := c.wait(); ws.Signal() != syscall.SIGINT {
		t.Errorf("got wait status %#x of the script, want death by INT", ws)
	}
	if got := strings.Count(c.screen.String(), "INT"); got != 1 {
		t.Errorf("the command saw INT %d times, want 1", got)
	}
	if strings.Contains(c.screen.String(), "next") {
		t.Error("the script went on")
	}
}

// U11, V41: a command in the background of a terminal would be
// stopped when it reads.
func TestCommandMayUseTheTerminal(t *testing.T) {
	t.Parallel()
	c := startTerminal(t, "pawl", "run", "k", "--", "sh", "-c", `echo ready; read a </dev/tty; stty sane; echo "got $a"; exit 3`)
	c.see("ready")
	c.enter("hello\n")
	c.see("got hello")
	if ws := c.wait(); ws.ExitStatus() != 3 {
		t.Errorf("got exit status %d, want 3", ws.ExitStatus())
	}
}

// V43
func TestShellUnderALockHasJobControl(t *testing.T) {
	t.Parallel()
	c := startTerminal(t, "pawl", "run", "k", "--", "bash", "--norc", "-i")
	c.see("prompt>")
	// Before the shell's child has become another program an interrupt can leave
	// the terminal to it.
	c.enter("sh -c 'echo now; sleep 60'\n")
	c.see("\rnow") // after the echo of what was entered
	eventually(t, "the second prompt", func() bool {
		c.enter("\x03") // between two commands it goes unheard
		time.Sleep(50 * time.Millisecond)
		return strings.Count(c.screen.String(), "prompt>") > 1
	})
	c.enter("exit 5\n")
	if ws := c.wait(); ws.ExitStatus() != 5 {
		t.Errorf("got exit status %d, want 5", ws.ExitStatus())
	}
	if strings.Contains(c.screen.String(), "job control") {
		t.Error("the shell complains that it has no job control")
	}
}

// It takes no other word.
func TestForcingAsksForTheName(t *testing.T) {
	t.Parallel()
	const script = `pawl acquire k >handle; id=$(pawl show k | sed -n "s/.* id: //p"); pawl force-release k --id "$id"; echo "code $?"`
	for _, test := range []struct {
		typed, want string
	}{
		{"no\n", "code 64"},
		{"k\n", "code 0"},
	} {
		c := startTerminal(t, "bash", "-c", "cd "+t.TempDir()+"; "+script)
		c.see("Type the lock name to go on: ")
		c.see("WAS RENEWED")
		c.enter(test.typed)
		c.see(test.want)
		c.wait()
	}
}
