//go:build unix

package proc

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Terminal reports whether this process has a controlling terminal.
func Terminal() bool {
	tty, err := openTerminal()
	if err != nil {
		return false
	}
	_ = tty.Close()
	return true
}

func openTerminal() (*os.File, error) {
	return os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
}

// SaveTerminal notes the settings of the terminal, and who is in its foreground.
// What it returns brings them back: a command that was killed can't do so
// itself, and would leave a shell that shows nothing of what is typed. Without a
// terminal, or if this process is not in its foreground, it does nothing.
func SaveTerminal() (restore func()) {
	tty, err := openTerminal()
	if err != nil {
		return func() {}
	}
	defer tty.Close()
	fd := int(tty.Fd())
	settings, err := unix.IoctlGetTermios(fd, getTermios)
	group, err2 := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err != nil || err2 != nil || group != syscall.Getpgrp() {
		return func() {}
	}
	return func() {
		tty, err := openTerminal()
		if err != nil {
			return
		}
		defer tty.Close()
		// The command may have left another group in the foreground, and those
		// in the background are stopped for what follows, unless they ignore it.
		signal.Ignore(syscall.SIGTTOU)
		defer signal.Reset(syscall.SIGTTOU)
		fd := int(tty.Fd())
		_ = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, group)
		_ = unix.IoctlSetTermios(fd, setTermios, settings)
	}
}
