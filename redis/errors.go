package redis

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/pawlock/pawl/driver"
)

// A TypeError says that the name of a lock is taken by data of another program
// that is not a lock: a list, say. errors.Is(err, driver.ErrInvalid) holds, since
// trying again is of no use: choose another key or another prefix.
type TypeError struct {
	Name string // of the lock in the store
	Err  error  // as the server put it
}

// Error implements the error interface.
func (e *TypeError) Error() string {
	return fmt.Sprintf("%q is not a lock: it belongs to another program; choose another key or prefix (%v)", e.Name, e.Err)
}

// Unwrap makes errors.Is(err, driver.ErrInvalid) hold.
func (e *TypeError) Unwrap() []error { return []error{driver.ErrInvalid, e.Err} }

var errLate = fmt.Errorf("%w: it came after its sender's deadline", driver.ErrRefused)

// explain says what an error of the node means: refused if it proves that the
// script did nothing. Any other is returned as it is: the outcome is unknown.
func explain(err error, s *script, k keys) error {
	var op *net.OpError
	switch {
	case errors.Is(err, driver.ErrRefused):
		return err
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	switch code(err) {
	case "":
		return fmt.Errorf("%s: %w", s.name, err)
	case "WRONGTYPE":
		return &TypeError{Name: k.lock, Err: err}
	case "NOPERM":
		if strings.Contains(err.Error(), "in script") { // it had begun
			return fmt.Errorf("%s: %w", s.name, err)
		}
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	case "READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS", "MISCONF", "OOM", "BUSY",
		"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "CROSSSLOT",
		"NOAUTH", "WRONGPASS", "NOSCRIPT",
		"FENCEOVERFLOW", "BADFENCE", "TTLTOOLONG": // of acquire.lua, before it grants
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	case "NORUNID": // so are these
		return fmt.Errorf("%w: %w", driver.ErrUnsupported, err)
	}
	switch text := err.Error(); {
	case strings.Contains(text, "ompiling script") && strings.Contains(text, "'#'"):
		// It takes the script flags for a mistake.
		return fmt.Errorf("%w: the server is too old: Redis 7.0 or Valkey 7.2 is the least (%w)", driver.ErrUnsupported, err)
	case strings.Contains(text, "ompiling script"),
		strings.Contains(text, "unknown command"),
		strings.Contains(text, "max number of clients"):
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return fmt.Errorf("%s: %w", s.name, err)
}

// code returns the first word of an error that the server sent, "" for others.
func code(err error) string {
	var sent interface {
		error
		RedisError()
	}
	if !errors.As(err, &sent) {
		return ""
	}
	word, _, _ := strings.Cut(sent.Error(), " ")
	return word
}
