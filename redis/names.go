package redis

import (
	"strings"
)

// derived begins the names of the keys that go with a lock.
const derived = "pawl."

// names gives keys the names that they have in the store.
type names struct{ prefix string }

// keys are the KEYS of the scripts, in order. Node is "" but for those scripts
// that look at the quarantine.
type keys struct{ lock, line, shares, claims, fence, node string }

func (k keys) slice() []string {
	switch {
	case k.node == "":
		return []string{k.lock, k.line, k.shares, k.claims, k.fence}
	case k.lock == "":
		return []string{k.node}
	}
	return []string{k.lock, k.line, k.shares, k.claims, k.fence, k.node}
}

// node returns the name of the marker of the restart quarantine.
func (n names) node() string { return derived + "node:" + n.prefix }

// of returns the names for key. All of them are in one hash slot: that of the
// hash tag in the name of the lock if it has one, else of the whole name.
func (n names) of(key string) keys {
	lock := n.lock(key)
	tagged := lock
	if _, _, ok := hashTag(lock); !ok {
		tagged = "{" + lock + "}"
	}
	return keys{
		lock:   lock,
		line:   derived + "line:" + tagged,
		shares: derived + "shares:" + tagged,
		claims: derived + "claims:" + tagged,
		fence:  derived + "fence:" + tagged,
	}
}

// lock escapes key, so that wrapping the name in braces makes a hash tag of all
// of it: a } would end the tag early, unless it ends one of key's own.
func (n names) lock(key string) string {
	if !strings.ContainsAny(key, "%}") {
		return n.prefix + key
	}
	key = strings.ReplaceAll(key, "%", "%25")
	name := n.prefix + key
	_, end, ok := hashTag(name)
	if !ok {
		return n.prefix + strings.ReplaceAll(key, "}", "%7D")
	}
	if end < len(n.prefix) { // the tag is the prefix's own
		return n.prefix + strings.ReplaceAll(key, "}", "%7D")
	}
	end -= len(n.prefix)
	return n.prefix + strings.ReplaceAll(key[:end], "}", "%7D") + "}" + strings.ReplaceAll(key[end+1:], "}", "%7D")
}

// key is the inverse of lock. It reports false for what lock never returns.
func (n names) key(name string) (string, bool) {
	escaped, ok := strings.CutPrefix(name, n.prefix)
	if !ok || escaped == "" {
		return "", false
	}
	key := strings.ReplaceAll(strings.ReplaceAll(escaped, "%7D", "}"), "%25", "%")
	return key, n.lock(key) == name
}

// pattern matches the names of all keys that begin with prefix, and a few
// more: what follows the first character that may be escaped is left open.
func (n names) pattern(prefix string) string {
	if i := strings.IndexAny(prefix, "%{}"); i >= 0 {
		prefix = prefix[:i]
	}
	return globEscaper.Replace(n.prefix+prefix) + "*"
}

var globEscaper = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `\`, `\\`)

// hashTag returns where the hash tag of name begins and ends, by the rules of
// Redis Cluster: what is between the first { and the first } after it, unless
// that is nothing.
func hashTag(name string) (start, end int, ok bool) {
	open := strings.IndexByte(name, '{')
	if open < 0 {
		return 0, 0, false
	}
	n := strings.IndexByte(name[open+1:], '}')
	if n <= 0 {
		return 0, 0, false
	}
	return open + 1, open + 1 + n, true
}
