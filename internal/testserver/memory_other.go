//go:build !linux

package testserver

import "testing"

// memoryDir returns a directory of the test's own.
func memoryDir(t testing.TB) string {
	t.Helper()
	return tempDir(t)
}
