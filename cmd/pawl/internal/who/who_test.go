package who_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawlock/pawl/cmd/pawl/internal/who"
	"github.com/pawlock/pawl/driver"
)

func TestLabelsAreReadBack(t *testing.T) {
	for _, test := range []struct {
		label who.Label
		text  string
	}{
		{who.Label{User: "alice", Host: "web-3", PID: 4711}, "alice@web-3:4711"},
		{who.Label{User: "alice", Host: "web-3", PID: 4711, Command: "deploy.sh", Reason: "release 2.41"}, `alice@web-3:4711 cmd=deploy.sh reason="release 2.41"`},
		{who.Label{Host: "web-3", PID: 1}, "web-3:1"},
		{who.Label{User: "a", Host: "fe80::1", PID: 2, Reason: "x"}, "a@fe80::1:2 reason=x"},
		{who.Label{User: "a", Host: "h", PID: 3, Command: `a "b"=c`, Reason: "\x1b]0;x\a"}, `a@h:3 cmd="a \"b\"=c" reason="\x1b]0;x\a"`},
		{
			who.Label{User: "a", Host: "h", PID: 4, Command: "c", Reason: "r", Meta: []who.Meta{{Name: "ticket", Value: "OPS-7"}, {Name: "note", Value: "b c"}, {Name: "empty"}}},
			`a@h:4 meta.ticket=OPS-7 meta.note="b c" meta.empty="" cmd=c reason=r`,
		},
		{
			who.Label{User: "a", Host: "h", PID: 5, MinHold: 90 * time.Second, MaxRuntime: time.Hour, Command: "c"},
			`a@h:5 min-hold=1m30s max-runtime=1h0m0s cmd=c`,
		},
		{
			who.Label{User: "a", Host: "h", PID: 6, Forced: who.Forced{From: "b@g:7", ID: "1f0c3a5e.1", Fence: 12}},
			`a@h:6 from=b@g:7 id=1f0c3a5e.1 fence=12`,
		},
	} {
		if got := test.label.String(); got != test.text {
			t.Errorf("%+v: got %q, want %q", test.label, got, test.text)
		}
		got, ok := who.Parse(test.text)
		if !ok || !reflect.DeepEqual(got, test.label) {
			t.Errorf("Parse(%q): got %+v, %v, want %+v", test.text, got, ok, test.label)
		}
	}
}

func TestMetaIsNeverCut(t *testing.T) {
	l := who.Self(strings.Repeat("c", 300), strings.Repeat("r", 600))
	l.Host, l.User = strings.Repeat("h", 300), strings.Repeat("u", 300)
	for _, refused := range []struct{ name, value string }{{"", "x"}, {"a b", "x"}, {"a=", "x"}, {"a", "\xff"}, {"a", strings.Repeat("x", 201)}} {
		if err := l.Add(refused.name, refused.value); err == nil {
			t.Errorf("Add(%q, %q): got nil, want an error", refused.name, refused.value)
		}
	}
	long := strings.Repeat("x", 80)
	for _, name := range []string{"a", "b"} {
		if err := l.Add(name, long); err != nil {
			t.Errorf("Add(%q): %v", name, err)
		}
	}
	if err := l.Add("c", ""); err == nil {
		t.Error("Add of what does not fit: got nil, want an error")
	}
	if err := l.Add("a", "again"); err == nil {
		t.Error("Add of the same name: got nil, want an error")
	}
	l.MinHold, l.MaxRuntime = 1<<62, 1<<62
	l.Forced = who.Forced{From: strings.Repeat("f", 400), ID: strings.Repeat("i", 400), Fence: 1<<64 - 1}
	s := l.String()
	if err := driver.ValidateLabel(s); err != nil {
		t.Errorf("%q: %v", s, err)
	}
	if got, ok := who.Parse(s); !ok || !reflect.DeepEqual(got.Meta, l.Meta) {
		t.Errorf("Parse(%q): got %+v, want %+v in it", s, got.Meta, l.Meta)
	}
}

func TestForeignLabelsAreNotMistaken(t *testing.T) {
	for _, s := range []string{"", "some text", "host", "host:", ":1", "host:x", "host:1 x", "host:1 a=", `host:1 a="b`, `host:1 a="b"c=d`, "host:99999999999"} {
		if got, ok := who.Parse(s); ok {
			t.Errorf("Parse(%q): got %+v, want none", s, got)
		}
	}
}

// A store refuses what is longer, or has a control character.
func TestEveryLabelCanBeStored(t *testing.T) {
	long := strings.Repeat("ü\x1b\xff", 300)
	for _, l := range []who.Label{
		who.Self("cmd", "why"),
		who.Self(long, long),
		{User: "üü", Host: strings.Repeat("h", 300), PID: 1, Command: strings.Repeat("c", 300), Reason: long},
	} {
		s := l.String()
		if err := driver.ValidateLabel(s); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
		if _, ok := who.Parse(s); !ok {
			t.Errorf("Parse(%q): not read back", s)
		}
	}
	if s := who.Self("deploy.sh", "release").String(); !strings.Contains(s, "cmd=deploy.sh reason=release") {
		t.Errorf("got %q, want command and reason in it", s)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`alice@web-3:4711 cmd=deploy.sh reason="release 2.41"`)
	f.Fuzz(func(t *testing.T, s string) {
		l, ok := who.Parse(s)
		if !ok {
			return
		}
		for _, shown := range []string{l.Process(), l.Details()} {
			if strings.ContainsFunc(shown, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x9b }) {
				t.Errorf("Parse(%q): shown as %q, with a control character", s, shown)
			}
		}
	})
}
