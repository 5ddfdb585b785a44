package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Exit codes of a command that did not start, as shells have them.
const (
	NotExecutable = 126
	NotFound      = 127
)

// A StartError says why a command can't be started.
type StartError struct {
	Name string // as it was asked for
	Code int    // NotExecutable or NotFound
	Why  string
}

// Error implements the error interface.
func (e *StartError) Error() string { return fmt.Sprintf("cannot run %q: %s", e.Name, e.Why) }

// Resolve returns the path of the command name, looked for in PATH as a shell
// does, or a [*StartError].
func Resolve(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot):
		return path, nil // a relative entry in PATH is the user's wish
	case errors.Is(err, exec.ErrNotFound) && inPath(name):
		return "", &StartError{name, NotExecutable, "permission denied"}
	}
	return "", startError(name, err)
}

// inPath reports whether PATH has a file name, be it executable or not.
func inPath(name string) bool {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// Become makes this process the command argv, whose program is at path. It has
// keep open. It returns only if that fails, a [*StartError].
func Become(path string, argv []string, keep *os.File) error {
	if _, _, number := syscall.Syscall(syscall.SYS_FCNTL, keep.Fd(), syscall.F_SETFD, 0); number != 0 {
		return startError(argv[0], number)
	}
	return startError(argv[0], syscall.Exec(path, argv, os.Environ()))
}

// startError says why name was not started.
func startError(name string, err error) *StartError {
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return &StartError{name, NotFound, "command not found"}
	case errors.Is(err, fs.ErrNotExist):
		return &StartError{name, NotFound, "no such file (or its interpreter is missing)"}
	case errors.Is(err, syscall.ENOEXEC):
		return &StartError{name, NotExecutable, "not an executable format (a script needs a #! line)"}
	}
	var number syscall.Errno
	if errors.As(err, &number) {
		return &StartError{name, NotExecutable, number.Error()}
	}
	return &StartError{name, NotExecutable, err.Error()}
}
