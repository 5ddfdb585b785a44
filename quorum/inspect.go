package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/pawlock/pawl/driver"
)

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
	}, func(s *sight[driver.State]) bool { return certain(b, s, merged(s, held)) })
}

// holders returns the claims that a majority of the nodes has, or may have.
func (b *Backend) holders(s *sight[driver.State]) []*merge {
	return majorities(b, s, merged(s, held))
}

// held yields the claims that hold at a node.
func held(st driver.State) iter.Seq[driver.Holder] {
	return func(yield func(driver.Holder) bool) {
		for _, h := range st.Holders {
			if h.Held && !yield(h) {
				return
			}
		}
	}
}

// merged returns the claims that any of the nodes has, each as all see it.
func merged[T any](s *sight[T], claims func(T) iter.Seq[driver.Holder]) []*merge {
	type name struct{ key, id string }
	var all []*merge
	byName := make(map[name]*merge)
	for i, seen := range s.seen {
		if !s.ok[i] {
			continue
		}
		for h := range claims(seen) {
			m := byName[name{h.Key, h.ID}]
			if m == nil {
				m = new(merge)
				byName[name{h.Key, h.ID}] = m
				all = append(all, m)
			}
			m.add(i, h)
		}
	}
	return all
}

// majorities drops the claims of which no majority can have, whatever the nodes
// have that did not answer.
func majorities[T any](b *Backend, s *sight[T], all []*merge) []*merge {
	silent := len(b.seats) - s.answers()
	return slices.DeleteFunc(all, func(m *merge) bool { return len(m.seen)+silent < b.majority() })
}

// certain reports whether no answer to come can tell that one of the claims does
// not hold after all: a release may have reached a majority, and the slowest of
// them may be among those that are still to answer.
func certain[T any](b *Backend, s *sight[T], all []*merge) bool {
	failures, pending := s.failures(), s.pending()
	return !slices.ContainsFunc(all, func(m *merge) bool {
		has := len(m.seen) + failures
		return has < b.majority() && has+pending >= b.majority()
	})
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
	count := func(s *sight[done]) (did, gone int) {
		for i, d := range s.seen {
			switch {
			case s.ok[i] && d.gone:
				gone++
			case s.ok[i]:
				did++
			}
		}
		return did, gone
	}
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
	}, func(s *sight[done]) bool {
		did, gone := count(s)
		return did >= b.majority() || gone > len(b.seats)-b.majority()
	})
	if err != nil {
		return err
	}
	switch did, gone := count(r); {
	case did >= b.majority():
		return nil
	case gone > len(b.seats)-b.majority():
		return &driver.LostError{Reason: driver.Expired}
	default:
		return fmt.Errorf("revoke: only %d of the %d nodes that are needed did it", did, b.majority())
	}
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
		}, func(s *sight[map[string]driver.Holder]) bool { return certain(b, s, merged(s, maps.Values)) })
		if err != nil {
			yield(driver.Holder{}, err)
			return
		}
		var holders []driver.Holder
		for _, m := range majorities(b, s, merged(s, maps.Values)) {
			holders = append(holders, m.holder(len(b.seats)))
		}
		slices.SortFunc(holders, func(x, y driver.Holder) int { return cmp.Compare(x.Key, y.Key) })
		for _, h := range holders {
			if !yield(h, nil) {
				return
			}
		}
	}
}
