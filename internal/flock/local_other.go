//go:build !linux && !darwin && !windows

package flock

// Local reports that all is local: this system does not tell.
func Local(string) (name string, local bool) { return "", true }
