package fencetest_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/fence"
)

// A mutant is a guard with one mistake, of the kind that people make who write
// their own.
type mutant struct {
	name    string
	killers []string // the promises whose subtests fail
	guard   plain
}

func mutants() []mutant {
	always := func(m fence.Mark, r string, t pawl.Token) (fence.Mark, error) { return m, nil }
	return []mutant{
		{"accepts all", []string{"RefusesSmaller", "SeenByAll", "ExactNumbers", "FailedWrite", "History"}, plain{raise: always}},
		{"accepts greater only", []string{"AcceptsEqualAndGreater", "FailedWrite"}, plain{raise: func(m fence.Mark, r string, t pawl.Token) (fence.Mark, error) {
			if t.Number == m.Exclusive || t.Number == m.Shared {
				return m, stale(m, r, t)
			}
			return m.Raise(r, t)
		}}},
		{"remembers the last and not the highest", []string{"SharesAndExclusivesFenceEachOther"}, plain{raise: func(m fence.Mark, r string, t pawl.Token) (fence.Mark, error) {
			m, err := m.Raise(r, t)
			if t.Shared && err == nil {
				m.Shared = t.Number
			}
			return m, err
		}}},
		{"lets shares fence each other", []string{"SharesDoNotFenceEachOther", "SharesAndExclusivesFenceEachOther"}, plain{raise: func(m fence.Mark, r string, t pawl.Token) (fence.Mark, error) {
			if t.Number < m.Shared {
				return m, stale(m, r, t)
			}
			return m.Raise(r, t)
		}}},
		{"lets exclusive ones pass shares", []string{"SharesAndExclusivesFenceEachOther", "History", "ExactNumbers"}, plain{raise: func(m fence.Mark, r string, t pawl.Token) (fence.Mark, error) {
			m.Shared = 0
			return m.Raise(r, t)
		}}},
		{"lets shares pass exclusive ones", []string{"SharesDoNotFenceEachOther", "SharesAndExclusivesFenceEachOther", "History"}, plain{raise: func(m fence.Mark, r string, t pawl.Token) (fence.Mark, error) {
			if t.Shared {
				return m, nil
			}
			return m.Raise(r, t)
		}}},
		{"remembers what it refuses", []string{"OneLockEach"}, plain{raise: func(m fence.Mark, r string, t pawl.Token) (fence.Mark, error) {
			next, err := m.Raise(r, t)
			if err != nil {
				next.Key = t.Key
			}
			return next, err
		}}},
		{"compares tokens of all locks", []string{"OneLockEach"}, plain{raise: func(m fence.Mark, r string, t pawl.Token) (fence.Mark, error) {
			m.Key = t.Key
			return m.Raise(r, t)
		}}},
		{"compares numbers as text", []string{"RefusesSmaller"}, plain{raise: func(m fence.Mark, r string, t pawl.Token) (fence.Mark, error) {
			text := func(n uint64) string { return strings.TrimLeft(pawl.Token{Number: n}.String(), ":xs") }
			if m.Exclusive != 0 && !t.Shared && text(t.Number) < text(m.Exclusive) {
				return m, stale(m, r, t)
			}
			m.Exclusive = 0
			next, err := m.Raise(r, t)
			return next, err
		}}},
		{"compares numbers as floats", []string{"ExactNumbers"}, plain{raise: func(m fence.Mark, r string, t pawl.Token) (fence.Mark, error) {
			if float64(t.Number) == float64(m.Exclusive) && t.Number < math.MaxInt64 {
				t.Number = m.Exclusive
			}
			return m.Raise(r, t)
		}}},
		{"one mark for all resources", []string{"ResourcesAreApart", "AnyName"}, plain{resource: func(string) string { return "" }}},
		{"folds case", []string{"AnyName"}, plain{resource: strings.ToLower}},
		{"trims spaces", []string{"AnyName"}, plain{resource: strings.TrimSpace}},
		{"cuts long names", []string{"AnyName"}, plain{resource: func(r string) string { return r[:min(len(r), 255)] }}},
		{"each process remembers for itself", []string{"SeenByAll", "OneStep", "FirstWrites", "History"}, plain{alone: true}},
		{"checks, and writes later", []string{"OneStep"}, plain{open: true}},
		{"two at a first write", []string{"FirstWrites"}, plain{racy: true}},
		{"no validation", []string{"Validation", "Nested"}, plain{trusting: true}},
		{"no look at the context", []string{"EndedContext"}, plain{deaf: true}},
		{"tells every failure as stale", []string{"FailedWrite"}, plain{after: func(err error, undo func()) error {
			if err != nil {
				return errors.Join(fence.ErrStale, err)
			}
			return nil
		}}},
		{"swallows errors", []string{"FailedWrite"}, plain{after: func(error, func()) error { return nil }}},
		{"forgets all when a write fails", []string{"FailedWrite"}, plain{after: func(err error, forget func()) error {
			if err != nil {
				forget()
			}
			return err
		}}},
		{"never gives the turn back after a panic", []string{"PanickingWrite"}, plain{stuck: true}},
	}
}

func stale(m fence.Mark, r string, t pawl.Token) error {
	return &fence.StaleError{Resource: r, Token: t, Highest: pawl.Token{Key: m.Key, Number: max(m.Exclusive, m.Shared)}}
}

// plain says how a guard goes wrong. The zero value is sound.
type plain struct {
	raise    func(m fence.Mark, r string, t pawl.Token) (fence.Mark, error)
	resource func(string) string
	after    func(err error, forget func()) error

	alone    bool // the marks of a guard are its own
	open     bool // the write is outside of the step
	racy     bool // a resource without a mark has one made for each who asks
	trusting bool // takes all input
	deaf     bool // goes on when the context has ended
	stuck    bool // after a panic
}

// A server keeps marks, and what was written.
type server struct {
	turn  chan struct{}
	mu    sync.Mutex
	marks map[string]fence.Mark
	log   map[string][]string
}

func newServer() *server {
	return &server{turn: make(chan struct{}, 1), marks: make(map[string]fence.Mark), log: make(map[string][]string)}
}

func (s *server) append(_ context.Context, resource, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log[resource] = append(s.log[resource], value)
	return nil
}

func (s *server) read(resource string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.log[resource]...)
}

// connect returns a guard on s.
func (p plain) connect(s *server) fence.Guard {
	if p.alone {
		own := newServer()
		own.log = s.log
		s = own
	}
	return &guard{p, s}
}

type guard struct {
	plain
	s *server
}

func (g *guard) Do(ctx context.Context, resource string, token pawl.Token, write func(context.Context) error) error {
	if g.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	inner := ctx
	if !g.trusting {
		var err error
		if inner, err = fence.Enter(ctx, g, resource, token); err != nil {
			return err
		}
	}
	name := resource
	if g.resource != nil {
		name = g.resource(name)
	}
	raise := g.raise
	if raise == nil {
		raise = fence.Mark.Raise
	}
	turn := func() (end func(), err error) {
		select {
		case g.s.turn <- struct{}{}:
			return func() { <-g.s.turn }, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	check := func() error {
		mark, err := raise(g.mark(name), resource, token)
		g.set(name, mark)
		return err
	}
	if g.racy && g.mark(name) == (fence.Mark{}) {
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond) // or it would have to be lucky
		if err := write(inner); err != nil {
			return err
		}
		end, err := turn()
		if err != nil {
			return err
		}
		defer end()
		if err := check(); errors.Is(err, fence.ErrOtherLock) {
			return err
		}
		return nil
	}
	end, err := turn()
	if err != nil {
		return err
	}
	if err := check(); err != nil {
		end()
		return err
	}
	switch {
	case g.open:
		end()
	case g.stuck:
		err := write(inner)
		end() // not after a panic
		return err
	default:
		defer end()
	}
	return g.ended(name, write(inner))
}

func (g *guard) ended(name string, err error) error {
	if g.after == nil {
		return err
	}
	return g.after(err, func() { g.set(name, fence.Mark{}) })
}

func (g *guard) mark(name string) fence.Mark {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return g.s.marks[name]
}

func (g *guard) set(name string, m fence.Mark) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.s.marks[name] = m
}
