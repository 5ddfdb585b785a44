package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/ballot"
)

// How long a majority of the nodes is waited for, unless the caller's context is
// shorter.
const (
	lookTimeout = time.Second
	listTimeout = time.Minute
)

// A sight is what the nodes that answered see.
type sight[T any] struct {
	seen []T
	ok   []bool
	errs []error
}

// unowed starts what Close need not wait for.
func unowed(f func()) { go f() }

// answers returns how many nodes answered.
func (s *sight[T]) answers() int {
	n := 0
	for _, ok := range s.ok {
		if ok {
			n++
		}
	}
	return n
}

// look asks all nodes, on goroutines that it starts with start, and returns what a
// majority sees. The others are given as long again.
func look[T any](ctx context.Context, b *Backend, op string, limit time.Duration, start func(func()), ask func(context.Context, *seat) (T, error)) (*sight[T], error) {
	type answer struct {
		node int
		seen T
		err  error
	}
	began := b.now()
	answers := make(chan answer, len(b.seats))
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, s := range b.seats {
		start(func() {
			a := answer{node: i}
			_, a.err = s.ask(ballot.Find, func() (t time.Time, err error) {
				a.seen, err = ask(inner, s)
				return t, err
			})
			answers <- a
		})
	}
	s := &sight[T]{seen: make([]T, len(b.seats)), ok: make([]bool, len(b.seats)), errs: make([]error, len(b.seats))}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	verdicts := make([]ballot.Verdict, len(b.seats))
	failed := 0
	for range b.seats {
		if failed > len(b.seats)-b.majority() {
			break
		}
		select {
		case a := <-answers:
			s.seen[a.node], s.ok[a.node], s.errs[a.node] = a.seen, a.err == nil, a.err
			if verdicts[a.node] = verdict(ballot.Find, a.err); a.err != nil {
				failed++
			}
			if s.answers() == b.majority() {
				timer.Reset(max(b.now()-began, minPause))
			}
			continue
		case <-timer.C:
		case <-ctx.Done():
			if s.answers() < b.majority() {
				return nil, context.Cause(ctx)
			}
		}
		break
	}
	if s.answers() < b.majority() {
		return nil, b.noMajority(op, "too few answered", verdicts, s.errs)
	}
	return s, nil
}

// Inspect implements driver.Backend. A claim holds if a majority of the nodes
// has it, or may have: one that did not answer is counted for it. Nobody waits
// in line.
func (b *Backend) Inspect(ctx context.Context, key string, limit int) (driver.State, error) {
	s, err := b.inspect(ctx, key)
	if err != nil {
		return driver.State{}, err
	}
	var st driver.State
	for i, n := range s.seen {
		if s.ok[i] {
			st.Last = max(st.Last, n.Last)
			st.Notices = mergeNotices(st.Notices, n.Notices)
		}
	}
	for _, m := range b.holders(s) {
		h := m.holder(len(b.seats))
		if h.Grant.Token > 0 && len(m.seen) >= b.majority() {
			st.Last = h.Grant.Token // what came after it was granted by a minority, and is no token
		}
		if len(st.Holders) < limit {
			st.Holders = append(st.Holders, h)
		}
	}
	return st, nil
}

func (b *Backend) inspect(ctx context.Context, key string) (*sight[driver.State], error) {
	return look(ctx, b, "inspect", lookTimeout, unowed, func(ctx context.Context, s *seat) (driver.State, error) {
		return s.Backend.Inspect(ctx, key, 16)
	})
}

// holders returns the claims that a majority of the nodes has, or may have.
func (b *Backend) holders(s *sight[driver.State]) []*merge {
	var all []*merge
	byID := make(map[string]*merge)
	for i, st := range s.seen {
		for _, h := range st.Holders {
			if !s.ok[i] || !h.Held {
				continue
			}
			m := byID[h.ID]
			if m == nil {
				m = new(merge)
				byID[h.ID] = m
				all = append(all, m)
			}
			m.add(i, h)
		}
	}
	silent := len(b.seats) - s.answers()
	return slices.DeleteFunc(all, func(m *merge) bool { return len(m.seen)+silent < b.majority() })
}

// mergeNotices adds those of more that are not in notices yet.
func mergeNotices(notices, more []driver.Notice) []driver.Notice {
	for _, n := range more {
		same := func(o driver.Notice) bool { return o.Force == n.Force && o.By == n.By && o.Why == n.Why }
		if !slices.ContainsFunc(notices, same) {
			notices = append(notices, n)
		}
	}
	slices.SortStableFunc(notices, func(x, y driver.Notice) int { return x.At.Compare(y.At) })
	return notices
}

// Revoke implements driver.Backend. It takes a majority.
func (b *Backend) Revoke(ctx context.Context, key, id string, n driver.Notice) error {
	s, err := b.inspect(ctx, key)
	if err != nil {
		return err
	}
	var nonce string
	for _, m := range b.holders(s) {
		if h := m.seen[0]; public(h) == id || h.ID == id {
			nonce = h.ID
		}
	}
	if nonce == "" {
		return &driver.LostError{Reason: driver.Expired}
	}
	type done struct{ gone bool }
	r, err := look(ctx, b, "revoke", lookTimeout, b.crew.finish, func(ctx context.Context, s *seat) (done, error) {
		// The last of the nodes are told too, also when a majority has been.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
		defer cancel()
		switch err := s.Backend.Revoke(ctx, key, nonce, n); {
		case errors.Is(err, driver.ErrLost):
			return done{gone: true}, nil
		default:
			return done{}, err
		}
	})
	if err != nil {
		return err
	}
	did, gone := 0, 0
	for i, d := range r.seen {
		switch {
		case r.ok[i] && d.gone:
			gone++
		case r.ok[i]:
			did++
		}
	}
	switch {
	case did >= b.majority():
		return nil
	case gone > len(b.seats)-b.majority():
		return &driver.LostError{Reason: driver.Expired}
	}
	return fmt.Errorf("revoke: only %d of the %d nodes that are needed did it", did, b.majority())
}

// List implements driver.Backend. All nodes are listed at once and to their
// ends before the first holder is yielded, since it takes a majority of them to
// tell who holds.
func (b *Backend) List(ctx context.Context, prefix string) iter.Seq2[driver.Holder, error] {
	return func(yield func(driver.Holder, error) bool) {
		s, err := look(ctx, b, "list", listTimeout, unowed, func(ctx context.Context, s *seat) (map[string]driver.Holder, error) {
			all := make(map[string]driver.Holder)
			for h, err := range s.Backend.List(ctx, prefix) {
				if err != nil {
					return nil, err
				}
				all[h.Key+"\x00"+h.ID] = h // a store may yield one twice
			}
			return all, nil
		})
		if err != nil {
			yield(driver.Holder{}, err)
			return
		}
		for _, h := range b.listed(s) {
			if !yield(h, nil) {
				return
			}
		}
	}
}

// listed returns the holders that a majority of the nodes has, or may have.
func (b *Backend) listed(s *sight[map[string]driver.Holder]) []driver.Holder {
	byID := make(map[string]*merge)
	for i, all := range s.seen {
		for id, h := range all {
			if !s.ok[i] {
				continue
			}
			if byID[id] == nil {
				byID[id] = new(merge)
			}
			byID[id].add(i, h)
		}
	}
	silent := len(b.seats) - s.answers()
	var holders []driver.Holder
	for _, m := range byID {
		if len(m.seen)+silent >= b.majority() {
			holders = append(holders, m.holder(len(b.seats)))
		}
	}
	slices.SortFunc(holders, func(x, y driver.Holder) int { return cmp.Compare(x.Key, y.Key) })
	return holders
}
