//go:build unix

package testserver

import (
	"os/exec"
	"syscall"
	"testing"
)

// Stop suspends the server: the kernel goes on accepting connections and
// requests, nobody answers.
func (r *Redis) Stop() { r.signal(syscall.SIGSTOP) }

// Continue ends what Stop began.
func (r *Redis) Continue() { r.signal(syscall.SIGCONT) }

// Stop suspends the server, as a long pause of its machine would.
func (z *ZooKeeper) Stop() { z.signal(syscall.SIGSTOP) }

// Continue ends what Stop began.
func (z *ZooKeeper) Continue() { z.signal(syscall.SIGCONT) }

func (r *Redis) signal(s syscall.Signal) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	send(r.t, r.cmd, "redis-server on "+r.Addr, s)
}

func (z *ZooKeeper) signal(s syscall.Signal) {
	z.t.Helper()
	z.mu.Lock()
	defer z.mu.Unlock()
	send(z.t, z.cmd, "ZooKeeper on "+z.Addr, s)
}

func send(t testing.TB, cmd *exec.Cmd, name string, s syscall.Signal) {
	t.Helper()
	if cmd == nil {
		t.Fatalf("%s is not running", name)
	}
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatalf("signal %v to %s: %v", s, name, err)
	}
}
