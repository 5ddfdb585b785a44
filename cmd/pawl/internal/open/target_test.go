package open_test

import (
	"strings"
	"testing"

	"github.com/pawlock/pawl/cmd/pawl/internal/open"
)

func TestURLsAreTakenApart(t *testing.T) {
	const pw = "s3cret"
	for _, test := range []struct {
		raw  string
		want open.Target
		text string
	}{
		{"file:///var/lib/pawl", open.Target{Scheme: open.File, Path: "/var/lib/pawl"}, "file:///var/lib/pawl"},
		{"file:///a%20b", open.Target{Scheme: open.File, Path: "/a b"}, "file:///a%20b"},
		{"file:///100%", open.Target{Scheme: open.File, Path: "/100%"}, "file:///100%25"},
		{"mem://", open.Target{Scheme: open.Memory}, "mem://"},
		{"redis://h", open.Target{Scheme: open.Redis, Host: "h", Port: 6379}, "redis://h:6379/0"},
		{"REDIS://h/", open.Target{Scheme: open.Redis, Host: "h", Port: 6379}, "redis://h:6379/0"},
		{"redis://", open.Target{Scheme: open.Redis, Host: "localhost", Port: 6379}, "redis://localhost:6379/0"},
		{"redis://r-1.example.com:7000/3", open.Target{Scheme: open.Redis, Host: "r-1.example.com", Port: 7000, DB: 3}, "redis://r-1.example.com:7000/3"},
		{"redis://10.0.0.1:6380", open.Target{Scheme: open.Redis, Host: "10.0.0.1", Port: 6380}, "redis://10.0.0.1:6380/0"},
		{"redis://[::1]", open.Target{Scheme: open.Redis, Host: "::1", Port: 6379}, "redis://[::1]:6379/0"},
		{"redis://u:p@[2001:db8::1]:7000/2", open.Target{Scheme: open.Redis, Host: "2001:db8::1", Port: 7000, DB: 2, User: "u", Password: "p", HasPassword: true}, "redis://[2001:db8::1]:7000/2"},
		{"redis://[fe80::1%25eth0]:1", open.Target{Scheme: open.Redis, Host: "fe80::1%eth0", Port: 1}, "redis://[fe80::1%25eth0]:1/0"},
		{"redis://alice@h", open.Target{Scheme: open.Redis, Host: "h", Port: 6379, User: "alice"}, "redis://h:6379/0"},
		{"redis://:@h", open.Target{Scheme: open.Redis, Host: "h", Port: 6379, HasPassword: true}, "redis://h:6379/0"},
		{"rediss://:" + pw + "@h/1", open.Target{Scheme: open.RedisTLS, Host: "h", Port: 6379, DB: 1, Password: pw, HasPassword: true}, "rediss://h:6379/1"},
		{"redis://:a#b@h", open.Target{Scheme: open.Redis, Host: "h", Port: 6379, Password: "a#b", HasPassword: true}, "redis://h:6379/0"},
		{"redis://:a@b@h", open.Target{Scheme: open.Redis, Host: "h", Port: 6379, Password: "a@b", HasPassword: true}, "redis://h:6379/0"},
		{"redis://:a?b=c@h", open.Target{Scheme: open.Redis, Host: "h", Port: 6379, Password: "a?b=c", HasPassword: true}, "redis://h:6379/0"},
		{"redis://:se%cret@h", open.Target{Scheme: open.Redis, Host: "h", Port: 6379, Password: "se%cret", HasPassword: true}, "redis://h:6379/0"},
		{"redis://:100%@h", open.Target{Scheme: open.Redis, Host: "h", Port: 6379, Password: "100%", HasPassword: true}, "redis://h:6379/0"},
		{"redis://:a%2Fb%40c%25@h", open.Target{Scheme: open.Redis, Host: "h", Port: 6379, Password: "a/b@c%", HasPassword: true}, "redis://h:6379/0"},
		{"redis://u%3Av:a:b@h", open.Target{Scheme: open.Redis, Host: "h", Port: 6379, User: "u:v", Password: "a:b", HasPassword: true}, "redis://h:6379/0"},
		{"redis+unix:///run/redis.sock", open.Target{Scheme: open.RedisUnix, Path: "/run/redis.sock"}, "redis+unix:///run/redis.sock"},
		{"unix://:p#q@/run/redis.sock?db=4", open.Target{Scheme: open.RedisUnix, Path: "/run/redis.sock", DB: 4, Password: "p#q", HasPassword: true}, "redis+unix:///run/redis.sock?db=4"},
		{"unix://u@/run/a%40b.sock", open.Target{Scheme: open.RedisUnix, Path: "/run/a@b.sock", User: "u"}, "redis+unix:///run/a@b.sock"},
		{"unix:///run/a@b.sock", open.Target{Scheme: open.RedisUnix, Path: "/run/a@b.sock"}, "redis+unix:///run/a@b.sock"},
	} {
		got, err := open.Parse(test.raw)
		if err != nil {
			t.Errorf("Parse(%q): got error %v, want none", test.raw, err)
			continue
		}
		if *got != test.want {
			t.Errorf("Parse(%q): got %+v, want %+v", test.raw, *got, test.want)
		}
		if got.String() != test.text {
			t.Errorf("Parse(%q).String(): got %q, want %q", test.raw, got, test.text)
		}
	}
}

func TestBadURLsAreRefusedWithoutShowingThem(t *testing.T) {
	const marker = "MARKER"
	for _, raw := range []string{
		"",
		marker,
		marker + "://h",
		"redis:" + marker,
		"redis:/:" + marker + "@h",
		"http://:" + marker + "@h",
		"redis://:" + marker + "/0",
		"redis://:a/" + marker + "@h/0",
		"redis://:1/" + marker + "@h",
		"redis://:" + marker + "@h:port",
		"redis://:" + marker + "@h:0",
		"redis://:" + marker + "@h:65536",
		"redis://:" + marker + "@h:1:2",
		"redis://:" + marker + "@h1:1,h2:2",
		"redis://:" + marker + "@h1,h2",
		"redis://:" + marker + "@::1",
		"redis://:" + marker + "@[::1",
		"redis://:" + marker + "@[::1]x",
		"redis://:" + marker + "@[h]",
		"redis://:" + marker + "@h/x",
		"redis://:" + marker + "@h/-1",
		"redis://:" + marker + "@h/1000000",
		"redis://h/0?password=" + marker,
		"redis://h?" + marker,
		"redis://h#" + marker,
		"redis://:" + marker + " @ h",
		"unix://" + marker,
		"unix://:" + marker + "/x@/run/redis.sock",
		"unix://:@/" + marker + "@/run/redis.sock",
		"unix:///run/redis.sock?db=" + marker,
		"unix:///run/redis.sock?password=" + marker,
		"file://" + marker + "/x",
		"file://",
		"file:///a\x00" + marker,
		"file:///a%00" + marker,
		"mem://" + marker,
	} {
		got, err := open.Parse(raw)
		if err == nil {
			t.Errorf("Parse(%q): got %+v, want an error", raw, got)
			continue
		}
		if strings.Contains(err.Error(), marker) {
			t.Errorf("Parse(%q): the error shows it: %v", raw, err)
		}
	}
}

// FuzzNoPasswordIsEverShown puts a password into a URL whose other parts are
// anything: it is in no error, and in no text of the URL. Only the user
// information may hold it: what the fuzzer must not do is move it elsewhere.
func FuzzNoPasswordIsEverShown(f *testing.F) {
	const marker = "MARKER"
	for _, scheme := range []string{"redis", "rediss", "redis+unix", "unix", "file", "mem", "http", ""} {
		f.Add(scheme, "user", "", "", "host:6379/0")
		f.Add(scheme, "", "a#", "@%", "[::1]:1/x?y=z@")
		f.Add(scheme, "", "a/", "/b", "h,i:1")
		f.Add(scheme, "u", "1/", "", "/run/redis.sock?db=1")
	}
	f.Fuzz(func(t *testing.T, scheme, user, before, after, rest string) {
		if strings.ContainsAny(user, ":/@") || strings.Contains(scheme+user+rest, marker) {
			t.Skip("another URL: the password would not begin after the first colon")
		}
		if strings.EqualFold(scheme, "file") {
			t.Skip("a file URL has no password: it is a path from end to end")
		}
		raw := scheme + "://" + user + ":" + before + marker + after + "@" + rest
		target, err := open.Parse(raw)
		if err != nil {
			if strings.Contains(err.Error(), marker) {
				t.Errorf("Parse(%q): the error shows the password: %v", raw, err)
			}
			return
		}
		if strings.Contains(target.String(), marker) {
			t.Errorf("Parse(%q): the text shows the password: %v", raw, target)
		}
		again, err := open.Parse(target.String())
		if err != nil {
			t.Errorf("Parse(%q): its own text %q is not read back: %v", raw, target, err)
			return
		}
		if again.String() != target.String() {
			t.Errorf("Parse(%q): its text changes when read back: %q, then %q", raw, target, again)
		}
	})
}
