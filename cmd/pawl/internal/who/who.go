// Package who is how a holder of a lock is named in the store: the label of a
// claim, as the program writes it and reads it back.
//
// The form is one line, for people and programs alike:
//
//	user@host:pid meta.ticket=OPS-7 max-runtime=1h0m0s cmd=deploy.sh reason="release 2.41"
//
// Who forces a holder out leaves a label, too, with whom it took the lock from:
//
//	user@host:pid from=alice@web-3:4711 id=1f0c3a5e.1 fence=1287
//
// A value stands in double quotes, escaped as in a Go string, if it is empty or
// has anything in it but letters, digits and the characters . _ - / : + @ and a
// comma. Unknown fields are ignored. The label of a program that uses the
// library, host:pid, is read as well.
package who

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
	"github.com/pawlock/pawl/driver"
)

// A Label names a process that holds a lock, or waits for one.
type Label struct {
	User    string // empty where the library wrote the label
	Host    string
	PID     int
	Command string // its name; its arguments only if the user wished so, for they may be secret
	Reason  string // in the user's words
	Meta    []Meta // what else the user has to say, see [Label.Add]

	MinHold    time.Duration // the lock is kept for so long at least, 0 if it is not
	MaxRuntime time.Duration // the command is stopped after so long, 0 if it is not

	Forced Forced // of a notice: who was forced out
}

// Forced is a holder that was forced out of a lock.
type Forced struct {
	From  string // its user, host and process, as its own label begins
	ID    string // in short
	Fence uint64
}

// A Meta is a fact about a holder, for its users' own programs.
type Meta struct{ Name, Value string }

// What a label has room for.
const (
	maxCommand = 160
	maxMeta    = 180 // bytes of all that was added, as it is stored
)

// Add adds a fact. Its error says what is wrong with it.
func (l *Label) Add(name, value string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	if name == "" || strings.Trim(name, letters) != "" {
		return errors.New("a name is made of letters, digits, _ and -")
	}
	size := len(metaField(name, value))
	for _, m := range l.Meta {
		if m.Name == name {
			return errors.New("there is one of that name already")
		}
		size += len(metaField(m.Name, m.Value))
	}
	if size > maxMeta || !utf8.ValidString(value) {
		return fmt.Errorf("all of them together are text, and at most %d bytes", maxMeta)
	}
	l.Meta = append(l.Meta, Meta{name, value})
	return nil
}

// Self returns the label of this process.
func Self(command, reason string) Label {
	l := Label{User: userName(), PID: os.Getpid(), Command: command, Reason: reason}
	if host, err := os.Hostname(); err == nil {
		l.Host = word(host)
	}
	if l.Host == "" {
		l.Host = "unknown"
	}
	return l
}

// userName is looked up only where no environment tells it.
func userName() string {
	if u, err := user.Current(); err == nil {
		return word(u.Username)
	}
	return "uid-" + strconv.Itoa(os.Getuid())
}

// word returns s without the characters that would end it in a label.
func word(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == '"' || r == '@' || r == utf8.RuneError || !strconv.IsPrint(r) {
			return '_'
		}
		return r
	}, s)
}

// String returns the label as it is stored. What is too long for a store is
// cut: first the reason, then the command, and what was added by [Label.Add] never.
func (l Label) String() string {
	s := shorten(l.Host, 200) + ":" + strconv.Itoa(l.PID)
	if l.User != "" {
		s = shorten(l.User, 100) + "@" + s
	}
	for _, m := range l.Meta {
		s += metaField(m.Name, m.Value)
	}
	for _, limit := range []struct {
		name string
		d    time.Duration
	}{{"min-hold", l.MinHold}, {"max-runtime", l.MaxRuntime}} {
		if f := field(limit.name, limit.d.String(), driver.MaxLabel); limit.d > 0 && len(s)+len(f) <= driver.MaxLabel {
			s += f
		}
	}
	if l.Forced != (Forced{}) {
		tail := field("id", shorten(l.Forced.ID, 80), driver.MaxLabel) + " fence=" + strconv.FormatUint(l.Forced.Fence, 10)
		if room := driver.MaxLabel - len(s) - len(tail); room >= 0 { // always, without a Meta
			s += field("from", l.Forced.From, room) + tail
		}
	}
	if l.Command != "" {
		s += field("cmd", shorten(l.Command, maxCommand), driver.MaxLabel-len(s))
	}
	if l.Reason != "" {
		s += field("reason", l.Reason, driver.MaxLabel-len(s))
	}
	return s
}

func metaField(name, value string) string { return " meta." + name + "=" + quote(value) }

// field returns a field that has at most room bytes, or nothing if even its
// beginning does not fit.
func field(name, value string, room int) string {
	for n := len(value); n > 0; n = min(n-1, n*3/4) {
		if f := " " + name + "=" + quote(shorten(value, n)); len(f) <= room {
			return f
		}
	}
	return ""
}

func shorten(s string, n int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

const bare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:+@,"

func quote(s string) string {
	if s != "" && strings.Trim(s, bare) == "" {
		return s
	}
	return strconv.Quote(s)
}

// Parse reads a label, and reports false if it is not one of ours.
func Parse(s string) (Label, bool) {
	var l Label
	process, rest, _ := strings.Cut(s, " ")
	if name, host, ok := strings.Cut(process, "@"); ok {
		l.User, process = name, host
	}
	colon := strings.LastIndexByte(process, ':')
	if colon <= 0 {
		return Label{}, false
	}
	pid, err := strconv.ParseUint(process[colon+1:], 10, 31)
	if err != nil {
		return Label{}, false
	}
	l.Host, l.PID = process[:colon], int(pid)
	for rest != "" {
		name, value, ok := strings.Cut(rest, "=")
		if !ok {
			return Label{}, false
		}
		if value, rest, ok = cutValue(value); !ok {
			return Label{}, false
		}
		switch name {
		case "cmd":
			l.Command = value
		case "reason":
			l.Reason = value
		case "min-hold":
			l.MinHold = limit(value)
		case "max-runtime":
			l.MaxRuntime = limit(value)
		case "from":
			l.Forced.From = value
		case "id":
			l.Forced.ID = value
		case "fence":
			l.Forced.Fence, _ = strconv.ParseUint(value, 10, 64) // 0 if it is none
		default:
			if name, ok := strings.CutPrefix(name, "meta."); ok {
				l.Meta = append(l.Meta, Meta{name, value})
			}
		}
	}
	return l, true
}

// limit returns a time that a label tells, 0 if it is none.
func limit(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0
	}
	return max(0, d)
}

func cutValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		value, rest, _ = strings.Cut(s, " ")
		return value, rest, value != ""
	}
	quoted, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", "", false
	}
	value, err = strconv.Unquote(quoted)
	if err != nil {
		return "", "", false
	}
	rest = s[len(quoted):]
	if rest == "" {
		return value, "", true
	}
	rest, ok = strings.CutPrefix(rest, " ")
	return value, rest, ok && rest != ""
}

// Holder returns the process part of the label, as it is stored.
func (l Label) Holder() string { return Label{User: l.User, Host: l.Host, PID: l.PID}.String() }

// Process returns who it is, safe to print: alice@web-3 pid 4711.
func (l Label) Process() string {
	s := plain.Text(l.Host) + " pid " + strconv.Itoa(l.PID)
	if l.User != "" {
		s = plain.Text(l.User) + "@" + s
	}
	return s
}

// Details returns what it does, safe to print: running deploy.sh · reason
// "release 2.41". It is empty if the label does not tell.
func (l Label) Details() string {
	var parts []string
	if l.Command != "" {
		parts = append(parts, "running "+plain.Text(l.Command))
	}
	if l.Reason != "" {
		parts = append(parts, "reason "+plain.Quote(l.Reason))
	}
	if l.MinHold > 0 {
		parts = append(parts, "held for "+plain.Duration(l.MinHold)+" at least")
	}
	if l.MaxRuntime > 0 {
		parts = append(parts, "stopped after "+plain.Duration(l.MaxRuntime))
	}
	for _, m := range l.Meta {
		parts = append(parts, plain.Text(m.Name)+" "+plain.Quote(m.Value))
	}
	return strings.Join(parts, " · ")
}
