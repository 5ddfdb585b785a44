package fencehttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/fence"
	"github.com/pawlock/pawl/fence/fencehttp"
	"github.com/pawlock/pawl/memory"
)

// post serves one POST of h, with the field unless that is "".
func post(h http.Handler, path, field string) *http.Response {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("body"))
	if field != "" {
		r.Header.Set("Fencing-Token", field)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// text is a handler that answers with a text.
func text(s string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, s) })
}

// unserved is a handler that must not be called.
func unserved(t *testing.T) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the request with %q was served", r.Header.Get("Fencing-Token"))
	})
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestALateRequestOfALostLeaseIsAnsweredWith412(t *testing.T) {
	var served []string
	server := httptest.NewServer(fencehttp.Guard(new(fence.Memory), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		served = append(served, string(b))
	}), nil))
	defer server.Close()
	client := &http.Client{Transport: &fencehttp.Transport{}}
	put := func(ctx context.Context, value string) *http.Response {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL+"/invoices/42", strings.NewReader(value))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		if req.Header.Get("Fencing-Token") != "" {
			t.Error("the caller's request was changed")
		}
		return resp
	}
	locks, err := pawl.New(memory.New(nil), &pawl.Options{TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	hold := func() *pawl.Lease {
		lease, err := locks.Mutex("invoices").Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	first := hold()
	if resp := put(first.Context(), "first"); resp.StatusCode != http.StatusOK || fencehttp.Refusal(resp) != nil {
		t.Errorf("the holder: got %s, %v, want 200", resp.Status, fencehttp.Refusal(resp))
	}
	stale := pawl.TokenOf(first)
	first.Release(t.Context())
	second := hold()
	put(second.Context(), "second")

	resp := put(pawl.ContextWithToken(t.Context(), stale), "late")
	if resp.StatusCode != http.StatusPreconditionFailed || resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("the late request: got %s of type %q, want 412 with a problem", resp.Status, resp.Header.Get("Content-Type"))
	}
	want := fence.StaleError{Resource: "/invoices/42", Token: stale, Highest: pawl.TokenOf(second)}
	var got *fence.StaleError
	if err := fencehttp.Refusal(resp); !errors.As(err, &got) || *got != want {
		t.Errorf("got %v, want %v", err, &want)
	}
	var problem map[string]any
	if err := json.Unmarshal([]byte(body(t, resp)), &problem); err != nil { // Refusal has left the body as it was
		t.Fatal(err)
	}
	if problem["type"] != "urn:pawl:problem:stale-token" || problem["status"] != 412.0 || problem["token"] != stale.String() || problem["highest"] != want.Highest.String() {
		t.Errorf("got the problem %v", problem)
	}
	if want := []string{"first", "second"}; !slices.Equal(served, want) {
		t.Errorf("served %q, want %q", served, want)
	}
	if resp := put(t.Context(), "without"); resp.StatusCode != http.StatusPreconditionRequired {
		t.Errorf("without a lease: got %s, want 428", resp.Status)
	}
}

func TestARequestThatNamesItsHoldWronglyIsNotServed(t *testing.T) {
	for _, c := range []struct {
		field  string
		status int
		kind   string
	}{
		{"", 428, "missing"},
		{"/r", 400, "malformed"},
		{"/r lock:x", 400, "malformed"},
		{"/r lock:x:0", 400, "malformed"},
		{"/r lock:y:5", 400, "malformed"},
		{"/r lock:x:5 ", 200, ""}, // the space is not the value's
		{"/r  lock:x:5", 400, "malformed"},
		{"/r lock:x:5, /s lock:x:5", 400, "malformed"},
		{"/r lock:x:5,", 400, "malformed"},
		{"/r lo%ck:x:5", 400, "malformed"},
		{"/r l\xc3\xa4ck:x:5", 400, "malformed"},
		{"/s lock:x:5", 400, "malformed"}, // of another resource than the request's
		{"/%72 lock:x:5", 200, ""},
		{"/r %6Cock:x:5", 200, ""},
		{" lock:x:5", 400, "malformed"},
		{"/r other:x:9", 409, "other-lock"},
		{"/r lock:x:4", 412, "stale"},
	} {
		guard := new(fence.Memory)
		if resp := post(fencehttp.Guard(guard, text("ok"), nil), "/r", "/r lock:x:5"); resp.StatusCode != 200 {
			t.Fatal(resp.Status)
		}
		next := unserved(t)
		if c.status == 200 {
			next = text("ok")
		}
		resp := post(fencehttp.Guard(guard, next, nil), "/r", c.field)
		if resp.StatusCode != c.status {
			t.Errorf("%q: got %s, want %d", c.field, resp.Status, c.status)
		}
		if b := body(t, resp); c.kind != "" && !strings.Contains(b, `"urn:pawl:problem:`+c.kind) {
			t.Errorf("%q: got %s, want a problem of the type %s", c.field, b, c.kind)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/r", nil)
	r.Header["Fencing-Token"] = []string{"/r lock:x:5", "/r lock:x:6"}
	w := httptest.NewRecorder()
	fencehttp.Guard(new(fence.Memory), unserved(t), nil).ServeHTTP(w, r)
	if w.Code != 400 {
		t.Errorf("two fields: got %d, want 400", w.Code)
	}
}

func TestSafeMethodsAreNotGuarded(t *testing.T) {
	h := fencehttp.Guard(new(fence.Memory), text("read"), nil)
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/r", nil))
		if w.Code != 200 || w.Body.String() != "read" {
			t.Errorf("%s: got %d %q, want 200", method, w.Code, w.Body)
		}
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "get", "PROPPATCH"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/r", nil))
		if w.Code != 428 {
			t.Errorf("%s: got %d, want 428", method, w.Code)
		}
	}
}

// A spy is a guard that tells what the write has returned, and fails as it is told.
type spy struct {
	write, fails error
}

func (s *spy) Do(ctx context.Context, _ string, _ pawl.Token, write func(context.Context) error) error {
	s.write = write(context.WithValue(ctx, spy{}, "from the guard"))
	if s.write != nil {
		return fmt.Errorf("rolled back: %w", s.write)
	}
	return s.fails
}

func TestTheAnswerIsTheHandlersOwn(t *testing.T) {
	s := new(spy)
	h := fencehttp.Guard(s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/r/1")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("Location", "too late")
		w.WriteHeader(http.StatusOK)
		fmt.Fprint(w, r.Context().Value(spy{}))
	}), nil)
	resp := post(h, "/r", "/r lock:x:5")
	if b := body(t, resp); resp.StatusCode != 201 || resp.Header.Get("Location") != "/r/1" || b != "from the guard" || s.write != nil {
		t.Errorf("got %s, %v, %q, and %v from the write", resp.Status, resp.Header, b, s.write)
	}
}

// What the handler refuses has not been written, and so must not be committed.
func TestAnAnswerThatIsAnErrorFailsTheWrite(t *testing.T) {
	s := new(spy)
	resp := post(fencehttp.Guard(s, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such invoice", 404) }), nil), "/r", "/r lock:x:5")
	if b := body(t, resp); s.write == nil || resp.StatusCode != 404 || b != "no such invoice\n" {
		t.Errorf("got %s, %q, and %v from the write, want the handler's 404 and an error", resp.Status, b, s.write)
	}
}

// The handler says that it is done, and the commit fails: nobody may be told so.
func TestAGuardThatFailsAfterTheWriteIsNoSuccess(t *testing.T) {
	s := &spy{fails: errors.New("commit: password=hunter2")}
	resp := post(fencehttp.Guard(s, text("done"), nil), "/r", "/r lock:x:5")
	if b := body(t, resp); resp.StatusCode != 503 || strings.Contains(b, "done") || strings.Contains(b, "hunter2") {
		t.Errorf("got %s, %q, want a 503 that tells nothing of either", resp.Status, b)
	}
	if err := fencehttp.Refusal(resp); err != nil {
		t.Errorf("Refusal of a 503: got %v, want nil", err)
	}
}

func TestAnAnswerThatIsTooLongFailsTheWrite(t *testing.T) {
	for _, size := range []int{100, 101} {
		s := new(spy)
		resp := post(fencehttp.Guard(s, text(strings.Repeat("x", size)), &fencehttp.Options{MaxBody: 100}), "/r", "/r lock:x:5")
		if whole := size == 100; (resp.StatusCode == 200) != whole || (s.write == nil) != whole {
			t.Errorf("%d bytes of 100: got %s, and %v from the write", size, resp.Status, s.write)
		}
	}
}

// A handler that is paused keeps later holders out until it has ended.
func TestTheHandlerIsInsideTheStep(t *testing.T) {
	paused, resume := make(chan struct{}), make(chan struct{})
	var order []string
	h := fencehttp.Guard(new(fence.Memory), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if field := r.Header.Get("Fencing-Token"); field == "/r lock:x:5" {
			close(paused)
			<-resume
		}
		order = append(order, r.Header.Get("Fencing-Token"))
	}), nil)
	done := make(chan *http.Response, 2)
	go func() { done <- post(h, "/r", "/r lock:x:5") }()
	<-paused
	go func() { done <- post(h, "/r", "/r lock:x:6") }()
	select {
	case <-done:
		t.Error("a request was served while another wrote")
	case <-time.After(50 * time.Millisecond):
	}
	close(resume)
	<-done
	<-done
	if want := []string{"/r lock:x:5", "/r lock:x:6"}; !slices.Equal(order, want) {
		t.Errorf("got %q, want %q", order, want)
	}
}

func TestARequestThatHasTheFieldKeepsIt(t *testing.T) {
	var got []string
	base := roundTrip(func(r *http.Request) (*http.Response, error) {
		got = append(got, r.Header.Get("Fencing-Token"))
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	})
	client := &http.Client{Transport: &fencehttp.Transport{Base: base}}
	ctx := pawl.ContextWithToken(t.Context(), pawl.Token{Key: "a b,ä", Shared: true, Number: 7})
	for _, field := range []string{"", "/own own:x:1"} {
		req, err := http.NewRequestWithContext(ctx, "PUT", "http://example.com/path%20x", nil)
		if err != nil {
			t.Fatal(err)
		}
		if field != "" {
			req.Header.Set("Fencing-Token", field)
		}
		if _, err := client.Do(req); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"/path%20x a%20b%2C%C3%A4:s:7", "/own own:x:1"}; !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func FuzzHeader(f *testing.F) {
	f.Add("/r", "lock", true, uint64(5), "/r lock:x:5")
	f.Add("a, b", " %", false, uint64(1), "%zz lock:x:5")
	f.Fuzz(func(t *testing.T, name, key string, shared bool, number uint64, field string) {
		token := pawl.Token{Key: key, Shared: shared, Number: number}
		h := make(http.Header)
		fencehttp.Set(h, name, token)
		gotName, gotToken, err := fencehttp.Parse(h)
		if valid := fence.Validate(name, token); (valid == nil) != (err == nil) || err == nil && (gotName != name || gotToken != token) {
			t.Fatalf("%q, %+v (%v) became %q and then %q, %+v, %v", name, token, valid, h, gotName, gotToken, err)
		}
		h.Set("Fencing-Token", field)
		if gotName, gotToken, err = fencehttp.Parse(h); err != nil {
			return
		}
		fencehttp.Set(h, gotName, gotToken)
		if name, token, err := fencehttp.Parse(h); name != gotName || token != gotToken || err != nil {
			t.Fatalf("%q is %q, %+v, and after a round trip %q, %+v, %v", field, gotName, gotToken, name, token, err)
		}
	})
}
