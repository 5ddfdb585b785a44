package pawl

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawlock/pawl/driver"
)

// A Token says under which hold of which lock something is done, for the
// resource that the lock protects: package fence has guards that refuse a token
// when a later hold has been seen. It is a value that travels, as text or in a
// context.
type Token struct {
	Key    string // of the lock
	Shared bool   // held along with others: a reader, or a semaphore's permit
	Number uint64 // what [Lease.Token] returns; 0 if the store has no tokens
}

// TokenOf returns the token of lease. After a [Lease.Downgrade] it is shared.
func TokenOf(lease *Lease) Token {
	return Token{Key: lease.key, Shared: !lease.exclusive.Load(), Number: lease.token}
}

// String returns t as text: the name of the lock, x if it is held exclusively
// or s if it is shared, and the number.
//
//	deploy:x:1795961589956265
//
// The name stands there as it is, with whatever characters it has. Of tokens
// with the same name and mode the text tells nothing about the order: use
// [Token.Compare].
func (t Token) String() string {
	mode := ":x:"
	if t.Shared {
		mode = ":s:"
	}
	return t.Key + mode + strconv.FormatUint(t.Number, 10)
}

// ParseToken is the inverse of [Token.String]. What is no text of a valid token
// is a [*FieldError].
func ParseToken(text string) (Token, error) {
	bad := func(why string) (Token, error) {
		return Token{}, &FieldError{Field: "Token", Why: fmt.Sprintf("%q %s: it is NAME:MODE:NUMBER, deploy:x:17 say", clip(text), why)}
	}
	// From the end, for the name may have colons of its own.
	head, digits, found := cutLast(text)
	key, mode, both := cutLast(head)
	if !found || !both {
		return bad("has too few colons")
	}
	if mode != "x" && mode != "s" {
		return bad("has neither x nor s as its mode")
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || strconv.FormatUint(number, 10) != digits { // one text for each token
		return bad("does not end with a number")
	}
	t := Token{Key: key, Shared: mode == "s", Number: number}
	return t, t.Validate()
}

// Validate returns a [*FieldError] unless t can fence: it has the name of a lock
// and a number. Guards call it before anything else.
func (t Token) Validate() error {
	if err := driver.ValidateKey(t.Key); err != nil {
		return err
	}
	if t.Number == 0 {
		return &FieldError{Field: "Number", Why: fmt.Sprintf("of the token of %q is 0: its store has no fencing tokens", clip(t.Key))}
	}
	return nil
}

// Compare returns -1 if t is of an earlier grant than u, 0 if they are of the
// same one, and 1 if t is of a later grant. Tokens of different locks have no
// order: comparing them is a [*FieldError].
func (t Token) Compare(u Token) (int, error) {
	if t.Key != u.Key {
		return 0, &FieldError{Field: "Key", Why: fmt.Sprintf("is %q and %q: tokens of different locks have no order", clip(t.Key), clip(u.Key))}
	}
	return cmp.Compare(t.Number, u.Number), nil
}

type tokenKey struct{}

// ContextWithToken returns a context that carries t, for code that has the token
// of a lease that another process holds.
func ContextWithToken(ctx context.Context, t Token) context.Context {
	return context.WithValue(ctx, tokenKey{}, t)
}

// TokenFromContext returns the token that ctx carries: of the innermost lease
// that ctx belongs to, or from [ContextWithToken], whichever is further in. So
// code deep in a program can name its hold to a guard. It says nothing about
// whether the lease still lasts; that is for the guard to know.
func TokenFromContext(ctx context.Context) (Token, bool) {
	switch v := ctx.Value(tokenKey{}).(type) {
	case Token:
		return v, true
	case *Lease:
		return TokenOf(v), true
	}
	return Token{}, false
}

// cutLast cuts s at its last colon.
func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// clip shortens s for a message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
