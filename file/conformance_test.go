package file_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
	"github.com/pawlock/pawl/file"
	"github.com/pawlock/pawl/internal/flock"
)

func TestConformance(t *testing.T) {
	for where, dir := range map[string]func(testing.TB) string{
		"disk":  onDisk,
		"tmpfs": inMemory,
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			shared := dir(t)
			drivertest.Run(t, drivertest.Harness{
				New: func(t *testing.T) drivertest.Store {
					dir, err := os.MkdirTemp(shared, "locks")
					if err != nil {
						t.Fatal(err)
					}
					return drivertest.Store{
						Connect: func() driver.Backend { return open(t, dir) },
						Stall:   func(_ driver.Backend, d time.Duration) { stall(t, dir, d) },
					}
				},
			})
		})
	}
}

// stall holds the locks of all records in dir for d, as a process does that is
// stopped at a bad moment.
func stall(t *testing.T, dir string, d time.Duration) {
	var held []*os.File
	for _, pattern := range []string{file.FloorName, "lock-*", "hash-*"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, f)
			eventually(t, "locked "+path, func() bool {
				ok, err := flock.Try(f, true)
				if err != nil {
					t.Fatal(err)
				}
				return ok
			})
		}
	}
	time.AfterFunc(d, func() {
		for _, f := range held {
			f.Close()
		}
	})
}

// onDisk returns a directory where temporary files usually are: on a disk.
func onDisk(t testing.TB) string { return t.TempDir() }

// inMemory returns a directory on a file system that has no disk.
func inMemory(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "pawl")
	if err != nil {
		t.Skipf("no tmpfs: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
