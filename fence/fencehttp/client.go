package fencehttp

import (
	"net/http"

	"github.com/pawlock/pawl"
)

// A Transport gives each request the token that its context carries, which is that
// of the lease under whose context it is sent:
//
//	client := &http.Client{Transport: &fencehttp.Transport{}}
//	...
//	err = lock.Do(ctx, func(ctx context.Context, _ *pawl.Lease) error {
//		req, err := http.NewRequestWithContext(ctx, "PUT", "https://example.com/invoices/42", body)
//		...
//		resp, err := client.Do(req)
//		...
//		return fencehttp.Refusal(resp) // a *fence.StaleError if the lock was lost
//	})
//
// A request whose context carries no token goes out as it is, and so does one that
// has the field already: the server decides what it wants. The zero Transport is
// ready for use.
type Transport struct {
	// Resource names what r writes to, as the server does. Default: the path of
	// the URL.
	Resource func(r *http.Request) string

	// Base sends the requests. Default [http.DefaultTransport].
	Base http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	token, ok := pawl.TokenFromContext(r.Context())
	if !ok || r.Header.Get(Header) != "" {
		return base.RoundTrip(r)
	}
	own := r.Clone(r.Context()) // a RoundTripper does not change what it is given
	if own.Header == nil {
		own.Header = make(http.Header)
	}
	Set(own.Header, resourceOf(t.Resource, r), token)
	return base.RoundTrip(own)
}

// resourceOf returns the name of what r writes to.
func resourceOf(name func(*http.Request) string, r *http.Request) string {
	if name == nil {
		return r.URL.Path
	}
	return name(r)
}
