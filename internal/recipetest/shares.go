package recipetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlock/pawl"
)

// semaphore: permits that renew themselves and survive a crash of who holds one.
func semaphore() []check {
	return []check{
		{"no_more_than_n_at_a_time", func(s *stage) {
			const n, workers, rounds = 3, 8, 4
			var inside, most atomic.Int32
			var all sync.WaitGroup
			for i := range workers {
				sem := []*pawl.Client{s.a, s.b}[i%2].Semaphore(s.key("k"), n)
				all.Go(func() {
					for range rounds {
						lease, err := sem.Acquire(s.ctx)
						if err != nil {
							s.Errorf("acquire: %v", err)
							return
						}
						now := inside.Add(1)
						for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
						}
						time.Sleep(2 * time.Millisecond)
						inside.Add(-1)
						s.release(lease)
					}
				})
			}
			all.Wait()
			if m := most.Load(); m > n {
				s.Errorf("%d held at a time, want %d at most", m, n)
			}
			var leases []*pawl.Lease
			for range n {
				leases = append(leases, s.acquire(s.a.Semaphore(s.key("k"), n)))
			}
			s.refuse(s.b.Semaphore(s.key("k"), n), "one permit more than there are")
			for _, lease := range leases {
				s.release(lease)
			}
			s.empty(s.key("k"))
		}},
		{"a_crash_gives_the_permit_back", func(s *stage) { // M01
			c, line := s.severable(&pawl.Options{Label: "crashes"})
			began := time.Now()
			s.acquire(c.Semaphore(s.key("k"), 2))
			line.cut.Store(true)
			lives := s.acquire(s.a.Semaphore(s.key("k"), 2))
			s.refuse(s.b.Semaphore(s.key("k"), 2), "a third permit of two")
			next := s.acquire(s.b.Semaphore(s.key("k"), 2))
			s.notBefore(time.Now(), began, s.ttl, "the permit of a process that crashed")
			if err := lives.Renew(s.ctx); err != nil {
				s.Errorf("the permit of one that lives: %v", err)
			}
			s.release(lives)
			s.release(next)
		}},
		{"releasing_twice_makes_no_permit", func(s *stage) { // C08
			sem := s.a.Semaphore(s.key("k"), 2)
			once := s.acquire(sem)
			s.release(once)
			s.release(once)
			s.release(once)
			x, y := s.acquire(sem), s.acquire(s.b.Semaphore(s.key("k"), 2))
			s.refuse(sem, "a third permit of two")
			s.release(once)
			s.refuse(sem, "a third permit of two")
			s.release(x)
			s.release(y)
		}},
		{"each_permit_has_its_token", func(s *stage) { // R04
			sem := s.a.Semaphore(s.key("k"), 2)
			x, y := s.acquire(sem), s.acquire(sem)
			if x.Token() == 0 || y.Token() <= x.Token() {
				s.Errorf("tokens: got %d, then %d, want them to rise", x.Token(), y.Token())
			}
			s.release(x)
			s.release(y)
		}},
	}
}

// readersAndWriters: any number of readers or one writer, in order of arrival.
func readersAndWriters() []check {
	return []check{
		{"neither_starves", func(s *stage) {
			if !s.traits.Fair {
				s.Skip("the store has no order of arrival")
			}
			read, write := s.a.ReadLock(s.key("k")), s.b.WriteLock(s.key("k"))
			first := s.acquire(read)
			granted := make(chan got, 5)
			s.start("writer", write, granted)
			s.waiting(s.key("k"), 1)
			s.start("reader", read, granted)
			s.waiting(s.key("k"), 2)
			s.start("second writer", s.a.WriteLock(s.key("k")), granted) // of another client: those of one hand over
			s.waiting(s.key("k"), 3)
			s.refuse(read, "a reader while a writer waits")
			s.release(first)
			s.release(s.next(granted, "writer"))
			s.release(s.next(granted, "reader"))
			s.release(s.next(granted, "second writer"))
			s.empty(s.key("k"))
		}},
		{"a_release_is_of_ones_own_hold", func(s *stage) { // C07
			read := s.acquire(s.b.ReadLock(s.key("k")))
			s.release(read)
			write := s.acquire(s.a.WriteLock(s.key("k")))
			s.release(read)
			s.refuse(s.b.ReadLock(s.key("k")), "a reader beside a writer")
			if err := write.Renew(s.ctx); err != nil {
				s.Errorf("a writer, after a reader has released twice: %v", err)
			}
			s.release(write)
		}},
		{"many_readers_are_renewed", func(s *stage) { // B11
			s.renewed(func(c *pawl.Client, ttl time.Duration) error {
				key := s.key(ttl.String())
				var readers []*pawl.Lease
				for range 20 {
					readers = append(readers, s.acquire(c.ReadLock(key)))
				}
				defer func() {
					for _, r := range readers {
						_ = r.Release(s.ctx)
					}
					s.empty(key)
				}()
				for end := time.Now().Add(2 * ttl); time.Now().Before(end); time.Sleep(ttl / 10) {
					_, err := s.b.WriteLock(key).TryAcquire(s.ctx)
					for _, r := range readers {
						if !r.Valid() {
							return fmt.Errorf("%w: %w", errStalled, context.Cause(r.Context()))
						}
					}
					if !errors.Is(err, pawl.ErrHeld) {
						return fmt.Errorf("a writer among readers: got %v, want ErrHeld", err)
					}
				}
				return nil
			})
		}},
		{"a_reader_renews_nobody_else", func(s *stage) { // B08
			c, line := s.severable(&pawl.Options{Label: "crashes"})
			s.acquire(c.ReadLock(s.key("k")))
			line.cut.Store(true)
			lives := s.acquire(s.a.ReadLock(s.key("k")))
			time.Sleep(s.ttl + s.ttl/2)
			s.release(lives)
			s.release(s.acquire(s.b.WriteLock(s.key("k"))))
		}},
	}
}

// weighted: claims of different size on one key.
func weighted() []check {
	return []check{
		{"as_many_units_as_there_are", func(s *stage) {
			three := s.acquire(s.a.Weighted(s.key("k"), 3, 4))
			s.refuse(s.b.Weighted(s.key("k"), 2, 4), "two units where one is left")
			one := s.acquire(s.b.Weighted(s.key("k"), 1, 4))
			s.refuse(s.b.Weighted(s.key("k"), 1, 4), "a unit where none is left")
			s.refuse(s.b.Weighted(s.key("k"), 4, 4), "all units where none is left")
			s.release(three)
			s.release(s.acquire(s.b.Weighted(s.key("k"), 3, 4)))
			s.release(one)
			s.release(s.acquire(s.b.Weighted(s.key("k"), 4, 4)))
		}},
		{"the_small_do_not_overtake", func(s *stage) {
			if !s.traits.Fair {
				s.Skip("the store has no order of arrival")
			}
			first := s.acquire(s.a.Weighted(s.key("k"), 2, 4))
			granted := make(chan got, 2)
			s.start("large", s.b.Weighted(s.key("k"), 3, 4), granted)
			s.waiting(s.key("k"), 1)
			s.refuse(s.a.Weighted(s.key("k"), 1, 4), "a small one that would overtake")
			s.release(first)
			s.release(s.next(granted, "large"))
		}},
		{"what_no_key_has_is_refused_at_once", func(s *stage) { // M02, J // M02
			for _, w := range []struct{ weight, capacity int }{{0, 4}, {-1, 4}, {5, 4}, {1, 0}, {1, -1}} {
				_, err := s.a.Weighted(s.key("k"), w.weight, w.capacity).Acquire(s.ctx)
				var field *pawl.FieldError
				if !errors.Is(err, pawl.ErrInvalid) || !errors.As(err, &field) {
					s.Errorf("%d of %d: got %v, want a *FieldError", w.weight, w.capacity, err)
				}
			}
			s.empty(s.key("k"))
		}},
	}
}

// downgrade: from writer to reader with nobody in between.
func downgrade() []check {
	return []check{
		{"no_writer_comes_between", func(s *stage) { // B10
			s.renewed(func(c *pawl.Client, ttl time.Duration) error {
				key := s.key(ttl.String())
				w := s.acquire(c.WriteLock(key))
				granted := make(chan got, 1)
				s.start("writer", s.b.WriteLock(key), granted)
				token := w.Token()
				if err := w.Downgrade(s.ctx, c.ReadLock(key)); err != nil {
					s.Errorf("downgrade: %v", err)
				}
				if w.Token() != token {
					s.Errorf("token: got %d, want %d as before", w.Token(), token)
				}
				select {
				case g := <-granted:
					if w.Valid() {
						return fmt.Errorf("%s was granted while the key is read: %v", g.who, g.err)
					}
					granted <- g
				case <-time.After(2 * ttl): // it is renewed as a reader
				}
				err := w.Check(0)
				_ = w.Release(s.ctx)
				s.release(s.next(granted, "writer"))
				if err != nil {
					return fmt.Errorf("%w: %w", errStalled, err)
				}
				return nil
			})
		}},
		{"readers_come_in", func(s *stage) {
			key := s.key("k")
			w := s.acquire(s.a.WriteLock(key))
			granted := make(chan got, 2)
			s.start("reader", s.b.ReadLock(key), granted)
			s.waiting(key, 1)
			if err := w.Downgrade(s.ctx, s.a.ReadLock(key)); err != nil {
				s.Fatalf("downgrade: %v", err)
			}
			r := s.next(granted, "reader")
			s.refuse(s.b.WriteLock(key), "a writer among readers")
			s.release(w)
			s.refuse(s.b.WriteLock(key), "a writer beside a reader")
			s.release(r)
			s.empty(key)
		}},
		{"fewer_units", func(s *stage) {
			key := s.key("k")
			five := s.acquire(s.a.Weighted(key, 5, 6))
			s.refuse(s.b.Weighted(key, 3, 6), "three units where one is left")
			if err := five.Downgrade(s.ctx, s.a.Weighted(key, 3, 6)); err != nil {
				s.Fatalf("downgrade: %v", err)
			}
			three := s.acquire(s.b.Weighted(key, 3, 6))
			s.refuse(s.b.Weighted(key, 1, 6), "a unit where none is left")
			s.release(five)
			s.release(three)
		}},
	}
}
