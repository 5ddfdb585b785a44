package flock

import "syscall"

// Local reports whether the locks of dir are kept by this machine's
// kernel and seen by all who can reach dir, and what keeps them if not.
func Local(dir string) (name string, local bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "", true // then the first record will tell
	}
	switch uint32(st.Type) {
	case 0x6969:
		return "NFS", false
	case 0x517B, 0xFE534D42, 0xFF534D42:
		return "SMB", false
	case 0x01021997:
		return "9P", false
	case 0x65735546:
		return "FUSE", false // sshfs, virtiofs and others
	case 0x00C36400:
		return "Ceph", false
	case 0x5346414F, 0x6B414653:
		return "AFS", false
	case 0x73757245:
		return "Coda", false
	case 0x0BD00BD0:
		return "Lustre", false
	case 0x47504653:
		return "GPFS", false
	case 0x7461636F:
		return "OCFS2", false
	case 0x01161970:
		return "GFS2", false
	case 0x786F4256, 0xBACBACBC, 0x7C7C6673:
		return "a folder shared with a virtual machine", false
	}
	return "", true
}
