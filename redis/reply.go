package redis

import (
	"fmt"
	"time"

	"github.com/pawlock/pawl/driver"
)

// First values of the scripts' answers.
const (
	codeDone       = 1
	codeHeld       = 0
	codeLost       = -1
	codeLate       = -2 // of acquire.lua
	codeForeign    = -2 // of revoke.lua
	codeQuarantine = -3 // of acquire.lua
	codeDisagree   = -4 // of acquire.lua
)

// A reply is the answer of a script, read from front to back. What is not as
// the script's header says sets err, and all that is read after it is zero.
type reply struct {
	script *script
	values []any
	err    error
}

func next[T any](r *reply) T {
	var zero T
	if r.err != nil {
		return zero
	}
	if len(r.values) == 0 {
		r.err = fmt.Errorf("%s: the server's answer is too short", r.script.name)
		return zero
	}
	v, ok := r.values[0].(T)
	if !ok {
		r.err = fmt.Errorf("%s: the server's answer has a %T where a %T belongs", r.script.name, r.values[0], zero)
		return zero
	}
	r.values = r.values[1:]
	return v
}

func (r *reply) int() int64     { return next[int64](r) }
func (r *reply) string() string { return next[string](r) }

// list returns a reply nested in r.
func (r *reply) list() *reply {
	l := &reply{script: r.script, values: next[[]any](r)}
	l.err = r.err
	return l
}

// more reports whether there is something left to read.
func (r *reply) more() bool { return r.err == nil && len(r.values) > 0 }

// notice reads the notice that may follow.
func (r *reply) notice() *driver.Notice {
	if !r.more() {
		return nil
	}
	kind, at := r.string(), r.int()
	return &driver.Notice{Force: kind == "f", At: time.UnixMicro(at), By: r.string(), Why: r.string()}
}

// lost reads why a claim is gone.
func (r *reply) lost() error {
	lost := &driver.LostError{Reason: r.string(), Notice: r.notice()}
	if r.err != nil {
		return r.err
	}
	return lost
}

// held reads what stands in the way.
func (r *reply) held(key string, now time.Time) *driver.HeldError {
	h := &driver.HeldError{Now: now, Place: int(r.int())}
	left := time.Duration(r.int()) * time.Millisecond
	h.Last = uint64(r.int())
	kind, id, rec := r.int(), r.string(), r.string()
	if kind == 1 {
		h.Holder = exclusiveHolder(key, id, now)
	} else {
		h.Holder = recordHolder(key, id, rec, now)
	}
	h.Left, h.Holder.Left = max(left, -1), max(left, -1)
	return h
}

func (r *reply) unknown(code int64) error {
	return fmt.Errorf("%s: the server's answer begins with an unknown %d", r.script.name, code)
}
