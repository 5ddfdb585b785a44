package drivertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pawlock/pawl/driver"
)

// withdrawal: a claim that was refused, cancelled or released leaves no trace.
func withdrawal() []check {
	return []check{
		{"refused", func(s *stage) { // E08
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			for range 3 {
				s.b.refuse(s.b.mutex(key))
			}
			if _, err := s.b.try(s.b.reader(key)); !errors.Is(err, driver.ErrHeld) && !errors.Is(err, driver.ErrUnsupported) {
				s.Errorf("Acquire by a reader while there is a writer: got %v, want a *HeldError, or ErrUnsupported", describe(err))
			}
			if st := s.a.inspect(key, 10); st.Waiting != 0 || len(st.Holders) != 1 {
				s.Errorf("after Acquires without Queue: got %d waiting and %d claims, want 0 and the holder", st.Waiting, len(st.Holders))
			}
			s.a.drop(a.Claim)
			s.a.empty(key)
			s.a.take(s.a.mutex(key))
		}},
		{"in_line", func(s *stage) { // E01
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			first, second := queued(s.b.mutex(key)), queued(s.b.mutex(key))
			s.b.refuse(first)
			s.b.refuse(second)
			s.b.drop(first)
			s.a.drop(a.Claim)
			s.b.drop(s.b.takeBy(s.soon(), second).Claim) // not held up by the first
			s.b.drop(first)
			s.a.empty(key)
			s.a.take(s.a.mutex(key))
		}},
		{"no_longer_in_line", func(s *stage) {
			s.needs(s.traits.Fair, "Fair")
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			c := queued(s.b.mutex(key))
			s.b.refuse(c)
			c.Queue = false
			s.b.refuse(c) // asked for the last time, it leaves
			if st := s.a.inspect(key, 10); st.Waiting != 0 {
				s.Errorf("a claim in line asks again without Queue: got %d waiting, want 0", st.Waiting)
			}
			s.a.drop(a.Claim)
			s.a.take(s.a.mutex(key))
		}},
		{"never_sent", func(s *stage) { // C04
			key := s.key("k")
			s.a.drop(s.a.mutex(key))
			s.a.empty(key)
			s.a.take(s.a.mutex(key))
		}},
		{"released", func(s *stage) {
			key := s.key("k")
			for _, c := range []driver.Claim{s.a.mutex(key), s.a.writer(key), s.a.reader(key), queued(s.a.reader(key))} {
				h, err := s.a.try(c)
				if errors.Is(err, driver.ErrUnsupported) {
					continue
				} else if err != nil {
					s.Fatalf("Acquire of a free %q: %v", key, err)
				}
				s.a.drop(h.Claim)
				s.b.empty(key)
			}
			if held := s.list(s.b, key); len(held) > 0 {
				s.Errorf("List after the last release: got %v, want nothing", held)
			}
		}},
		{"cancelled", func(s *stage) { // B02
			key := s.key("k")
			span := min(s.ttl, 500*time.Millisecond) // no claim is left to end here
			for range 30 {
				if !s.a.knowsTheTime(span) {
					s.Skip("the store is too slow for this: what is cancelled at random was not even sent")
				}
				c := queued(s.a.mutex(key))
				budget := time.Duration(rand.IntN(2000)) * time.Microsecond
				ctx, cancel := context.WithTimeout(context.Background(), span/2)
				timer := time.AfterFunc(budget, cancel)
				g, err := s.a.Acquire(ctx, c)
				deadline, _ := ctx.Deadline()
				timer.Stop()
				cancel()
				if c.Grant = g; err != nil {
					// As the core does it: at once, and again when no
					// request can grant anything any more.
					s.a.drop(c)
					if !errors.Is(err, driver.ErrRefused) {
						s.store.Sleep(time.Until(deadline) + span/2)
						s.a.drop(c)
					}
				} else {
					s.a.drop(c)
				}
				s.b.drop(s.b.take(s.b.mutex(key)).Claim)
			}
			s.b.empty(key)
		}},
	}
}

// lateRequest: a request that arrives after its sender gave up does nothing.
func lateRequest() []check {
	// denied checks that an Acquire which came too late says neither that it
	// was granted nor anything about the key.
	denied := func(s *stage, err error, what string) {
		if err == nil || errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrLost) {
			s.Errorf("%s: got %v, want ErrRefused, or an error that leaves the outcome open", what, describe(err))
		}
	}
	return []check{
		{"after_the_deadline", func(s *stage) {
			key := s.key("k")
			ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Millisecond))
			defer cancel()
			_, err := s.a.Acquire(ctx, queued(s.a.mutex(key)))
			denied(s, err, "Acquire after the deadline")
			s.b.empty(key)
			s.b.take(s.b.mutex(key))
		}},
		{"cancelled", func(s *stage) {
			key := s.key("k")
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_, err := s.a.Acquire(ctx, queued(s.a.mutex(key)))
			denied(s, err, "Acquire with a cancelled context")
			s.b.empty(key)
			s.b.take(s.b.mutex(key))
		}},
		{"on_a_slow_way", func(s *stage) {
			if s.store.Stall == nil {
				s.Skip("the harness has no Stall")
			}
			for _, recipe := range []func(*process, string) driver.Claim{(*process).mutex, (*process).reader} {
				s.patiently(func(ttl time.Duration, key string) bool {
					if !s.a.knowsTheTime(ttl) {
						return false
					}
					ctx, cancel := context.WithTimeout(context.Background(), ttl)
					defer cancel()
					s.store.Stall(s.a.Backend, 2*ttl)
					_, err := s.a.Acquire(ctx, queued(recipe(s.a, key)))
					denied(s, err, "Acquire of which the store knew nothing until its deadline")
					s.store.Sleep(2 * ttl)
					// What was in the way has arrived once this is answered.
					s.a.inspect(key, 1)
					s.store.Sleep(ttl / 4)
					s.b.empty(key)
					s.b.drop(s.b.take(s.b.mutex(key)).Claim)
					return true
				})
			}
		}},
	}
}
