// Package fencehttp carries fencing tokens over HTTP: a client whose requests bear
// the token of their context, and a server that hands it to a guard.
//
//	POST /invoices/42 HTTP/1.1
//	Fencing-Token: /invoices/42 invoices:x:1795961589956265
//
// A request whose token is stale is answered with 412, and not served.
package fencehttp

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/fence"
)

// Header is the name of the field. Its value is the resource, a space, and the
// token, each with the bytes escaped that are no visible ASCII, and % and the
// comma, as %XX.
const Header = "Fencing-Token"

// Set puts the field into the header of a request.
func Set(h http.Header, resource string, token pawl.Token) {
	h.Set(Header, escape(resource)+" "+escape(token.String()))
}

// errMissing is that of a request without the field.
var errMissing = errors.New("the request has no " + Header + " field")

// parse returns what the one field of h says.
func parse(h http.Header) (resource string, token pawl.Token, err error) {
	values := h.Values(Header)
	switch len(values) {
	case 0:
		return "", token, errMissing
	case 1:
	default:
		return "", token, fmt.Errorf("the request has %d %s fields: one is allowed", len(values), Header)
	}
	first, second, found := strings.Cut(strings.Trim(values[0], " \t"), " ")
	if !found {
		return "", token, fmt.Errorf("%s: %q has no space between the resource and the token", Header, values[0])
	}
	if resource, err = unescape(first); err != nil {
		return "", token, fmt.Errorf("%s: the resource: %w", Header, err)
	}
	text, err := unescape(second)
	if err != nil {
		return "", token, fmt.Errorf("%s: the token: %w", Header, err)
	}
	if token, err = pawl.ParseToken(text); err != nil {
		return "", token, fmt.Errorf("%s: %w", Header, err)
	}
	return resource, token, fence.Validate(resource, token)
}

func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '%' || c == ',' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unescape is the inverse of escape, and takes nothing that is not as escape
// makes it but for what it need not have escaped.
func unescape(s string) (string, error) {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == ',' {
			return "", fmt.Errorf("%q has a byte that must be escaped", s)
		}
	}
	return url.PathUnescape(s)
}
