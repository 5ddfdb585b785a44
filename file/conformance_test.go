package file_test

import (
	"os"
	"testing"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
)

func TestConformance(t *testing.T) {
	for where, dir := range map[string]func(*testing.T) string{
		"disk":  func(t *testing.T) string { return t.TempDir() },
		"tmpfs": inMemory,
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			shared := dir(t)
			drivertest.Run(t, drivertest.Harness{
				New: func(t *testing.T) drivertest.Store {
					return drivertest.Store{Connect: func() driver.Backend { return open(t, shared) }}
				},
			})
		})
	}
}

// inMemory returns a directory on a file system that has no disk.
func inMemory(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "pawl")
	if err != nil {
		t.Skipf("no tmpfs: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
