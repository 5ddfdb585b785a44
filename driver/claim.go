package driver

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// Unlimited is the capacity of a key that any number may share, and what
	// an exclusive claim weighs for the others. It is exact as a Lua number
	// and fits an int on every platform.
	Unlimited = math.MaxInt32

	// MaxKey is the longest key, in bytes.
	MaxKey = 64 << 10

	// MaxBlock is the most tokens a grant may reserve.
	MaxBlock = 1 << 16

	// MaxLabel is the longest label, in bytes.
	MaxLabel = 512
)

// A FieldError says which field of the caller's input can't be used, and why.
// errors.Is(err, ErrInvalid) holds.
type FieldError struct {
	Field string // as it is written in Go: "TTL", "Key"
	Why   string // with the value, the bound, and what to do
}

// Error implements the error interface.
func (e *FieldError) Error() string { return e.Field + " " + e.Why }

// Unwrap makes errors.Is(err, ErrInvalid) hold.
func (e *FieldError) Unwrap() error { return ErrInvalid }

// Exclusive reports whether c wants all of its key.
func (c Claim) Exclusive() bool { return c.Weight == c.Capacity }

// Units returns what c weighs for the others: its weight if it is a share, and
// Unlimited if it is exclusive.
func (c Claim) Units() int {
	if c.Exclusive() {
		return Unlimited
	}
	return c.Weight
}

// Validate returns a [*FieldError] for the first field of c that a backend
// with the traits t can't honour. Every backend calls it in Acquire, before any
// I/O.
func (c Claim) Validate(t Traits) error {
	switch {
	case c.ID == "":
		return &FieldError{"ID", "is empty: draw one from an Identity"}
	case c.Weight < 1 || c.Weight > Unlimited:
		return &FieldError{"Weight", fmt.Sprintf("is %d: it must be 1 to %d", c.Weight, Unlimited)}
	case c.Capacity < c.Weight || c.Capacity > Unlimited:
		return &FieldError{"Capacity", fmt.Sprintf("is %d: it must be from the weight, %d, to %d", c.Capacity, c.Weight, Unlimited)}
	case c.Block < 0 || c.Block > MaxBlock:
		return &FieldError{"Block", fmt.Sprintf("is %d: it must be 0 to %d", c.Block, MaxBlock)}
	}
	if err := ValidateKey(c.Key); err != nil {
		return err
	}
	if err := ValidateLabel(c.Label); err != nil {
		return err
	}
	return ValidateTTL("TTL", c.TTL, t)
}

// ValidateKey returns a [*FieldError] unless key can name a lock: UTF-8, not
// empty and at most [MaxKey] bytes. Nothing is ever shortened or hashed
// silently: two keys are two locks.
func ValidateKey(key string) error {
	switch {
	case key == "":
		return &FieldError{"Key", "is empty: name the resource to lock"}
	case len(key) > MaxKey:
		return &FieldError{"Key", fmt.Sprintf("has %d bytes: at most %d are allowed", len(key), MaxKey)}
	case !utf8.ValidString(key):
		return &FieldError{"Key", fmt.Sprintf("%q is not UTF-8", shorten(key))}
	}
	return nil
}

// ValidateLabel returns a [*FieldError] unless label can be stored and shown:
// UTF-8, at most [MaxLabel] bytes, no control characters.
func ValidateLabel(label string) error {
	switch {
	case len(label) > MaxLabel:
		return &FieldError{"Label", fmt.Sprintf("has %d bytes: at most %d are allowed", len(label), MaxLabel)}
	case !utf8.ValidString(label):
		return &FieldError{"Label", fmt.Sprintf("%q is not UTF-8", shorten(label))}
	case strings.ContainsFunc(label, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return &FieldError{"Label", fmt.Sprintf("%q has a control character", shorten(label))}
	}
	return nil
}

// ValidateTTL returns a [*FieldError] that names field unless d is within what
// a backend with the traits t can keep.
func ValidateTTL(field string, d time.Duration, t Traits) error {
	switch {
	case d <= 0:
		return &FieldError{field, fmt.Sprintf("is %v: it must be positive; a lock that never expires is not offered", d)}
	case d < t.MinTTL:
		return &FieldError{field, fmt.Sprintf("is %v: %s keeps no less than %v", d, t.Name, t.MinTTL)}
	case t.MaxTTL > 0 && d > t.MaxTTL:
		return &FieldError{field, fmt.Sprintf("is %v: %s keeps no more than %v", d, t.Name, t.MaxTTL)}
	}
	return nil
}

// shorten cuts s for an error message.
func shorten(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
