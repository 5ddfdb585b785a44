package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
)

func TestErrorsOfAStoreHaveTheirCode(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, test := range []struct {
		err    error
		code   int
		reason string
	}{
		{refused, exitUnreachable, "connection refused"},
		{fmt.Errorf("%w: %w", driver.ErrRefused, refused), exitUnreachable, "connection refused"},
		{fmt.Errorf("renew.lua: %w", os.ErrDeadlineExceeded), exitUnreachable, "i/o timeout"},
		{context.DeadlineExceeded, exitUnreachable, "no answer in time"},
		{io.EOF, exitUnreachable, "EOF"},
		{fmt.Errorf("%w: LOADING the data set", driver.ErrRefused), exitUnreachable, "LOADING the data set"},
		{&pawl.Error{Op: "acquire", Key: "k", Backend: "redis", Err: fmt.Errorf("%w: NOAUTH Authentication required.", driver.ErrRefused)}, exitDenied, "NOAUTH Authentication required"},
		{errors.New("NOPERM no permission"), exitDenied, "NOPERM no permission"},
		{&os.PathError{Op: "open", Path: "/x", Err: syscall.EACCES}, exitDenied, "open /x: permission denied"},
		{&pawl.LostError{Reason: driver.Stolen}, exitLost, "lost: stolen"},
		{&pawl.HeldError{}, exitBusy, "held by another"},
		{&driver.FieldError{Field: "TTL", Why: "is 1ms"}, exitUsage, "TTL is 1ms"},
		{driver.ErrUnsupported, exitConfig, driver.ErrUnsupported.Error()},
	} {
		if got := classify(test.err); got != test.code {
			t.Errorf("classify(%v): got %d, want %d", test.err, got, test.code)
		}
		if got := reason(test.err); got != test.reason {
			t.Errorf("reason(%v): got %q, want %q", test.err, got, test.reason)
		}
	}
}

// A panic is an internal error, and not the exit code 2 of Go, which a command
// may have had.
func TestPanicIsAnInternalError(t *testing.T) {
	var text strings.Builder
	p := &program{out: panicWriter{}, err: &text}
	if got := p.execute([]string{"version"}); got != exitInternal {
		t.Errorf("got exit code %d, want %d", got, exitInternal)
	}
	if !strings.Contains(text.String(), "pawl: internal error: written to\n") {
		t.Errorf("got %q on standard error, want the panic told", text.String())
	}
}

type panicWriter struct{}

func (panicWriter) Write([]byte) (int, error) { panic("written to") }

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int
	}{
		{syscall.ENOSPC, exitInternal},
		{syscall.EPIPE, exitOK},
	} {
		p := &program{out: failingWriter{test.err}, err: io.Discard}
		if got := p.execute([]string{"version", "--json"}); got != test.want {
			t.Errorf("%v: got exit code %d, want %d", test.err, got, test.want)
		}
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestDurations(t *testing.T) {
	for _, test := range []struct {
		in   string
		want time.Duration
	}{
		{"30s", 30 * time.Second},
		{"1h30m", 90 * time.Minute},
		{"0", 0},
		{"5", 5 * time.Second},
		{"0.25", 250 * time.Millisecond},
		{"1e2", 100 * time.Second},
	} {
		if got, err := parseDuration(test.in); err != nil || got != test.want {
			t.Errorf("parseDuration(%q): got %v, %v, want %v", test.in, got, err, test.want)
		}
	}
	for _, in := range []string{"", "x", "-1", "-1s", "nan", "inf", "1e300", "5 minutes", "9223372037"} {
		if got, err := parseDuration(in); err == nil {
			t.Errorf("parseDuration(%q): got %v, want an error", in, got)
		}
	}
}

func FuzzHandle(f *testing.F) {
	h := handle{Store: "redis://h:6379/0", Key: "k\x00", ID: "x/0123456789abcdef0123456789abcdef.1", Weight: 1, Capacity: 1, TTL: 30000, Token: 1<<64 - 1, Ref: "r"}
	f.Add(h.String())
	h.Also = []handle{{Key: "l", ID: h.ID, TTL: 1}}
	f.Add(h.String())
	f.Add("pawl1.")
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parseHandle(s)
		if err != nil {
			return
		}
		again, err := parseHandle(h.String())
		if err != nil || again.String() != h.String() {
			t.Errorf("parseHandle(%q): got %+v, then %+v, %v", s, h, again, err)
		}
		if c := h.claim(); c.Key == "" || c.ID == "" || c.TTL <= 0 {
			t.Errorf("parseHandle(%q): got the claim %+v, want one that names a hold", s, c)
		}
	})
}
