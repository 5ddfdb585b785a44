//go:build unix

package proc

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// Gone returns a channel that is closed when the process pid has ended, also if
// it is nobody's child here. It fails if there is no such process.
func Gone(pid int) (<-chan struct{}, error) {
	if pid < 1 || !exists(pid) {
		return nil, fmt.Errorf("there is no process %d", pid)
	}
	self := identity(pid)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for exists(pid) && identity(pid) == self {
			time.Sleep(50 * time.Millisecond)
		}
	}()
	return gone, nil
}

func exists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
