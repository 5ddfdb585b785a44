package etcd

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// names tells where in etcd the keys of locks are.
//
// A claim on the lock x is the key x/ID, as in the concurrency package: all that
// is below x/ belongs to x. A slash in a name would put one lock below another,
// so it is written %2F, and % is written %25. What is not a claim stands below a
// % that begins no such escape, where no name leads.
type names struct{ prefix string }

// line returns what the keys of all claims on the lock begin with.
func (n names) line(lock string) string { return n.prefix + escape(lock) + "/" }

// claim returns the key of one claim.
func (n names) claim(lock, id string) string { return n.line(lock) + hex(leaseID(lock, id)) }

// floor returns the key of the least token that is still free, which exists
// only where someone has raised it beyond the revision of the store.
func (n names) floor(lock string) string { return n.prefix + "%pawl/floor/" + escape(lock) }

// notices returns what the keys of all notices on the lock begin with.
func (n names) notices(lock string) string { return n.prefix + "%pawl/notice/" + escape(lock) + "/" }

// notice returns the key of the notice for one claim.
func (n names) notice(lock, id string) string { return n.notices(lock) + hex(leaseID(lock, id)) }

// parse returns the lock and the last element of a claim's key, and false for
// any other key.
func (n names) parse(key string) (lock, last string, ok bool) {
	key, ok = strings.CutPrefix(key, n.prefix)
	slash := strings.LastIndexByte(key, '/')
	if !ok || slash < 0 {
		return "", "", false
	}
	lock, ok = unescape(key[:slash])
	return lock, key[slash+1:], ok && lock != ""
}

// leaseID draws the ID of a lease from that of a claim, so that the lease and the
// key of a claim are found again when the answer was lost. IDs of claims carry
// 128 random bits; 63 of their hash keep any two apart that live at one time.
func leaseID(lock, id string) clientv3.LeaseID {
	h := sha256.New()
	fmt.Fprintf(h, "%d/%s%s", len(lock), lock, id)
	n := binary.BigEndian.Uint64(h.Sum(nil)) & math.MaxInt64
	return clientv3.LeaseID(max(n, 1)) // 0 would let the server choose
}

// hex writes a lease ID as the concurrency package and etcdctl do.
func hex(id clientv3.LeaseID) string { return strconv.FormatInt(int64(id), 16) }

// escape writes the name of a lock as one element of a key.
func escape(lock string) string { return escapes.Replace(lock) }

var escapes = strings.NewReplacer("%", "%25", "/", "%2F")

// unescape reads what escape has written, and nothing else.
func unescape(s string) (string, bool) {
	if strings.Contains(s, "/") {
		return "", false
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "%")
		b.WriteString(before)
		switch {
		case !found:
			return b.String(), true
		case strings.HasPrefix(after, "25"):
			b.WriteByte('%')
		case strings.HasPrefix(after, "2F"):
			b.WriteByte('/')
		default:
			return "", false
		}
		s = after[2:]
	}
}
