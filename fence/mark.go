package fence

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pawlock/pawl"
)

// MaxResource is the longest name of a resource, in bytes: what fits into an
// index of every database.
const MaxResource = 512

// A Mark is what a guard remembers of a resource: which lock protects it, and
// the highest numbers that it has seen. It is for those who write a guard; the
// zero Mark is that of a resource that has seen nothing.
type Mark struct {
	Key       string // of the lock
	Exclusive uint64 // the highest number of one who held the lock exclusively
	Shared    uint64 // the highest number of one who shared it
}

// Raise returns m as it is when t has been seen. It returns a [*StaleError], or
// an [*OtherLockError], that names resource, if t must be refused.
func (m Mark) Raise(resource string, t pawl.Token) (Mark, error) {
	switch {
	case m.Key == "":
		m.Key = t.Key
	case m.Key != t.Key:
		return m, &OtherLockError{Resource: resource, Token: t, Key: m.Key}
	}
	switch {
	case t.Number < m.Exclusive:
		return m, &StaleError{Resource: resource, Token: t, Highest: pawl.Token{Key: m.Key, Number: m.Exclusive}}
	case t.Shared: // whatever other shares have written
		m.Shared = max(m.Shared, t.Number)
	case t.Number < m.Shared:
		return m, &StaleError{Resource: resource, Token: t, Highest: pawl.Token{Key: m.Key, Shared: true, Number: m.Shared}}
	default:
		m.Exclusive = t.Number
	}
	return m, nil
}

// Enter begins a [Guard.Do] of g: it refuses input that can't be used with a
// [*pawl.FieldError], a context that has ended with its cause, and a nested Do
// with [ErrNested]. The context that it returns is the one for the write.
func Enter(ctx context.Context, g Guard, resource string, token pawl.Token) (context.Context, error) {
	if err := Validate(resource, token); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	in := inside{g, resource}
	if ctx.Value(in) != nil {
		return nil, fmt.Errorf("%w: %q", ErrNested, resource)
	}
	return context.WithValue(ctx, in, true), nil
}

// inside is the key of contexts inside a write to resource by guard.
type inside struct {
	guard    Guard
	resource string
}

// Validate returns a [*pawl.FieldError] unless every guard can keep resource as it
// is, which is UTF-8 without NUL, not empty and at most [MaxResource] bytes, and
// token can fence.
func Validate(resource string, token pawl.Token) error {
	switch {
	case resource == "":
		return &pawl.FieldError{Field: "Resource", Why: "is empty: name what the lock protects"}
	case len(resource) > MaxResource:
		return &pawl.FieldError{Field: "Resource", Why: fmt.Sprintf("has %d bytes: at most %d are allowed", len(resource), MaxResource)}
	case !utf8.ValidString(resource) || strings.Contains(resource, "\x00"):
		return &pawl.FieldError{Field: "Resource", Why: fmt.Sprintf("%q is not UTF-8 without NUL", resource)}
	}
	return token.Validate()
}
