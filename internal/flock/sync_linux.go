package flock

import (
	"os"
	"syscall"
)

// SyncData brings the data of f to disk, and of its metadata only the size: a
// write in place then costs no commit of the file system's journal.
func SyncData(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
