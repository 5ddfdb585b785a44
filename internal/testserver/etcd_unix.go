//go:build unix

package testserver

import "syscall"

// Stop suspends the member: the kernel goes on accepting connections and
// requests, nobody answers.
func (e *Etcd) Stop() { e.signal(syscall.SIGSTOP) }

// Continue ends what Stop began.
func (e *Etcd) Continue() { e.signal(syscall.SIGCONT) }

func (e *Etcd) signal(s syscall.Signal) {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cmd == nil {
		e.t.Fatalf("etcd on %s is not running", e.Addr)
	}
	if err := e.cmd.Process.Signal(s); err != nil {
		e.t.Fatalf("signal %v to etcd: %v", s, err)
	}
}
