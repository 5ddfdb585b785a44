//go:build unix && !solaris && !illumos && !aix

package flock

import (
	"os"
	"syscall"
)

// Try takes the lock of f if it is free. The lock belongs to the open file,
// not to the process: two goroutines exclude each other, too.
func Try(f *os.File, exclusive bool) (bool, error) {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	for {
		switch err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err {
		case nil:
			return true, nil
		case syscall.EWOULDBLOCK:
			return false, nil
		case syscall.EINTR:
		default:
			return false, err
		}
	}
}

// Unlock gives back the lock of f.
func Unlock(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) } // closing it will do

// SyncDir brings to disk what was created, renamed and removed in dir.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
