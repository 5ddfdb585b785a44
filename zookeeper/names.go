package zookeeper

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
)

// prefix begins the name of the node of id, as Curator's protected nodes begin.
// It is the same whenever id asks, so that a Create whose answer was lost is
// found again.
func prefix(id string) string {
	h := sha256.Sum256([]byte(id))
	return fmt.Sprintf("_c_%x-%x-%x-%x-%x-lock-", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// sequence returns the number that ZooKeeper has put at the end of name: ten
// characters, the sign among them once the counter has wrapped around.
func sequence(name string) (int32, bool) {
	if len(name) < 10 {
		return 0, false
	}
	if strings.HasSuffix(name, "-2147483648") { // the one that needs eleven
		return -1 << 31, true
	}
	digits := name[len(name)-10:]
	// ten digits, or a sign and nine: the least of eleven characters come with a
	// sign before the ten, as "-lock-" has one of its own.
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || digits[0] == '+' {
		return 0, false
	}
	if digits[0] != '-' && strings.HasSuffix(name[:len(name)-10], "--") {
		n = -n
	}
	return int32(n), n >= -1<<31 && n < 1<<31
}

// escape makes one name of a node of any key, and no two keys the same.
func escape(key string) string {
	var s strings.Builder
	for i := range len(key) {
		switch c := key[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '~', c == ':',
			c == '.' && key != "." && key != "..":
			s.WriteByte(c)
		default:
			fmt.Fprintf(&s, "%%%02X", c)
		}
	}
	return s.String()
}

// unescape returns the key of a node, and false if escape made no such name.
func unescape(name string) (string, bool) {
	var s strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '%' {
			if i+2 >= len(name) {
				return "", false
			}
			n, err := strconv.ParseUint(name[i+1:i+3], 16, 8)
			if err != nil {
				return "", false
			}
			c, i = byte(n), i+2
		}
		s.WriteByte(c)
	}
	return s.String(), escape(s.String()) == name
}

func (b *backend) dir(key string) string { return b.o.Root + "/" + escape(key) }
