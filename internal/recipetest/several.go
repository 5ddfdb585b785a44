package recipetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/pawlock/pawl"
)

// multi: several keys, all or none.
func multi() []check {
	return []check{
		{"opposite_orders_make_progress", func(s *stage) { // L01
			x, y := s.key("x"), s.key("y")
			var inside, rounds atomic.Int32
			var all sync.WaitGroup
			for i, c := range []*pawl.Client{s.a, s.b, s.a, s.b} {
				m := c.Multi(c.Mutex(x), c.WriteLock(y))
				if i%2 == 1 {
					m = c.Multi(c.WriteLock(y), c.Mutex(x))
				}
				all.Go(func() {
					for range 5 {
						err := m.Do(s.ctx, func(context.Context, *pawl.MultiLease) error {
							if n := inside.Add(1); n > 1 {
								s.Errorf("%d hold both at a time", n)
							}
							rounds.Add(1)
							inside.Add(-1)
							return nil
						})
						if err != nil {
							s.Errorf("round: %v", err)
							return
						}
					}
				})
			}
			all.Wait()
			if n := rounds.Load(); n != 20 {
				s.Errorf("got %d rounds, want 20", n)
			}
			s.empty(x)
			s.empty(y)
		}},
		{"without_the_last_none_is_held", func(s *stage) { // L02
			x, y := s.key("x"), s.key("y")
			held := s.acquire(s.b.Mutex(y))
			_, err := s.a.Multi(s.a.Mutex(y), s.a.Mutex(x)).TryAcquire(s.ctx)
			var e *pawl.Error
			if !errors.Is(err, pawl.ErrHeld) || !errors.As(err, &e) || e.Key != y {
				s.Errorf("got %v, want that %s is held", err, y)
			}
			s.empty(x)
			s.release(held)
			lease, err := s.a.Multi(s.a.Mutex(y), s.a.Mutex(x)).Acquire(s.ctx)
			if err != nil {
				s.Fatalf("acquire: %v", err)
			}
			if lease.Token(y) <= held.Token() {
				s.Errorf("token of y: got %d, want more than %d", lease.Token(y), held.Token())
			}
			if err := lease.Release(s.ctx); err != nil {
				s.Errorf("release: %v", err)
			}
		}},
		{"a_member_lost_ends_the_whole", func(s *stage) { // L04
			x, y := s.key("x"), s.key("y")
			lease, err := s.a.Multi(s.a.Mutex(x), s.a.Mutex(y)).Acquire(s.ctx)
			if err != nil {
				s.Fatalf("acquire: %v", err)
			}
			if err := s.b.ForceRelease(s.ctx, y, lease.Lease(y).Holder(), "it hangs"); err != nil {
				s.Fatalf("ForceRelease: %v", err)
			}
			receive(s, lease.Context().Done(), "the end of the whole")
			for _, err := range []error{context.Cause(lease.Context()), lease.Release(s.ctx)} {
				s.wantForced(err, "the whole")
				var e *pawl.Error
				if !errors.As(err, &e) || e.Key != y {
					s.Errorf("got %v, want an error that names %s", err, y)
				}
			}
			s.empty(x)
		}},
		{"any_mix_of_kinds", func(s *stage) {
			if !s.traits.Counting {
				s.Skip("the store keeps exclusive claims only")
			}
			one := func(c *pawl.Client) *pawl.MultiLease {
				lease, err := c.Multi(c.ReadLock(s.key("r")), c.Semaphore(s.key("s"), 2), c.Weighted(s.key("w"), 2, 4)).TryAcquire(s.ctx)
				if err != nil {
					s.Fatalf("acquire: %v", err)
				}
				return lease
			}
			first, second := one(s.a), one(s.b)
			if _, err := s.a.Multi(s.a.ReadLock(s.key("r")), s.a.Semaphore(s.key("s"), 2)).TryAcquire(s.ctx); !errors.Is(err, pawl.ErrHeld) {
				s.Errorf("a third permit of two: got %v, want ErrHeld", err)
			}
			for _, lease := range []*pawl.MultiLease{first, second} {
				if err := lease.Release(s.ctx); err != nil {
					s.Errorf("release: %v", err)
				}
			}
			for _, key := range []string{"r", "s", "w"} {
				s.empty(s.key(key))
			}
		}},
	}
}

// reentrant: code within a lease acquires the same lock, and has the same hold.
func reentrant() []check {
	return []check{
		{"the_same_token_and_one_release", func(s *stage) { // R01
			key := s.key("k")
			lock := s.a.Mutex(key).Reentrant()
			outer := s.acquire(lock)
			inner, err := lock.Acquire(outer.Context())
			if err != nil {
				s.Fatalf("acquire within it: %v", err)
			}
			if inner.Token() != outer.Token() {
				s.Errorf("token: got %d, want %d as outside", inner.Token(), outer.Token())
			}
			s.release(inner)
			s.refuse(s.b.Mutex(key), "another, after the inner release")
			if err := outer.Renew(s.ctx); err != nil {
				s.Errorf("renewal of the outer, after the inner release: %v", err)
			}
			if _, err := s.a.Mutex(key).Acquire(outer.Context()); !errors.Is(err, pawl.ErrDeadlock) {
				s.Errorf("without being asked for: got %v, want ErrDeadlock", err)
			}
			s.release(outer)
			s.release(s.acquire(s.b.Mutex(key)))
			s.empty(key)
		}},
	}
}
