//go:build unix

package proc

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// CatchSuspend delivers the Ctrl-Z of a terminal, unless this process was started
// to ignore it. Who catches it has to call [Suspend].
func CatchSuspend() <-chan os.Signal {
	suspend := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(suspend, syscall.SIGTSTP)
	}
	return suspend
}

// Suspend stops this process until somebody continues it.
func Suspend() {
	// Another thread than this one may be the first that is stopped: what
	// follows has to wait for the continuation.
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if syscall.Kill(os.Getpid(), syscall.SIGSTOP) == nil {
		<-continued
	}
}

// Pause stops every process of the tree. For grace they may do so themselves,
// for they have been sent what was typed, and may have to tidy up the screen.
func (t *Tree) Pause(grace time.Duration) {
	for began := time.Now(); ; time.Sleep(lastLook / 10) {
		late := time.Since(began) >= grace
		running := 0
		for _, p := range t.Processes() {
			if p.stopped {
				continue
			}
			running++
			if late {
				p.signal(syscall.SIGSTOP)
				t.paused = append(t.paused, p)
			}
		}
		if running == 0 || late && time.Since(began) >= grace+lastLook {
			return
		}
	}
}

// Resume continues what Pause has stopped. What stopped by itself is continued by
// those who continue this process, a shell for all of its job.
func (t *Tree) Resume() {
	for _, p := range t.paused {
		p.signal(syscall.SIGCONT)
	}
	t.paused = nil
}
