//go:build unix && !linux && !solaris && !illumos && !aix

package flock

import "os"

// SyncData brings f to disk.
func SyncData(f *os.File) error { return f.Sync() }
