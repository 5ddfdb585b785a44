package driver

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
	"sync/atomic"
)

// An Identity draws the IDs of one client's claims. An ID reads
//
//	label/0123456789abcdef0123456789abcdef.7
//
// the client's label, 128 random bits that no two clients share, and a sequence
// number that the client never uses twice. A label is what people read; two
// clients with the same one are still two.
type Identity struct {
	label string
	nonce string
	next  atomic.Uint64
}

// NewIdentity returns an Identity of its own for label.
func NewIdentity(label string) *Identity {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program first
	return &Identity{label: label, nonce: hex.EncodeToString(b[:])}
}

// Next returns an ID that was never used before.
func (i *Identity) Next() string {
	return i.label + "/" + i.nonce + "." + strconv.FormatUint(i.next.Add(1), 10)
}

// An ID is a claim's ID taken apart.
type ID struct {
	Label  string // as given to NewIdentity
	Client string // 32 hex digits
	Tail   string // the sequence number, and what a backend has appended to it (a quorum's "~n")
}

// ParseID takes s apart, and reports whether it is an ID of ours: everything
// up to the last slash is the label, so that a label may contain anything.
func ParseID(s string) (ID, bool) {
	slash := strings.LastIndexByte(s, '/')
	if slash < 0 {
		return ID{}, false
	}
	client, tail, ok := strings.Cut(s[slash+1:], ".")
	if !ok || len(client) != 32 || strings.Trim(client, "0123456789abcdef") != "" {
		return ID{}, false
	}
	if tail == "" || strings.Trim(tail, "0123456789~") != "" {
		return ID{}, false
	}
	return ID{Label: s[:slash], Client: client, Tail: tail}, true
}
