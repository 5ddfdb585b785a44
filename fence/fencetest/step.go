package fencetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/fence"
)

func failedWrite(s *stage) {
	g, r := s.Guard(), s.resource()
	s.accept(g, r, exclusive(7))
	failure := errors.New("the disk is full")
	err := g.Do(s.Context(), r, exclusive(9), func(ctx context.Context) error {
		if err := s.Append(ctx, r, exclusive(9).String()); err != nil {
			return err
		}
		return failure
	})
	if !errors.Is(err, failure) || errors.Is(err, fence.ErrStale) {
		s.Errorf("got %v, want %v", err, failure)
	}
	if s.Undo {
		s.holds(r, exclusive(7))
	}
	// Whether 9 was seen is open. What was seen before is not.
	if err := s.do(s.Context(), g, r, exclusive(6)); !errors.Is(err, fence.ErrStale) {
		s.Errorf("a smaller token after a failed write: got %v, want ErrStale", err)
	}
	s.accept(g, r, exclusive(9), exclusive(10))
}

func panickingWrite(s *stage) {
	g, r := s.Guard(), s.resource()
	func() {
		defer func() {
			if got := recover(); got != "boom" {
				s.Errorf("recovered %v, want the panic of the write", got)
			}
		}()
		_ = g.Do(s.Context(), r, exclusive(5), func(context.Context) error { panic("boom") })
	}()
	s.accept(g, r, exclusive(5), exclusive(6))
}

func endedContext(s *stage) {
	g, r := s.Guard(), s.resource()
	lost := errors.New("the lease was lost")
	ctx, cancel := context.WithCancelCause(s.Context())
	cancel(lost)
	err := g.Do(ctx, r, exclusive(9), func(context.Context) error {
		s.Error("the write was called")
		return nil
	})
	if !errors.Is(err, lost) {
		s.Errorf("got %v, want %v", err, lost)
	}
	s.accept(g, r, exclusive(5)) // 9 was not seen
}

func nested(s *stage) {
	g, r, other := s.Guard(), s.resource(), s.resource()
	err := g.Do(s.Context(), r, exclusive(5), func(ctx context.Context) error {
		return g.Do(ctx, r, exclusive(5), func(context.Context) error { return nil })
	})
	if !errors.Is(err, fence.ErrNested) {
		s.Errorf("Do inside Do on the same resource: got %v, want ErrNested", err)
	}
	s.accept(g, r, exclusive(5))
	s.accept(g, other, exclusive(5))
}

// oneStep lets a holder pause between the check of its token and its write: a
// later holder must not get in between.
func oneStep(s *stage) {
	for range 3 {
		early, late, r := s.Guard(), s.Guard(), s.resource()
		s.accept(early, r, exclusive(1))
		first, second := make(chan error, 1), make(chan error, 1)
		paused, resume := make(chan struct{}), make(chan struct{})
		go func() {
			first <- early.Do(s.Context(), r, exclusive(5), func(ctx context.Context) error {
				close(paused)
				<-resume
				return s.Append(ctx, r, exclusive(5).String())
			})
		}()
		select {
		case <-paused:
		case err := <-first:
			s.Fatalf("Do with %s: got %v before its write", exclusive(5), err)
		}
		go func() { second <- s.do(s.Context(), late, r, exclusive(6)) }()
		// The later one may wait for the earlier, or overtake it and make it stale.
		// It gets the time to do whatever it does.
		var overtaken bool
		var err6 error
		select {
		case err6 = <-second:
			overtaken = true
		case <-time.After(100 * time.Millisecond):
		}
		close(resume)
		err5 := <-first
		if !overtaken {
			err6 = <-second
		}
		if err6 != nil && !s.transient(err6) {
			s.Errorf("the later holder: got %v, want nil", err6)
		}
		switch {
		case err5 == nil && err6 == nil:
			s.holds(r, exclusive(1), exclusive(5), exclusive(6))
		case err5 == nil:
			s.holds(r, exclusive(1), exclusive(5))
		case errors.Is(err5, fence.ErrStale) && err6 == nil:
			s.holds(r, exclusive(1), exclusive(6))
		case !s.transient(err5):
			s.Errorf("the earlier holder: got %v, want nil or ErrStale", err5)
		}
	}
}

func (s *stage) transient(err error) bool { return s.Transient != nil && s.Transient(err) }

// replay fails the test unless a mark accepts everything that resource holds, in
// the order in which it was written, and tells which tokens are in it.
func (s *stage) replay(resource string) map[pawl.Token]int {
	s.Helper()
	var mark fence.Mark
	found := make(map[pawl.Token]int)
	log := s.Read(resource)
	for i, text := range log {
		t, err := pawl.ParseToken(text)
		if err != nil {
			s.Fatal(err)
		}
		if mark, err = mark.Raise(resource, t); err != nil {
			s.Errorf("write %d of %q is out of order: %v\nin %q", i+1, resource, err, slices.Clip(log[:i+1]))
			return found
		}
		found[t]++
	}
	return found
}
