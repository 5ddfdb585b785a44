// Package flock locks files among processes, and brings them to disk.
package flock

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Lock waits for the lock of f, shared or exclusive, until ctx ends. It asks
// again and again rather than block in the kernel: a process that was stopped
// with the lock in its hands must not take threads of ours with it.
func Lock(ctx context.Context, f *os.File, exclusive bool) error {
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, 2*time.Millisecond) {
		ok, err := Try(f, exclusive)
		if err != nil {
			return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
		if ok {
			return nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("the file %s is busy: %w", f.Name(), context.Cause(ctx))
		}
	}
}
