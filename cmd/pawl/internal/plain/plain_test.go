package plain_test

import (
	"testing"
	"time"

	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
)

func TestTextHasNothingThatATerminalObeys(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"deploy", "deploy"},
		{"größe 価格 🙂", "größe 価格 🙂"},
		{`a\b"c`, `a\b"c`},
		{"\x1b]0;x\a", `\x1b]0;x\a`},
		{"a\nb\tc\r", `a\nb\tc\r`},
		{"\u202eabc", `\u202eabc`},
		{"\xff\xfe", `\xff\xfe`},
		{"a\ufffdb", "a\ufffdb"},
		{"\u009b31m", `\u009b31m`},
	} {
		if got := plain.Text(test.in); got != test.want {
			t.Errorf("Text(%q): got %q, want %q", test.in, got, test.want)
		}
	}
}

func TestShellWordsCanBePasted(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"deploy/prod:1", "deploy/prod:1"},
		{"", "''"},
		{"a b", "'a b'"},
		{"it's", `'it'\''s'`},
		{"$(x)", "'$(x)'"},
		{"a\x1b'\\", `$'a\x1b\'\\'`},
	} {
		if got := plain.Shell(test.in); got != test.want {
			t.Errorf("Shell(%q): got %s, want %s", test.in, got, test.want)
		}
	}
}

// Case V64.
func TestDurationsHaveAtMostTwoUnits(t *testing.T) {
	for _, test := range []struct {
		in   time.Duration
		want string
	}{
		{-time.Second, "0s"},
		{0, "0s"},
		{time.Microsecond, "1ms"},
		{350 * time.Millisecond, "350ms"},
		{960 * time.Millisecond, "1s"},
		{4 * time.Second, "4s"},
		{4250 * time.Millisecond, "4.2s"},
		{59999 * time.Millisecond, "59s"},
		{7*time.Minute + 13*time.Second + 5*time.Millisecond, "7m13s"},
		{10 * time.Minute, "10m"},
		{3*time.Hour + 5*time.Minute + 59*time.Second, "3h5m"},
		{52 * time.Hour, "2d4h"},
	} {
		if got := plain.Duration(test.in); got != test.want {
			t.Errorf("Duration(%v): got %q, want %q", test.in, got, test.want)
		}
	}
}

func TestOrdinals(t *testing.T) {
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 112: "112th"} {
		if got := plain.Ordinal(n); got != want {
			t.Errorf("Ordinal(%d): got %q, want %q", n, got, want)
		}
	}
}
