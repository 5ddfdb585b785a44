package fencetest

import (
	"context"
	"errors"
	"strings"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/fence"
)

// Case R05: a holder writes as often as it likes.
func acceptsEqualAndGreater(s *stage) {
	g, r := s.Guard(), s.resource()
	s.accept(g, r, exclusive(5), exclusive(5), exclusive(6), exclusive(900), exclusive(900))
	s.holds(r, exclusive(5), exclusive(5), exclusive(6), exclusive(900), exclusive(900))
}

func refusesSmaller(s *stage) {
	g, r := s.Guard(), s.resource()
	s.accept(g, r, exclusive(7))
	s.refuse(g, r, exclusive(6), exclusive(7))
	s.accept(g, r, exclusive(10))
	s.refuse(g, r, exclusive(9), exclusive(10)) // and not as text
	s.refuse(g, r, exclusive(7), exclusive(10))
	s.accept(g, r, exclusive(10))
	s.holds(r, exclusive(7), exclusive(10), exclusive(10))
}

// Case R05: those who share hold at the same time, and write in any order.
func sharesDoNotFenceEachOther(s *stage) {
	g, r := s.Guard(), s.resource()
	s.accept(g, r, shared(5), shared(4), shared(8), shared(1))
	s.holds(r, shared(5), shared(4), shared(8), shared(1))
	s.accept(g, r, exclusive(9), shared(12), shared(10), shared(12))
	s.refuse(g, r, shared(8), exclusive(9))
}

func sharesAndExclusivesFenceEachOther(s *stage) {
	g, r := s.Guard(), s.resource()
	s.accept(g, r, shared(5), shared(4))
	s.refuse(g, r, exclusive(3), shared(5))
	s.refuse(g, r, exclusive(4), shared(5))
	s.accept(g, r, exclusive(6))
	s.refuse(g, r, shared(5), exclusive(6))
	s.accept(g, r, shared(6)) // a writer that has become a reader
	s.accept(g, r, shared(7))
	s.refuse(g, r, exclusive(6), shared(7))

	// A refusal leaves no trace, of either kind.
	r = s.resource()
	s.accept(g, r, exclusive(6))
	s.refuse(g, r, shared(5), exclusive(6))
	s.accept(g, r, exclusive(6))
	r = s.resource()
	s.accept(g, r, shared(6))
	s.refuse(g, r, exclusive(5), shared(6))
	s.accept(g, r, shared(1))
}

// Numbers of different locks have no order, so a resource takes those of one.
func oneLockEach(s *stage) {
	g, r := s.Guard(), s.resource()
	s.accept(g, r, exclusive(5))
	for _, other := range []pawl.Token{
		{Key: "other", Number: 4}, {Key: "other", Number: 5}, {Key: "other", Number: 6}, {Key: "other", Shared: true, Number: 6},
		{Key: "Lock", Number: 6}, {Key: "lock ", Number: 6}, {Key: "lock\x00", Number: 6},
	} {
		err := s.do(s.Context(), g, r, other)
		var o *fence.OtherLockError
		if !errors.As(err, &o) || !errors.Is(err, fence.ErrOtherLock) || errors.Is(err, fence.ErrStale) {
			s.Fatalf("Do with %q: got %v, want an OtherLockError", other, err)
		}
		if want := (fence.OtherLockError{Resource: r, Token: other, Key: "lock"}); *o != want {
			s.Errorf("got %+v, want %+v", *o, want)
		}
	}
	s.accept(g, r, exclusive(5))
	s.holds(r, exclusive(5), exclusive(5))
}

func resourcesAreApart(s *stage) {
	g, a, b := s.Guard(), s.resource(), s.resource()
	s.accept(g, a, exclusive(9))
	s.accept(g, b, exclusive(3), exclusive(4))
	s.refuse(g, a, exclusive(8), exclusive(9))
	s.holds(a, exclusive(9))
	s.holds(b, exclusive(3), exclusive(4))
}

// anyName has names that a store might fold into each other, or stumble over.
func anyName(s *stage) {
	g, base := s.Guard(), s.resource()
	names := []string{
		"", "x", "X", "x ", " x", "x\t", "x:y", "x%y", "x%25y", "x%00", "{x}", "}x{", "x'y", `x"y`, `x\y`, "x;--", "x/../y", "x*", "é", "e\u0301", "ß", "ss", "\u00a0", "\n", "漢字", "😀", "?", "$1",
		strings.Repeat("x", fence.MaxResource-len(base)-1) + "y",
		strings.Repeat("x", fence.MaxResource-len(base)-1) + "z",
	}
	for i, name := range names {
		s.accept(g, base+name, pawl.Token{Key: "lock" + name, Number: uint64(i + 2)})
	}
	for i, name := range names {
		key, r := "lock"+name, base+name
		s.holds(r, pawl.Token{Key: key, Number: uint64(i + 2)})
		s.refuse(g, r, pawl.Token{Key: key, Number: uint64(i + 1)}, pawl.Token{Key: key, Number: uint64(i + 2)})
	}
	long := pawl.Token{Key: strings.Repeat("k", 64<<10), Number: 7}
	r := s.resource()
	s.accept(g, r, long)
	long.Number--
	s.refuse(g, r, long, pawl.Token{Key: long.Key, Number: 7})
}

// exactNumbers has numbers that are the same as floating-point numbers.
func exactNumbers(s *stage) {
	g := s.Guard()
	for _, n := range []uint64{1 << 53, 1<<53 + 1, 1795961589956265, 99999999999, 1 << 62, 1<<63 - 1} {
		r := s.resource()
		s.accept(g, r, exclusive(n))
		s.refuse(g, r, exclusive(n-1), exclusive(n))
		s.accept(g, r, exclusive(n))
		r = s.resource()
		s.accept(g, r, shared(n))
		s.refuse(g, r, exclusive(n-1), shared(n))
	}
}

// Case R02: what one process has seen binds the others.
func seenByAll(s *stage) {
	a, b, r := s.Guard(), s.Guard(), s.resource()
	s.accept(a, r, exclusive(5))
	s.accept(b, r, exclusive(7))
	s.refuse(a, r, exclusive(5), exclusive(7))
	s.refuse(s.Guard(), r, exclusive(6), exclusive(7))
	s.accept(a, r, exclusive(8))
	s.refuse(b, r, exclusive(7), exclusive(8))
}

func validation(s *stage) {
	g, r := s.Guard(), s.resource()
	for _, bad := range []struct {
		resource string
		token    pawl.Token
		field    string
	}{
		{"", exclusive(1), "Resource"},
		{strings.Repeat("r", fence.MaxResource+1), exclusive(1), "Resource"},
		{"\xff", exclusive(1), "Resource"},
		{"a\x00b", exclusive(1), "Resource"},
		{r, exclusive(0), "Number"}, // a store without tokens
		{r, pawl.Token{Number: 1}, "Key"},
		{r, pawl.Token{Key: "\xff", Number: 1}, "Key"},
	} {
		err := g.Do(s.Context(), bad.resource, bad.token, func(context.Context) error {
			s.Errorf("the write of %q with %+v was called", bad.resource, bad.token)
			return nil
		})
		var field *pawl.FieldError
		if !errors.As(err, &field) || field.Field != bad.field {
			s.Errorf("Do of %q with %+v: got %v, want a FieldError of %s", bad.resource, bad.token, err, bad.field)
		}
	}
	s.holds(r)
}
