//go:build unix

// Package proc runs a command and answers for all of its processes.
//
// A command is started directly, never through a shell, with the standard
// streams of this process as they are. On Linux this process becomes the
// reaper of every descendant that loses its parent, so that one which called
// setsid, or forked twice, is still found and ended with the rest; elsewhere
// the process group of the command stands for its descendants.
//
// The package waits for all children of this process: nothing else in the
// program may start any while a [Tree] lives.
package proc

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A Command is what to run.
type Command struct {
	Path     string   // of the executable, see [Resolve]
	Args     []string // Args[0] is the name the command sees
	Env      []string
	NewGroup bool // in a process group of its own
}

// A Tree is a running command and all processes that descend from it.
type Tree struct {
	group   bool
	process *os.Process
	done    chan struct{} // closed once the command itself is gone

	paused []Process  // that Pause has stopped
	mu     sync.Mutex // between the last reading of the command's PID and its reuse
	exited bool       // guarded by mu
	exit   Exit       // written before done is closed
}

// Start starts c. It returns a [*StartError] if that fails.
func Start(c Command) (*Tree, error) {
	if err := adopt(); err != nil {
		return nil, err
	}
	t := &Tree{group: c.NewGroup, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel kills the command when the thread that started it
		// ends, and not only when the process does: the thread stays here
		// until the command is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var err error
		t.process, err = os.StartProcess(c.Path, c.Args, &os.ProcAttr{
			Env:   c.Env,
			Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
			Sys:   attributes(c.NewGroup),
		})
		started <- err
		if err == nil {
			t.wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, startError(c.Args[0], err)
	}
	return t, nil
}

// PID returns the process ID of the command.
func (t *Tree) PID() int { return t.process.Pid }

// Done is closed once the command has ended; processes it has started may go
// on.
func (t *Tree) Done() <-chan struct{} { return t.done }

// Exit returns how the command ended. It blocks until it has.
func (t *Tree) Exit() Exit {
	<-t.done
	return t.exit
}

// Ended returns how the command ended, false if it has not.
func (t *Tree) Ended() (Exit, bool) {
	select {
	case <-t.done:
		return t.exit, true
	default:
		return Exit{}, false
	}
}

// Signal sends s to the process group of the command if it has one of its
// own, and to the command alone otherwise. It does nothing once the command has
// ended.
func (t *Tree) Signal(s syscall.Signal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.exited {
		return
	}
	if t.group {
		_ = syscall.Kill(-t.process.Pid, s)
		return
	}
	_ = syscall.Kill(t.process.Pid, s)
}

// Pace of the loops that look for what is left of a tree.
const (
	firstLook = time.Millisecond
	lastLook  = 50 * time.Millisecond
	patience  = 5 * time.Second // with processes that KILL does not end
)

// Stop ends all of the tree: s to every process that it has now, and CONT for
// those that are stopped, then KILL to whatever is left when kill fires, until
// nothing is. What starts after s was sent is left alone until then, for it may
// be the cleaning up. A nil kill never fires; what [Now] returns has the tree
// killed before any of it runs again.
//
// It returns what KILL did not end for 5 s, for instance because it belongs to
// another user; nil is the rule.
func (t *Tree) Stop(s syscall.Signal, kill <-chan time.Time) []Process {
	var deadline time.Time
	select {
	case <-kill:
		s, deadline, kill = syscall.SIGKILL, time.Now().Add(patience), nil
	default:
	}
	for _, p := range t.Processes() {
		p.signal(s)
		p.signal(syscall.SIGCONT)
	}
	for pause := firstLook; !t.Empty(); pause = min(2*pause, lastLook) {
		timer := time.NewTimer(pause)
		select {
		case <-kill:
			deadline, kill = time.Now().Add(patience), nil
			pause = firstLook
		case <-timer.C:
		}
		timer.Stop()
		if deadline.IsZero() {
			continue
		}
		left := t.Processes()
		for _, p := range left {
			p.signal(syscall.SIGKILL)
		}
		if len(left) > 0 && time.Now().After(deadline) {
			return left
		}
	}
	return nil
}

// Now returns a channel that has fired.
func Now() <-chan time.Time {
	fired := make(chan time.Time)
	close(fired)
	return fired
}

// A Process is one of a [Tree].
type Process struct {
	PID  int
	Name string // of its executable, as the kernel has it; foreign text

	started uint64 // with PID, tells it from a later process of the same number
	stopped bool   // by a signal; false where that can't be told
}

func (t *Tree) ended(status syscall.WaitStatus) {
	t.exit = exitOf(status)
	t.exited = true
	close(t.done)
}

var errNoReaper = errors.New("cannot become the reaper of the command's processes")
