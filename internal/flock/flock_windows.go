package flock

import (
	"os"
	"syscall"
	"unsafe"
)

const (
	lockFailImmediately = 1
	lockExclusive       = 2
	errorLockViolation  = syscall.Errno(33)
)

// byteFarOut is the byte that is locked: on Windows nobody else could read a
// locked byte that holds data.
func byteFarOut() *syscall.Overlapped { return &syscall.Overlapped{OffsetHigh: 0x40000000} }

func kernel32(name string) *syscall.LazyProc { return syscall.NewLazyDLL("kernel32.dll").NewProc(name) }

// Try takes the lock of f if it is free. The lock belongs to the open file,
// not to the process: two goroutines exclude each other, too.
func Try(f *os.File, exclusive bool) (bool, error) {
	flags := uintptr(lockFailImmediately)
	if exclusive {
		flags |= lockExclusive
	}
	ok, _, err := kernel32("LockFileEx").Call(f.Fd(), flags, 0, 1, 0, uintptr(unsafe.Pointer(byteFarOut())))
	switch {
	case ok != 0:
		return true, nil
	case err == errorLockViolation || err == syscall.ERROR_IO_PENDING:
		return false, nil
	}
	return false, err
}

// Unlock gives back the lock of f.
func Unlock(f *os.File) {
	_, _, _ = kernel32("UnlockFileEx").Call(f.Fd(), 0, 1, 0, uintptr(unsafe.Pointer(byteFarOut()))) // closing it will do
}

// SyncDir does nothing: NTFS keeps its names in a journal, and a directory
// can't be flushed.
func SyncDir(string) error { return nil }

// SyncData brings f to disk.
func SyncData(f *os.File) error { return f.Sync() }
