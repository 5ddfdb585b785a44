package flock

import (
	"path/filepath"
	"syscall"
	"unsafe"
)

// Local reports whether the locks of dir are kept by this machine's
// kernel and seen by all who can reach dir, and what keeps them if not.
func Local(dir string) (name string, local bool) {
	const driveRemote = 4
	root, err := syscall.UTF16PtrFromString(filepath.VolumeName(dir) + `\`)
	if err != nil {
		return "", true // then the first record will tell
	}
	kind, _, _ := kernel32("GetDriveTypeW").Call(uintptr(unsafe.Pointer(root)))
	return "a network drive", kind != driveRemote
}
