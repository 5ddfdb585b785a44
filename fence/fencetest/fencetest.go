// Package fencetest is the conformance suite of guards: what every
// [fence.Guard] promises, as tests. Each subtest of [Run] is a promise.
package fencetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/fence"
)

// A Harness gives the suite what the interface of a guard can't.
type Harness struct {
	// New readies a store for t: a new one, or one that other tests use at
	// the same time, since no two tests use the same resources.
	New func(t *testing.T) Store

	// Wrap runs one test, in a bubble say: synctest.Test for a store in this
	// process. Default: it is just called.
	Wrap func(t *testing.T, test func(*testing.T))

	// Patience is how long a guard may take for what nobody else holds up. Default
	// a minute.
	Patience time.Duration

	// Skip names promises that the guard can't keep, and says why. What a guard
	// skips its documentation has to say.
	Skip map[string]string
}

// A Store is what a guard guards.
type Store struct {
	// Guard returns a guard of the store. Each call is another process, as far as
	// that can be had.
	Guard func() fence.Guard

	// Append adds value to what resource holds. It is called in the write of a Do,
	// under its context.
	Append func(ctx context.Context, resource, value string) error

	// Read returns what was appended to resource, in order, by writes that have
	// taken place.
	Read func(resource string) []string

	// Undo says that a write that fails leaves nothing.
	Undo bool

	// Transient reports whether err is how the store asks to try again, as
	// databases do when they have let two transactions run into each other. It is
	// nil for a store that never does.
	Transient func(err error) bool
}

// Run tests the guards of h, one subtest per promise.
func Run(t *testing.T, h Harness) {
	for name := range h.Skip {
		if !slices.Contains(Promises(), name) {
			t.Errorf("the harness skips %q: there is no such promise", name)
		}
	}
	if h.Wrap == nil {
		h.Wrap = func(t *testing.T, test func(*testing.T)) { test(t) }
	}
	if h.Patience == 0 {
		h.Patience = time.Minute
	}
	for _, p := range promises() {
		t.Run(p.name, func(t *testing.T) {
			if why, ok := h.Skip[p.name]; ok {
				t.Skip(why)
			}
			h.Wrap(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), h.Patience, errHangs)
				defer cancel()
				p.test(&stage{T: t, Store: h.New(t), ctx: ctx})
			})
		})
	}
}

// Promises returns the names of the subtests of [Run].
func Promises() []string {
	var names []string
	for _, p := range promises() {
		names = append(names, p.name)
	}
	return names
}

type promise struct {
	name string
	test func(*stage)
}

func promises() []promise {
	return []promise{
		{"AcceptsEqualAndGreater", acceptsEqualAndGreater},
		{"RefusesSmaller", refusesSmaller},
		{"SharesDoNotFenceEachOther", sharesDoNotFenceEachOther},
		{"SharesAndExclusivesFenceEachOther", sharesAndExclusivesFenceEachOther},
		{"OneLockEach", oneLockEach},
		{"ResourcesAreApart", resourcesAreApart},
		{"AnyName", anyName},
		{"ExactNumbers", exactNumbers},
		{"SeenByAll", seenByAll},
		{"Validation", validation},
		{"FailedWrite", failedWrite},
		{"PanickingWrite", panickingWrite},
		{"EndedContext", endedContext},
		{"Nested", nested},
		{"OneStep", oneStep},
		{"FirstWrites", firstWrites},
		{"History", history},
	}
}

// A stage is where one test runs.
type stage struct {
	*testing.T
	Store
	ctx context.Context // ends when the patience does
}

// errHangs is why the context of a stage ends.
var errHangs = errors.New("the guard hangs: nobody is in its way")

// Context hides that of the test, which is in no hurry.
func (s *stage) Context() context.Context { return s.ctx }

// drawn makes the names of resources differ, also from those of other tests that
// use the same store.
var drawn atomic.Int64

// resource returns the name of a resource that nobody else uses.
func (s *stage) resource() string { return fmt.Sprintf("%s#%d", s.Name(), drawn.Add(1)) }

// exclusive and shared return tokens of the lock that most tests use.
func exclusive(number uint64) pawl.Token { return pawl.Token{Key: "lock", Number: number} }
func shared(number uint64) pawl.Token    { return pawl.Token{Key: "lock", Shared: true, Number: number} }

// do appends the text of token to resource.
func (s *stage) do(ctx context.Context, g fence.Guard, resource string, token pawl.Token) error {
	return g.Do(ctx, resource, token, func(ctx context.Context) error { return s.Append(ctx, resource, token.String()) })
}

// accept fails the test unless each token is accepted, in turn.
func (s *stage) accept(g fence.Guard, resource string, tokens ...pawl.Token) {
	s.Helper()
	for _, t := range tokens {
		if err := s.do(s.Context(), g, resource, t); err != nil {
			s.Fatalf("Do with %s: got %v, want nil", t, err)
		}
	}
}

// refuse fails the test unless token is stale, by highest.
func (s *stage) refuse(g fence.Guard, resource string, token, highest pawl.Token) {
	s.Helper()
	before := s.Read(resource)
	err := g.Do(s.Context(), resource, token, func(ctx context.Context) error {
		return s.Append(ctx, resource, token.String())
	})
	var stale *fence.StaleError
	if !errors.As(err, &stale) || !errors.Is(err, fence.ErrStale) {
		s.Fatalf("Do with %s after %s: got %v, want a StaleError", token, highest, err)
	}
	if want := (fence.StaleError{Resource: resource, Token: token, Highest: highest}); *stale != want {
		s.Errorf("got %+v, want %+v", *stale, want)
	}
	if after := s.Read(resource); !slices.Equal(before, after) {
		s.Errorf("the refused write of %s has taken place: got %q, want %q", token, after, before)
	}
}

// holds fails the test unless resource holds the texts of tokens.
func (s *stage) holds(resource string, tokens ...pawl.Token) {
	s.Helper()
	var want []string
	for _, t := range tokens {
		want = append(want, t.String())
	}
	if got := s.Read(resource); !slices.Equal(got, want) {
		s.Errorf("%q holds %q, want %q", resource, got, want)
	}
}
