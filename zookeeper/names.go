package zookeeper

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// guid is the part of a name by which a claim's nodes are found without reading
// them: the same whenever id asks, so that a Create whose answer was lost is
// found again.
func guid(id string) string {
	h := sha256.Sum256([]byte(id))
	return fmt.Sprintf("%x-%x-%x-%x-", h[:4], h[4:6], h[6:8], h[8:10])
}

// protected begins the name of a node of id as Curator's protected nodes begin.
// What follows the guid is drawn, so that no two nodes ever have one name, and a
// version read of one can't be taken for that of another.
func protected(id string) string {
	var r [6]byte
	rand.Read(r[:]) // never fails
	return fmt.Sprintf("_c_%s%x-lock-", guid(id), r)
}

// ofClaim reports whether name is that of a node of id.
func ofClaim(name, id string) bool { return strings.HasPrefix(name, "_c_"+guid(id)) }

// moved is a name for a node of id in the place of the one called name.
func moved(name, id string) string {
	return protected(id) + name[strings.LastIndex(name, "-lock-")+len("-lock-"):]
}

// sequential reports whether name ends in a number as ZooKeeper puts one there: ten
// characters, with the sign among them where the counter has wrapped around. Of
// the nodes below a key those are claims.
func sequential(name string) bool {
	head := strings.TrimRight(name, "0123456789")
	digits := len(name) - len(head)
	return digits >= 10 || digits == 9 && strings.HasSuffix(head, "-")
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

// dir is the node of a key.
func (b *backend) dir(key string) string { return b.o.Root + "/" + escape(key) }

// What has to be remembered of a key longer than its node lives is below a name
// that no key has.
const memories = "%kept"

func (b *backend) memory(key string) string { return b.o.Root + "/" + memories + "/" + escape(key) }

// validRoot reports whether root can be a path of ZooKeeper's that we may use.
func validRoot(root string) bool {
	if !strings.HasPrefix(root, "/") || root == "/zookeeper" || strings.HasPrefix(root, "/zookeeper/") || !utf8.ValidString(root) {
		return false
	}
	for part := range strings.SplitSeq(root[1:], "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsFunc(part, unicode.IsControl) {
			return false
		}
	}
	return true
}
