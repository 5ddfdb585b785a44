package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
)

// checkStyle checks how to print.
func (p *program) checkStyle() error {
	switch p.color {
	case "auto", "always", "never":
	default:
		return fail(exitConfig, "color %s: it is auto, always or never", plain.Quote(p.color))
	}
	switch p.logFormat {
	case "text", "json":
	default:
		return fail(exitConfig, "log format %s: it is text or json", plain.Quote(p.logFormat))
	}
	return nil
}

// What a terminal is told to print boldly, or as an alarm.
const (
	bold    = "\x1b[1m"
	alarm   = "\x1b[1;31m"
	plainly = "\x1b[0m"
)

// paint returns s in a style if w is to have colours.
func (p *program) paint(w io.Writer, style, s string) string {
	if !p.colored(w) {
		return s
	}
	return style + s + plainly
}

// colored reports whether w is to have colours: if it is a terminal that can,
// and nobody has said no.
func (p *program) colored(w io.Writer) bool {
	switch {
	case p.color == "always":
		return true
	case p.color == "never", os.Getenv("NO_COLOR") != "":
		return false
	case os.Getenv("CLICOLOR_FORCE") != "" && os.Getenv("CLICOLOR_FORCE") != "0":
		return true
	}
	return isTerminal(w) && os.Getenv("TERM") != "dumb"
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// A logLine is a message under --log-format json.
type logLine struct {
	Schema  string `json:"schema"`
	Time    string `json:"time"` // RFC 3339, UTC
	Message string `json:"message"`
}

// write writes a message to standard error.
func (p *program) write(text string) {
	if p.logFormat == "json" {
		lines := strings.Split(strings.TrimPrefix(text, "pawl: "), "\n")
		for i := range lines {
			lines[i] = strings.TrimSpace(lines[i])
		}
		b, _ := json.Marshal(logLine{schema, time.Now().UTC().Format(time.RFC3339Nano), strings.Join(lines, "; ")}) // strings only: it can't fail
		fmt.Fprintf(p.err, "%s\n", b)
		return
	}
	if rest, ok := strings.CutPrefix(text, "pawl: LOCK LOST"); ok {
		text = "pawl: " + p.paint(p.err, alarm, "LOCK LOST") + rest
	}
	fmt.Fprintln(p.err, text)
}
