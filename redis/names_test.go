package redis_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/pawlock/pawl/redis"
)

// Case K07.
func TestNames(t *testing.T) {
	for _, test := range []struct{ prefix, key, lock, line string }{
		{"lock:", "invoice/42", "lock:invoice/42", "pawl.line:{lock:invoice/42}"},
		{"lock:", "{job}:a", "lock:{job}:a", "pawl.line:lock:{job}:a"},
		{"lock:", "a{job}b}c%", "lock:a{job}b%7Dc%25", "pawl.line:lock:a{job}b%7Dc%25"},
		{"lock:", "{}{job}", "lock:{%7D{job%7D", "pawl.line:{lock:{%7D{job%7D}"},
		{"lock:", "a}b{c}", "lock:a%7Db{c}", "pawl.line:lock:a%7Db{c}"},
		{"lock:", "100%", "lock:100%25", "pawl.line:{lock:100%25}"},
		{"lock:", "%7D", "lock:%257D", "pawl.line:{lock:%257D}"},
		{"lock:", "a{b", "lock:a{b", "pawl.line:{lock:a{b}"},
		{"{app}:", "x{y}", "{app}:x{y%7D", "pawl.line:{app}:x{y%7D"},
	} {
		names := redis.Names(test.prefix, test.key)
		if names[0] != test.lock || names[1] != test.line {
			t.Errorf("Names(%q, %q): got %q and %q, want %q and %q", test.prefix, test.key, names[0], names[1], test.lock, test.line)
		}
	}
}

func TestPatternIsLiteralUpToWhatMayBeEscaped(t *testing.T) {
	for _, test := range []struct{ prefix, key, want string }{
		{"lock:", "", `lock:*`},
		{"lock:", `a*b?[c]\d`, `lock:a\*b\?\[c\]\\d*`},
		{"lock:", "a{b}", `lock:a*`},
		{"l*ck:", "100%", `l\*ck:100*`},
	} {
		if got := redis.Pattern(test.prefix, test.key); got != test.want {
			t.Errorf("Pattern(%q, %q): got %q, want %q", test.prefix, test.key, got, test.want)
		}
	}
}

// Names can be read back, so that distinct keys are distinct locks, and all
// keys of a lock are in one slot, so that a script may touch them.
// Cases K01, K02.
func FuzzNames(f *testing.F) {
	for _, key := range []string{"k", "{}", "}{", "{a}", "{a}{b}}", "%", "%7D", "%257D", "}%{", "a\x00b", "é {ü} ", "{{}}", "{}}", "lock:", "{%7D"} {
		f.Add(key, false)
		f.Add(key, true)
	}
	f.Fuzz(func(t *testing.T, key string, tagged bool) {
		prefix := "lock:"
		if tagged {
			prefix = "{app}:"
		}
		if key == "" {
			return
		}
		names := redis.Names(prefix, key)
		if got, ok := redis.KeyOf(prefix, names[0]); got != key || !ok {
			t.Errorf("the name of %q is %q, which reads %q, %v", key, names[0], got, ok)
		}
		if !strings.HasPrefix(names[0], prefix) {
			t.Errorf("the name of %q is %q, want one with the prefix %q", key, names[0], prefix)
		}
		seen := make(map[string]bool)
		for _, name := range names {
			if slot(name) != slot(names[0]) {
				t.Errorf("%q is in slot %d, %q in slot %d", names[0], slot(names[0]), name, slot(name))
			}
			seen[name] = true
		}
		if len(seen) != 5 {
			t.Errorf("the names of %q are %q, want five", key, names)
		}
	})
}

// FuzzKeyOf reads names that others may have made up: those that are read as
// keys are the names of these keys.
func FuzzKeyOf(f *testing.F) {
	for _, name := range []string{"lock:k", "lock:", "lock:%", "lock:%7d", "lock:{a}%7D", "lock:{a%7D", "other"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if key, ok := redis.KeyOf("lock:", name); ok && redis.Names("lock:", key)[0] != name {
			t.Errorf("%q reads %q, whose name is %q", name, key, redis.Names("lock:", key)[0])
		}
	})
}

// slot is the hash slot of a key, as the specification of Redis Cluster has it.
func slot(name string) uint16 {
	if m := regexp.MustCompile(`(?s)^[^{]*\{([^}]+)\}`).FindStringSubmatch(name); m != nil {
		name = m[1]
	}
	var crc uint16
	for i := range len(name) {
		crc ^= uint16(name[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % 16384
}

func TestSlotIsThatOfRedisCluster(t *testing.T) {
	for name, want := range map[string]uint16{"123456789": 0x31c3 % 16384, "lock:{job}:a": 2906, "lock:{job}:b": 2906} {
		if got := slot(name); got != want {
			t.Errorf("slot(%q): got %d, want %d", name, got, want)
		}
	}
}
