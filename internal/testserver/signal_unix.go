//go:build unix

package testserver

import "syscall"

// Stop suspends the server: the kernel goes on accepting connections and
// requests, nobody answers.
func (r *Redis) Stop() { r.signal(syscall.SIGSTOP) }

// Continue ends what Stop began.
func (r *Redis) Continue() { r.signal(syscall.SIGCONT) }

func (r *Redis) signal(s syscall.Signal) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		r.t.Fatalf("redis-server on %s is not running", r.Addr)
	}
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatalf("signal %v to redis-server: %v", s, err)
	}
}
