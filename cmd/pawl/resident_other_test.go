//go:build unix && !linux

package main

import "testing"

// resident is not measured where there is no /proc.
func resident(*testing.T, string, string) int64 { return 0 }
