package zookeeper

import (
	"strings"
	"testing"
)

// K03, K04: distinct keys never meet in one node, and each can be read back.
func TestNames(t *testing.T) {
	seen := make(map[string]string)
	for _, key := range []string{"a", "a/b", "a%2Fb", "/a", "a/", ".", "..", "...", "%2E", "%", "\x00", "😀", "zookeeper", "a.b", strings.Repeat("/", 64<<10)} {
		name := escape(key)
		if strings.ContainsAny(name, "/\x00") || name == "." || name == ".." {
			t.Errorf("escape(%.20q): got %.20q, which can't name a node", key, name)
		}
		if other, ok := seen[name]; ok {
			t.Errorf("%.20q and %.20q share a node", key, other)
		}
		seen[name] = key
		if got, ok := unescape(name); !ok || got != key {
			t.Errorf("unescape(%.20q): got %.20q, %v, want %.20q", name, got, ok, key)
		}
	}
	for _, name := range []string{"a%2", "a%zz", "%61", "a b"} {
		if key, ok := unescape(name); ok {
			t.Errorf("unescape(%q): got %q, want that it is none of ours", name, key)
		}
	}
}

// What is a claim to those who keep locks below a node, and what is none.
func TestClaimsEndInANumber(t *testing.T) {
	for name, want := range map[string]bool{
		"_c_x-lock-0000000000": true, "_c_x-lock-2147483647": true, "x__lock__0000000007": true,
		"_c_x-lock--2147483648": true, "_c_x-lock--000000005": true, // of servers whose counter wraps around
		"config": false, "lock-1": false, "000000005": false, "": false,
	} {
		if got := sequential(name); got != want {
			t.Errorf("sequential(%q): got %v, want %v", name, got, want)
		}
	}
}
