package pawl

import (
	"errors"
	"strconv"
	"strings"

	"github.com/pawlock/pawl/driver"
)

// Sentinels to decide on with errors.Is.
var (
	// ErrHeld: there is no room. errors.As to a [*HeldError] tells who holds.
	ErrHeld = driver.ErrHeld

	// ErrLost: the lease ended before it was released. errors.As to a
	// [*LostError] tells why.
	ErrLost = driver.ErrLost

	// ErrUnsupported: this store can't keep that lock safely.
	ErrUnsupported = driver.ErrUnsupported

	// ErrInvalid: the caller's mistake. errors.As to a [*FieldError] names
	// the field.
	ErrInvalid = driver.ErrInvalid

	// ErrReleased: the cause of the context of a lease that was released.
	ErrReleased = errors.New("pawl: the lease was released")

	// ErrClosed: the client has been closed.
	ErrClosed = errors.New("the client is closed")

	// ErrDeadlock: the lock is wanted by code that runs inside a lease of the
	// same lock, which would wait for itself for ever.
	ErrDeadlock = errors.New("deadlock: this code already runs under a lease of that key, and would wait for itself")
)

// A HeldError tells who is in the way. errors.Is(err, ErrHeld) holds.
type HeldError = driver.HeldError

// A LostError tells why a lease ended. errors.Is(err, ErrLost) holds.
type LostError = driver.LostError

// A FieldError names the input that can't be used. errors.Is(err, ErrInvalid)
// holds.
type FieldError = driver.FieldError

// An Error says which operation failed, on which key and in which store. Every
// error of a store reaches the caller inside exactly one Error.
type Error struct {
	Op      string // "acquire", "hold", "check", "renew", "downgrade", "release", "inspect", "list", "revoke"
	Key     string // empty for list of everything
	Backend string // name of the store
	Err     error
}

// Error implements the error interface.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("pawl: " + e.Op + " ")
	b.WriteString(strconv.Quote(e.Key))
	b.WriteString(" (" + e.Backend + "): ")
	b.WriteString(e.Err.Error())
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// fail wraps err, once, at the border of the package.
func (c *Client) fail(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Key: key, Backend: c.traits.Name, Err: err}
}
