package fencehttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/fence"
	"github.com/pawlock/pawl/fence/fencehttp"
	"github.com/pawlock/pawl/fence/fencetest"
)

// A ledger is a server's resource: what was posted to it, under a guard.
type ledger struct {
	mu      sync.Mutex
	entries map[string][]string
}

// ServeHTTP appends the body to the resource that the query names.
func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[resource(r)] = append(l.entries[resource(r)], string(text))
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, len(l.entries[resource(r)]))
}

func (l *ledger) read(resource string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries[resource])
}

func resource(r *http.Request) string { return r.URL.Query().Get("resource") }

// A remote is a guard whose resources are on a server: what its write appends is
// sent in one request.
type remote struct {
	url    string
	client *http.Client
}

type pendingKey struct{}

func (g *remote) Do(ctx context.Context, name string, token pawl.Token, write func(context.Context) error) error {
	inner, err := fence.Enter(ctx, g, name, token)
	if err != nil {
		return err
	}
	pending := new(strings.Builder)
	if err := write(context.WithValue(inner, pendingKey{}, pending)); err != nil {
		return err
	}
	ctx = pawl.ContextWithToken(ctx, token)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/?resource="+url.QueryEscape(name), strings.NewReader(pending.String()))
	if err != nil {
		return err
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := fencehttp.Refusal(resp); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusCreated {
		text, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	return nil
}

// The promises of a guard hold over the wire, for what a write sends.
func TestConformance(t *testing.T) {
	fencetest.Run(t, fencetest.Harness{
		New: func(t *testing.T) fencetest.Store {
			l := &ledger{entries: make(map[string][]string)}
			server := httptest.NewServer(fencehttp.Guard(new(fence.Memory), l, &fencehttp.Options{Resource: resource}))
			t.Cleanup(server.Close)
			return fencetest.Store{
				Guard: func() fence.Guard {
					base := new(http.Transport)
					t.Cleanup(base.CloseIdleConnections)
					return &remote{server.URL, &http.Client{Transport: &fencehttp.Transport{Resource: resource, Base: base}}}
				},
				Append: func(ctx context.Context, _, value string) error {
					ctx.Value(pendingKey{}).(*strings.Builder).WriteString(value)
					return nil
				},
				Read: l.read,
			}
		},
		Skip: map[string]string{
			"Nested":         "nobody but the client knows that a request is sent inside of a write",
			"FailedWrite":    "a write that fails at the client is not sent",
			"PanickingWrite": "nor is one that panics",
		},
	})
}
