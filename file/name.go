package file

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// What the files of a directory are, by the beginning of their names. The rest
// of the name of a record is its key. All names are lower case ASCII, so that
// no file system takes two for one, and none is a device on Windows.
const (
	plainPrefix = "lock-" // the key, escaped
	hashPrefix  = "hash-" // SHA-256 of a key that is too long for a name
	newPrefix   = "new-"  // a record in the making
	alivePrefix = "alive-"
	floorName   = "floor"
)

// maxName is what the strictest of usual file systems (eCryptfs) takes.
const maxName = 140

// recordName returns the name of the record file of key. No two keys share
// one, save for a collision of SHA-256; the record has the key in full.
func recordName(key string) string {
	if name := plainPrefix + escape(key); len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(key))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// keyOf returns the key whose record file is called name, and "" if only the
// record can tell. It reports whether name is that of a record at all.
func keyOf(name string) (key string, ok bool) {
	if strings.HasPrefix(name, hashPrefix) {
		return "", len(name) == len(hashPrefix)+2*sha256.Size
	}
	rest, ok := strings.CutPrefix(name, plainPrefix)
	if !ok {
		return "", false
	}
	key, ok = unescape(rest)
	return key, ok && key != "" && recordName(key) == name
}

func escape(key string) string {
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; literal(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteString(hex.EncodeToString([]byte{c}))
		}
		if b.Len() > maxName {
			break // it will be hashed
		}
	}
	return b.String()
}

func unescape(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		c, err := hex.DecodeString(s[i+1 : i+3])
		if err != nil {
			return "", false
		}
		b.WriteByte(c[0])
		i += 2
	}
	return b.String(), true
}

// literal reports whether c stands for itself in a name. Upper case letters do
// not, because of file systems that fold it; nor does a dot, which Windows
// drops at the end.
func literal(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}
