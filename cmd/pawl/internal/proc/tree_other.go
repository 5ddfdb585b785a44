//go:build unix && !linux

package proc

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// How the settings of a terminal are read and written.
const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETAW
)

func adopt() error { return nil }

func attributes(newGroup bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: newGroup}
}

func (t *Tree) wait() {
	state, err := t.process.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	status := exitUnknown
	if err == nil {
		status = state.Sys().(syscall.WaitStatus)
	}
	t.ended(status)
}

// Empty reports whether the command, and its process group if it has one of its
// own, are gone.
func (t *Tree) Empty() bool {
	select {
	case <-t.done:
		return !t.group || errors.Is(syscall.Kill(-t.process.Pid, 0), syscall.ESRCH)
	default:
		return false
	}
}

// Processes returns the command, or its group as one process with a negative
// number.
func (t *Tree) Processes() []Process {
	if t.group && !t.Empty() {
		return []Process{{PID: -t.process.Pid}}
	}
	select {
	case <-t.done:
		return nil
	default:
		return []Process{{PID: t.process.Pid}}
	}
}

func (p Process) signal(s syscall.Signal) { _ = syscall.Kill(p.PID, s) }

// identity is not to be had cheaply here: a number that is used again soon is
// taken for the same process.
func identity(int) uint64 { return 0 }
