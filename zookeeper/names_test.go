package zookeeper

import (
	"math"
	"slices"
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

// Case 46: the sequence of a parent wraps around, and the order goes on.
func TestSequence(t *testing.T) {
	names := []string{"_c_x-lock-2147483646", "_c_x-lock-2147483647", "_c_x-lock--2147483648", "_c_x-lock--2147483647", "_c_x-lock--000000005"}
	want := []int32{math.MaxInt32 - 1, math.MaxInt32, math.MinInt32, math.MinInt32 + 1, -5}
	for i, name := range names {
		if got, ok := sequence(name); !ok || got != want[i] {
			t.Errorf("sequence(%q): got %d, %v, want %d", name, got, ok, want[i])
		}
	}
	line := want[:4]
	if !slices.IsSortedFunc(line, func(x, y int32) int { return int(x - y) }) {
		t.Errorf("%d is not in order", line)
	}
	if got, ok := sequence("x__lock__0000000007"); !ok || got != 7 {
		t.Errorf("sequence of kazoo's name: got %d, %v, want 7", got, ok)
	}
	if _, ok := sequence("config"); ok {
		t.Error("sequence(config): got a number")
	}
}
