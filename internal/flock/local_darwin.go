package flock

import "syscall"

// Local reports whether the locks of dir are kept by this machine's
// kernel and seen by all who can reach dir, and what keeps them if not.
func Local(dir string) (name string, local bool) {
	const mntLocal = 0x1000
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "", true // then the first record will tell
	}
	var b []byte
	for _, c := range st.Fstypename {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b), st.Flags&mntLocal != 0
}
