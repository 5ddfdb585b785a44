//go:build unix

package proc

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// An Exit says how a command ended.
type Exit struct {
	Code   int            // as a shell tells it: 128+n after death by signal n
	Signal syscall.Signal // what it died of, 0 for an exit of its own
}

// The status of a command that nobody can tell any more: an exit with code 255.
const exitUnknown = syscall.WaitStatus(255 << 8)

func exitOf(status syscall.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Code: 128 + int(status.Signal()), Signal: status.Signal()}
	}
	return Exit{Code: status.ExitStatus()}
}

// Die ends this process as e did: by the same signal where the parent can tell
// the difference, for a shell script stops at Ctrl-C only if its command died
// of it. It never returns.
func (e Exit) Die() {
	switch e.Signal {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGKILL:
		if os.Getpid() == 1 {
			break // the kernel keeps process 1 from its own signals
		}
		_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
		signal.Reset(e.Signal)
		if syscall.Kill(os.Getpid(), e.Signal) == nil {
			time.Sleep(time.Second) // the signal may reach another thread; ignored, it reaches none
		}
	}
	os.Exit(e.Code)
}

// Death returns the exit of a process that dies of s.
func Death(s os.Signal) Exit {
	number, _ := s.(syscall.Signal)
	return Exit{Code: 128 + int(number), Signal: number}
}
