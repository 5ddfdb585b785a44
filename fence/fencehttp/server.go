package fencehttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"

	"github.com/pawlock/pawl/fence"
)

// Options say how a server is guarded. The zero value is sound.
type Options struct {
	// Resource names what r writes to. It is the server that decides: a request
	// that names another resource in its field is malformed. Default: the path of
	// the URL.
	Resource func(r *http.Request) string

	// MaxBody bounds what the answer to a guarded request may hold, in bytes: it is
	// kept until the write is completed. An answer that is longer fails the write.
	// Default 16 MiB.
	MaxBody int
}

// Guard returns a handler that serves a request by next, inside the Do of guard,
// if its token is not stale. Requests with a safe method (GET, HEAD, OPTIONS,
// TRACE) write nothing, and go to next unguarded. The others are answered with a
// problem, as application/problem+json, and not served by next,
//
//   - 412 if the token is stale
//   - 409 if the resource is protected by another lock
//   - 428 if there is no token
//   - 400 if the field is malformed, or names another resource than the request
//   - 503 if the guard has failed
//
// What is one step with the check is what next does under the context of its
// request, as far as guard makes it so: with a fencesql guard, what it writes in
// the transaction of the context; with a [fence.Memory], all that it does, as long
// as all writes to the resource come through guards that share it. What next does
// elsewhere, or in the background after it has returned, is not protected.
//
// The answer of next is sent when the guard has completed the write. If next
// answers with a status of 400 or more the write has failed, and what it has
// written in a transaction is rolled back; its answer is sent all the same. If the
// guard fails after next has answered, a commit say, the answer is 503 and whether
// it was written is open. Next can't stream, and can't hijack the connection.
//
// A nil opts means the defaults. A nil guard or next panics.
func Guard(guard fence.Guard, next http.Handler, opts *Options) http.Handler {
	if guard == nil || next == nil {
		panic("fencehttp: the guard or the handler is nil")
	}
	h := &handler{guard: guard, next: next, Options: Options{MaxBody: 16 << 20}}
	if opts != nil {
		h.Resource = opts.Resource
		if opts.MaxBody > 0 {
			h.MaxBody = opts.MaxBody
		}
	}
	return h
}

type handler struct {
	guard fence.Guard
	next  http.Handler
	Options
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		h.next.ServeHTTP(w, r)
		return
	}
	named, token, err := parse(r.Header)
	switch resource := resourceOf(h.Resource, r); {
	case errors.Is(err, errMissing):
		problemOf(err).write(w)
		return
	case err == nil && named != resource:
		err = fmt.Errorf("%s names %q, and the request writes to %q", Header, named, resource)
		fallthrough
	case err != nil:
		malformed(err).write(w)
		return
	}
	var reply *answer
	err = h.guard.Do(r.Context(), named, token, func(ctx context.Context) error {
		reply = &answer{header: make(http.Header), most: h.MaxBody} // anew, if the guard should call twice
		h.next.ServeHTTP(reply, r.WithContext(ctx))
		return reply.failure()
	})
	var failed statusError
	switch {
	case err == nil, errors.As(err, &failed) && failed.answer == reply:
		reply.send(w)
	default:
		problemOf(err).write(w)
	}
}

// An answer is what a handler has answered, until it is sent.
type answer struct {
	header http.Header
	status int // 0 until it is known
	sent   http.Header
	body   bytes.Buffer
	most   int
	cut    bool
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	if a.status != 0 || status < 200 { // no news before the end
		return
	}
	a.status, a.sent = status, a.header.Clone() // later changes are too late, as always
}

// Write implements [http.ResponseWriter].
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.body.Len()+len(p) > a.most {
		a.cut = true
		return 0, fmt.Errorf("fencehttp: an answer of more than %d bytes: see Options.MaxBody", a.most)
	}
	return a.body.Write(p)
}

// failure returns the error that the write of a guard has to return.
func (a *answer) failure() error {
	a.WriteHeader(http.StatusOK)
	switch {
	case a.cut:
		return fmt.Errorf("fencehttp: the answer has more than %d bytes", a.most)
	case a.status >= 400:
		return statusError{a}
	}
	return nil
}

func (a *answer) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.sent)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // who has gone needs no answer
}

// A statusError fails the write of a handler that has answered with an error.
type statusError struct{ answer *answer }

// Error implements the error interface.
func (e statusError) Error() string {
	return fmt.Sprintf("fencehttp: the handler has answered with status %d", e.answer.status)
}

// replay returns a body that reads read, and then what is left of body.
func replay(read []byte, body io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(read), body), body}
}
