package testserver

import (
	"os"
	"syscall"
	"testing"
)

// memoryDir returns a directory of the test's own in memory, where that has room,
// and else on disk. It is for servers that wait for the disk with each write: what
// a process has written there survives its crash all the same, and many of them at
// a time don't wait for each other.
func memoryDir(t testing.TB) string {
	t.Helper()
	const shm, enough = "/dev/shm", 4 << 30
	var fs syscall.Statfs_t
	if err := syscall.Statfs(shm, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < enough {
		return tempDir(t)
	}
	dir, err := os.MkdirTemp(shm, "pawl")
	if err != nil {
		return tempDir(t)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
