//go:build unix

package testserver

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// giveTo makes dir belong to the user name if this process is root's.
func giveTo(name, dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	uid, gid, err := idsOf(name)
	if err != nil {
		return err
	}
	return os.Chown(dir, uid, gid)
}

// runAs has cmd run as the user name, if this process is root's.
func runAs(cmd *exec.Cmd, name string) {
	if os.Getuid() != 0 {
		return
	}
	if uid, gid, err := idsOf(name); err == nil { // as giveTo has seen
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
}

func idsOf(name string) (uid, gid int, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, err
	}
	if uid, err = strconv.Atoi(u.Uid); err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(u.Gid)
	return uid, gid, err
}
