package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/proc"
	"github.com/pawlock/pawl/driver"
)

// Exit codes. They are a promise: scripts branch on them.
const (
	exitOK          = 0
	exitNo          = 1
	exitUsage       = 64
	exitUnreachable = 69
	exitInternal    = 70
	exitBusy        = 75
	exitDenied      = 77
	exitConfig      = 78
	exitLost        = 79
	exitMaxRuntime  = 124
)

// A codeRow is one row of the table of exit codes.
type codeRow struct {
	Code    string `json:"code"`
	Meaning string `json:"meaning"`
}

func codeTable() []codeRow {
	return []codeRow{
		{"the command's", "the command ran and ended, and the lock was valid to the end"},
		{"0", "done"},
		{"1", "the answer is no: show -q of a lock that is free"},
		{"64", "wrong usage; also a lock that the caller holds already, and a --kill-after that does not fit into the TTL"},
		{"69", "the store can't be reached, or refuses for now; the command was not run"},
		{"70", "internal error"},
		{"75", "busy: --no-wait, or --wait ran out (run and acquire: -E chooses another code); force-release: the holder has changed"},
		{"77", "the store does not permit it: user, password or ACL"},
		{"78", "bad configuration, or a store that can't keep such a lock"},
		{"79", "the lock was lost: while the command ran, or before renew, release or check; fence check: the token is stale"},
		{"124", "--max-runtime was over, the command was stopped"},
		{"126", "the command is not executable"},
		{"127", "the command was not found"},
		{"128+n", "death by signal n while waiting, or the command's: pawl dies of the same signal"},
	}
}

func exitTable() string {
	var b strings.Builder
	b.WriteString("Exit codes:\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range codeTable() {
		fmt.Fprintf(w, "  %s\t%s\n", row.Code, row.Meaning)
	}
	_ = w.Flush() // to memory
	return b.String()
}

// A failure ends the program: what it prints, and its exit code.
type failure struct {
	code  int
	text  string     // empty: everything has been said
	death *proc.Exit // die of its signal, if the command or the waiting did
}

// Error implements the error interface.
func (f *failure) Error() string { return f.text }

// fail returns a failure whose text ends with the exit code.
func fail(code int, format string, args ...any) *failure {
	return &failure{code: code, text: fmt.Sprintf(format, args...) + fmt.Sprintf(". exit %d", code)}
}

func usage(format string, args ...any) *failure { return fail(exitUsage, format, args...) }

// classify returns the exit code for an error of a store.
func classify(err error) int {
	switch {
	case errors.Is(err, pawl.ErrLost):
		return exitLost
	case errors.Is(err, pawl.ErrHeld):
		return exitBusy
	case errors.Is(err, pawl.ErrInvalid):
		return exitUsage
	case errors.Is(err, pawl.ErrUnsupported):
		return exitConfig
	case denied(err):
		return exitDenied
	}
	return exitUnreachable
}

// denied reports whether err is a store's way of saying that the caller may not
// do this.
func denied(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, fs.ErrPermission) {
		return true
	}
	for _, word := range []string{"NOAUTH", "WRONGPASS", "NOPERM", "ERR invalid password", "ERR AUTH", "unauthenticated", "zk: not authenticated",
		"etcdserver: permission denied", "etcdserver: authentication failed", "etcdserver: user name is empty"} {
		if strings.Contains(" "+err.Error(), " "+word) {
			return true
		}
	}
	return false
}

// reason returns the innermost words of an error of a store: what is around
// them is said by the message already.
func reason(err error) string {
	var invalid *driver.FieldError
	if errors.As(err, &invalid) {
		return invalid.Error()
	}
	var outer *pawl.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	var network net.Error
	var operation *net.OpError
	var number syscall.Errno
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &network) && network.Timeout():
		return "i/o timeout"
	case errors.As(err, &operation) && errors.As(err, &number):
		return number.Error()
	case errors.As(err, &operation):
		return operation.Err.Error()
	}
	return strings.TrimSuffix(strings.TrimPrefix(err.Error(), driver.ErrRefused.Error()+": "), ".")
}

// unanswered reports whether err is one of the way to a store, and not the
// store's own.
func unanswered(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF)
}

// cannot returns what can't be done with a store that gave err: reach it, or use
// it though it answers.
func cannot(err error) string {
	if errors.Is(err, driver.ErrRefused) && !unanswered(err) {
		return "use"
	}
	return "reach"
}
