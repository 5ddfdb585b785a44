//go:build !windows && (!unix || solaris || illumos || aix)

package flock

import (
	"os"

	"github.com/pawlock/pawl/driver"
)

// Try returns ErrUnsupported: this system has no lock that belongs to an open
// file.
func Try(*os.File, bool) (bool, error) { return false, driver.ErrUnsupported }

// Unlock does nothing.
func Unlock(*os.File) {}

// SyncDir returns ErrUnsupported.
func SyncDir(string) error { return driver.ErrUnsupported }

// SyncData returns ErrUnsupported.
func SyncData(*os.File) error { return driver.ErrUnsupported }
