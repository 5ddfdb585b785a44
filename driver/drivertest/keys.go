package drivertest

import (
	"context"
	"slices"
	"strings"

	"github.com/pawlock/pawl/driver"
)

// oddKeys returns what keys may contain, and some pairs that a store might
// take for one.
func oddKeys() []string {
	return []string{
		"a", "A", "a/b", "a/b/", "a//b", "a/", "a/.", "a/..", "a/../a", "a:b", "a::b", "a:b:c",
		"/", "//", "\\", "a\\b", ".", "..", "...", "~", "-", "--", "-rf", "#", "?", "&", ";", "$HOME", "`id`", "|", "!", "\"", "'",
		" ", "  ", "a ", " a", "a b", "a  b", "a\tb", "a\nb", "a\r\nb", "\x00", "a\x00", "a\x00b", "\x01", "\x7f",
		"%", "%%", "%2F", "%2f", "a%2Fb", "%25", "%7D", "%00", "a%b", "%7",
		"{", "}", "{}", "{}{}", "{}a", "a{}", "{a}", "{a}b", "a{b}c", "a}{b", "}{", "{{a}}", "{a", "a}", "{a}{b}", "{}{a}", "}a{b}", "{%7D}",
		"*", "a*", "a?", "[a]", "[a-z]", "[^a]", "a\\*", "^a$", "(a)", ".*", "a+",
		"0", "00", "-1", "1e3", "nil", "true", "NULL", "#shares", "lock:a", "pawl.line:{a}", "CON", "a.lock", "a.tmp", "a:1", "w", "!a",
		"é", "e\u0301", "ß", "SS", "ss", "İ", "i", "🔒", "👩‍🚒", "日本語", "\ufeffa", "\ufffd", "\u2028", "a\u200bb", "\U0010ffff",
		strings.Repeat("k", 255), strings.Repeat("k", 256), strings.Repeat("é/", 2048)[:4095] + "x",
		strings.Repeat("{}%:/ *", 4096/7) + "end",
	}
}

// anyKey: any UTF-8 string names a lock, and two strings name two.
func anyKey() []check {
	return []check{
		{"distinct", func(s *stage) { // K03, K04
			// The odd part comes last, so that a prefix finds all keys of
			// this check, and first in the other half.
			var keys []string
			for _, odd := range oddKeys() {
				keys = append(keys, s.corner+odd, odd+s.corner)
			}
			if slices.Sort(keys); len(slices.Compact(slices.Clone(keys))) != len(keys) {
				s.Fatal("two of the keys are the same")
			}
			held := make(map[string]hold)
			for _, key := range keys {
				held[key] = s.a.take(s.a.mutex(key))
			}
			for _, key := range keys {
				st := s.b.inspect(key, 10)
				if len(st.Holders) != 1 || st.Holders[0].ID != held[key].Grant.Holder || st.Holders[0].Key != key {
					s.Errorf("Inspect(%q): got %+v, want one holder, %q", key, st.Holders, held[key].Grant.Holder)
				}
				if got := s.b.refuse(s.b.mutex(key)).Holder.ID; got != held[key].Grant.Holder {
					s.Errorf("Acquire of %q: got held by %q, want %q", key, got, held[key].Grant.Holder)
				}
			}
			var want []string
			for _, key := range keys {
				if strings.HasPrefix(key, s.corner) {
					want = append(want, key)
				}
			}
			if got := s.list(s.b, s.corner); !slices.Equal(got, want) {
				s.Errorf("List(%q): got %q, want %q", s.corner, got, want)
			}
			// Every second one is released: the others don't notice.
			for i, key := range keys {
				if i%2 == 0 {
					s.a.drop(held[key].Claim)
				}
			}
			for i, key := range keys {
				if h := held[key]; i%2 == 1 {
					s.a.stillHolds(&h)
				} else {
					s.b.drop(s.b.take(s.b.mutex(key)).Claim)
				}
			}
		}},
		{"listed_by_prefix", func(s *stage) { // K03
			for _, odd := range oddKeys() {
				key := odd + s.corner
				h := s.a.take(s.a.mutex(key))
				if got := s.list(s.b, key); !slices.Equal(got, []string{key}) {
					s.Errorf("List(%q): got %q, want that key", key, got)
				}
				s.a.drop(h.Claim)
			}
		}},
		{"of_shares_and_lines", func(s *stage) { // K03
			for _, odd := range oddKeys() {
				key := s.corner + odd
				r := s.a.take(s.a.reader(key))
				w := queued(s.b.writer(key))
				s.b.refuse(w)
				st := s.b.inspect(key, 10)
				if len(st.Holders) == 0 || st.Holders[0].ID != r.Grant.Holder || st.Holders[0].Key != key {
					s.Errorf("Inspect(%q): got %+v, want the reader %q first", key, st.Holders, r.Grant.Holder)
				}
				if got := s.list(s.b, key); !slices.Contains(got, key) {
					s.Errorf("List(%q) of a key that a reader holds: got %q", key, got)
				}
				s.a.drop(r.Claim)
				s.b.drop(s.b.takeBy(s.soon(), w).Claim)
				s.b.empty(key)
			}
		}},
		{"of_any_length", func(s *stage) { // K08
			long := s.corner + strings.Repeat("x", driver.MaxKey-len(s.corner))
			other := long[:len(long)-1] + "y"
			a := s.a.take(s.a.mutex(long))
			s.b.refuse(s.b.mutex(long))
			s.b.take(s.b.mutex(other))
			s.b.take(s.b.mutex(long[:len(long)-1]))
			s.a.drop(a.Claim)
			s.b.take(s.b.mutex(long))
		}},
	}
}

// list returns the keys that List yields, in order, each once.
func (s *stage) list(p *process, prefix string) []string {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var keys []string
	for h, err := range p.List(ctx, prefix) {
		if err != nil {
			s.Fatalf("List(%q): %v", prefix, err)
		}
		if !h.Held {
			s.Errorf("List(%q): got %+v, which does not hold", prefix, h)
		}
		keys = append(keys, h.Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys) // a store may tell a key twice while it grows
}
