// Package plain puts foreign text, durations and numbers into words that are
// safe to print on a terminal.
package plain

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Text returns s with everything that is not printable escaped as in a Go
// string: names in a store are written by others, and an escape sequence among
// them would be carried out by the reader's terminal.
func Text(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) || r == utf8.RuneError }) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if strconv.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			b.WriteRune(r)
		} else {
			q := strconv.Quote(s[i : i+size])
			b.WriteString(q[1 : len(q)-1])
		}
		i += size
	}
	return b.String()
}

// Quote returns s in double quotes, escaped as in a Go string.
func Quote(s string) string { return strconv.Quote(s) }

// Shell returns s as one word of a shell, so that what is printed can be
// pasted.
func Shell(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	if Text(s) != s {
		return "$" + "'" + strings.ReplaceAll(Text(strings.ReplaceAll(s, `\`, `\\`)), "'", `\'`) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Duration returns d in at most two units: 350ms, 4s, 7m13s, 3h5m, 2d4h. A
// negative d is 0s.
func Duration(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < time.Millisecond:
		return "1ms"
	case d < 950*time.Millisecond:
		return fmt.Sprintf("%dms", d/time.Millisecond)
	case d < 10*time.Second:
		return strings.TrimSuffix(strconv.FormatFloat(d.Seconds(), 'f', 1, 64), ".0") + "s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return two(d/time.Minute, "m", d%time.Minute/time.Second, "s")
	case d < 24*time.Hour:
		return two(d/time.Hour, "h", d%time.Hour/time.Minute, "m")
	}
	const day = 24 * time.Hour
	return two(d/day, "d", d%day/time.Hour, "h")
}

func two(a time.Duration, unit string, b time.Duration, part string) string {
	if b == 0 {
		return fmt.Sprintf("%d%s", a, unit)
	}
	return fmt.Sprintf("%d%s%d%s", a, unit, b, part)
}

// Ordinal returns n as 1st, 2nd, 3rd, 4th.
func Ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}

// Count returns n things by name, with an s unless there is one.
func Count(n int, thing, plural string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + plural
}
