package drivertest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawlock/pawl/driver"
)

// wakeup: whoever waits learns of room at once, however it came.
func wakeup() []check {
	// Both claims that stay in line and those that only wait are served.
	both := func(f func(s *stage, key string, want func(driver.Claim) driver.Claim)) func(*stage) {
		return func(s *stage) {
			f(s, s.key("queued"), queued)
			f(s, s.key("loose"), func(c driver.Claim) driver.Claim { return c })
		}
	}
	return []check{
		{"released_before_wait", both(func(s *stage, key string, want func(driver.Claim) driver.Claim) { // D01
			for range 3 {
				a := s.a.take(s.a.mutex(key))
				c := want(s.b.mutex(key))
				held := s.b.refuse(c)
				s.a.drop(a.Claim)
				ctx, cancel := context.WithDeadline(context.Background(), s.soon())
				s.b.Wait(ctx, c, held)
				if ctx.Err() != nil {
					s.Fatalf("Wait for %q: room came between Acquire and Wait, and it slept", key)
				}
				cancel()
				s.b.drop(s.b.takeBy(s.soon(), c).Claim)
			}
		})},
		{"released_while_waiting", both(func(s *stage, key string, want func(driver.Claim) driver.Claim) {
			a := s.a.take(s.a.mutex(key))
			w := s.b.wait(want(s.b.mutex(key)))
			w.waits()
			s.a.drop(a.Claim)
			w.by(s.soon())
		})},
		{"holder_expires", both(func(s *stage, name string, want func(driver.Claim) driver.Claim) { // D11
			s.patiently(func(ttl time.Duration, key string) bool {
				key += name
				a := s.a.take(lasting(ttl, s.a.mutex(key)))
				c := want(s.b.mutex(key))
				held, ok := s.b.refusedUntil(a.until(), c)
				if !ok {
					return false
				}
				b := s.b.follow(c, held).by(s.gone(a))
				s.notBefore(b.answered, a.until(), ttl, "grant to a waiter while the holder lives")
				return true
			})
		})},
		{"holder_forced", both(func(s *stage, key string, want func(driver.Claim) driver.Claim) { // S02
			a := s.a.take(s.a.mutex(key))
			w := s.b.wait(want(s.b.mutex(key)))
			if err := s.a.revoke(key, a.Grant.Holder, driver.Notice{Force: true, By: "op"}); err != nil {
				s.Fatalf("Revoke: %v", err)
			}
			w.by(s.soon())
		})},
		{"all_readers", both(func(s *stage, key string, want func(driver.Claim) driver.Claim) { // D08
			s.a.take(s.a.reader(key + "probe"))
			writer := s.a.take(s.a.writer(key))
			var readers []*waiter
			for range 3 {
				readers = append(readers, s.b.wait(want(s.b.reader(key))), s.a.wait(want(s.a.reader(key))))
			}
			s.a.drop(writer.Claim)
			deadline := s.soon()
			for _, r := range readers {
				r.by(deadline)
			}
		})},
		{"last_reader", both(func(s *stage, key string, want func(driver.Claim) driver.Claim) {
			first, second := s.a.take(s.a.reader(key)), s.a.take(s.a.reader(key))
			w := s.b.wait(want(s.b.writer(key)))
			s.a.drop(first.Claim)
			s.store.Sleep(s.ttl / 10)
			w.waits()
			s.a.drop(second.Claim)
			w.by(s.soon())
		})},
		{"withdrawn_ahead", func(s *stage) {
			key := s.key("k")
			s.a.take(s.a.reader(key))
			writer := queued(s.a.writer(key))
			s.a.refuse(writer)
			if !s.traits.Fair {
				s.b.take(s.b.reader(key)) // there is no line
				return
			}
			reader := s.b.wait(queued(s.b.reader(key)))
			s.a.drop(writer)
			reader.by(s.soon())
		}},
		{"dead_ahead", func(s *stage) {
			s.needs(s.traits.Fair, "Fair")
			s.patiently(func(ttl time.Duration, key string) bool {
				s.a.take(s.a.reader(key))
				came := time.Now()
				s.a.refuse(lasting(ttl, queued(s.a.writer(key))))
				c := queued(s.b.reader(key))
				held, ok := s.b.refusedUntil(came.Add(ttl), c)
				if !ok {
					return false
				}
				s.b.follow(c, held).by(s.soon().Add(ttl))
				return true
			})
		}},
		{"one_after_the_other", func(s *stage) { // E04
			key := s.key("k")
			holder := s.a.take(s.a.mutex(key))
			const waiters = 6
			served := make(chan struct{}, waiters)
			var all sync.WaitGroup
			for i := range waiters {
				p := []*process{s.a, s.b}[i%2]
				w := p.wait(queued(p.mutex(key)))
				all.Go(func() {
					if h, ok := <-w.served; ok {
						p.release(h.Claim)
						served <- struct{}{}
					}
				})
			}
			s.a.drop(holder.Claim)
			for i := range waiters {
				timer := time.NewTimer(s.prompt)
				select {
				case <-served:
					timer.Stop()
				case <-timer.C:
					s.Fatalf("a line of %d: %d were served, the next was not", waiters, i)
				}
			}
			all.Wait()
		}},
		{"at_any_moment", func(s *stage) {
			for range 10 {
				key := s.key("k")
				holder := s.a.take(s.a.mutex(key))
				w := s.b.start(queued(s.b.mutex(key)))
				s.store.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
				s.a.drop(holder.Claim)
				s.b.drop(w.by(s.soon()).Claim)
			}
		}},
		{"ends_with_its_context", func(s *stage) {
			key := s.key("k")
			s.a.take(s.a.mutex(key))
			c := queued(s.b.mutex(key))
			held := s.b.refuse(c)
			ctx, cancel := context.WithTimeout(context.Background(), s.ttl/2)
			defer cancel()
			for ctx.Err() == nil {
				s.b.Wait(ctx, c, held)
				if ctx.Err() == nil {
					s.store.Sleep(time.Millisecond) // it was early
				}
			}
			deadline, _ := ctx.Deadline()
			if late := time.Since(deadline); late > s.prompt {
				s.Errorf("Wait returned %v after the end of its context, want %v at most", late, s.prompt)
			}
		}},
	}
}
