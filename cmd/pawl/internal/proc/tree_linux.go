package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// How the settings of a terminal are read and written.
const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETSW
)

// adopt makes this process the parent of all its orphaned descendants.
func adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("%w: %w", errNoReaper, err)
	}
	return nil
}

func attributes(newGroup bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: newGroup, Pdeathsig: syscall.SIGKILL}
}

// wait reaps every child until the command has ended. Only this loop and,
// after it, Empty reap, so that nobody takes the status from the other.
func (t *Tree) wait() {
	for {
		// Not yet reaping: until mu is held the PID must stay taken.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if t.reap() {
			return
		}
	}
}

func (t *Tree) reap() (ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	if errors.Is(err, syscall.ECHILD) {
		// The disposition of SIGCHLD was inherited as ignored: the kernel has
		// reaped the command, and its status is gone.
		t.ended(exitUnknown)
		return true
	}
	if pid == t.process.Pid {
		t.ended(status)
		return true
	}
	return false
}

// Empty reports whether nothing of the tree is left. A process without
// children has no descendants either, since orphans become its children.
func (t *Tree) Empty() bool {
	select {
	case <-t.done:
	default:
		return false
	}
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return true // ECHILD
		case pid == 0:
			return false // there are some, none has ended
		}
	}
}

// Processes returns the live processes of the tree, parents before children.
func (t *Tree) Processes() []Process {
	children := map[int][]Process{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return t.commandAlone()
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, parent, ok := readStat(pid); ok {
			children[parent] = append(children[parent], p)
		}
	}
	list := children[os.Getpid()]
	for i := 0; i < len(list); i++ {
		list = append(list, children[list[i].PID]...)
	}
	return list
}

// commandAlone stands for the tree where /proc can't be read.
func (t *Tree) commandAlone() []Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.exited {
		return nil
	}
	return []Process{{PID: t.process.Pid}}
}

// readStat reads a process and its parent, and reports whether it is alive.
func readStat(pid int) (p Process, parent int, ok bool) {
	// The kernel writes the name in parentheses, and it may contain some.
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, 0, false
	}
	begin, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if begin < 0 || end < begin {
		return p, 0, false
	}
	fields := bytes.Fields(b[end+1:])
	if len(fields) < 20 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return p, 0, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	started, err2 := strconv.ParseUint(string(fields[19]), 10, 64)
	return Process{PID: pid, Name: string(b[begin+1 : end]), started: started, stopped: fields[0][0] == 'T'}, parent, err1 == nil && err2 == nil
}

// signal sends s to p unless it has ended, and never to a later process of the
// same number: a file descriptor holds on to the process while it is checked.
func (p Process) signal(s syscall.Signal) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if p.started != 0 {
		if now, _, ok := readStat(p.PID); !ok || now.started != p.started {
			if err == nil {
				_ = unix.Close(fd)
			}
			return
		}
	}
	if err != nil {
		_ = syscall.Kill(p.PID, s) // a kernel, or a sandbox, without pidfd
		return
	}
	_ = unix.PidfdSendSignal(fd, unix.Signal(s), nil, 0)
	_ = unix.Close(fd)
}

// identity tells a process from a later one of the same number. One that has
// ended, and waits for its parent to notice, is another already.
func identity(pid int) uint64 {
	p, _, ok := readStat(pid)
	if !ok {
		return 0
	}
	return p.started
}
