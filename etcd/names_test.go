package etcd

import (
	"strings"
	"testing"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Case K04: one name is a path prefix of another. Names are data, whatever is in them.
func TestNamesNeverMeet(t *testing.T) {
	n := names{"p/"}
	locks := []string{"a", "a/b", "a/", "/", "a//b", "a%", "a%2Fb", "%", "%25", "%pawl", "%pawl/notice/a", "a/b/c", "pawl", ""}
	for _, x := range locks {
		for _, y := range locks {
			if x == y {
				continue
			}
			if strings.HasPrefix(n.line(x), n.line(y)) {
				t.Errorf("the claims on %q are below those on %q: %s, %s", x, y, n.line(x), n.line(y))
			}
			for _, other := range []string{n.floor(y), n.notice(y, "id"), n.notices(y)} {
				if strings.HasPrefix(other, n.line(x)) && x != "" {
					t.Errorf("%s of %q is below the claims on %q, %s", other, y, x, n.line(x))
				}
			}
		}
	}
}

func TestAPlainNameIsItsOwnKey(t *testing.T) {
	for _, name := range []string{"x", "invoice-42", "a.b:c", "é", "{a}", "a b"} {
		if got := (names{}).line(name); got != name+"/" {
			t.Errorf("line of %q: got %q, want that of the concurrency package", name, got)
		}
	}
	if got, want := (names{}).line("invoice/42%"), "invoice%2F42%25/"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheLeaseOfAClaimIsItsOwn(t *testing.T) {
	seen := make(map[clientv3.LeaseID]string)
	for _, c := range [][2]string{{"a", "b"}, {"ab", ""}, {"", "ab"}, {"a", "c"}, {"b", "a"}, {"1/a", "b"}} {
		id := leaseID(c[0], c[1])
		if id <= 0 {
			t.Errorf("lease of %q: got %d, want a positive one", c, id)
		}
		if other, ok := seen[id]; ok {
			t.Errorf("%q and %q have one lease", c, other)
		}
		seen[id] = strings.Join(c[:], ",")
		if again := leaseID(c[0], c[1]); again != id {
			t.Errorf("lease of %q: got %d and %d", c, id, again)
		}
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"a", "a/b", "%", "%2f", "%25", "a%2Fb", "%pawl/floor/a", "\x00", "é"} {
		f.Add(s, "p/")
	}
	f.Fuzz(func(t *testing.T, lock, prefix string) {
		n := names{prefix}
		if back, ok := unescape(escape(lock)); !ok || back != lock {
			t.Fatalf("%q: got %q, %v back", lock, back, ok)
		}
		if utf8.ValidString(lock) && !utf8.ValidString(escape(lock)) {
			t.Errorf("%q: its escape is not UTF-8", lock)
		}
		got, last, ok := n.parse(n.claim(lock, "id"))
		if want := hex(leaseID(lock, "id")); ok != (lock != "") || got != lock || last != want {
			t.Errorf("claim on %q: got %q, %q, %v", lock, got, last, ok)
		}
		for _, key := range []string{n.floor(lock), n.notice(lock, "id")} {
			if got, _, ok := n.parse(key); ok {
				t.Errorf("%q is taken for a claim on %q", key, got)
			}
		}
		// What parses is what we write: no two keys are one lock's.
		if got, last, ok := n.parse(prefix + lock); ok && n.line(got)+last != prefix+lock {
			t.Errorf("%q reads as a claim on %q, which has %q", prefix+lock, got, n.line(got)+last)
		}
	})
}
