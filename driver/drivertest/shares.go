package drivertest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlock/pawl/driver"
)

// readerWriter: any number of readers, or one writer.
func readerWriter() []check {
	return []check{
		{"readers_share", func(s *stage) {
			key := s.key("k")
			first, second := s.a.take(s.a.reader(key)), s.b.take(s.b.reader(key))
			third := s.a.take(s.a.reader(key))
			s.b.refuse(s.b.writer(key))
			s.b.refuse(s.b.mutex(key))
			s.a.drop(first.Claim)
			s.b.drop(second.Claim)
			s.b.refuse(s.b.writer(key))
			s.a.drop(third.Claim)
			s.b.take(s.b.writer(key))
		}},
		{"writer_alone", func(s *stage) { // C07
			s.a.take(s.a.reader(s.key("probe"))) // is the store one that keeps shares?
			key := s.key("k")
			w := s.a.take(s.a.writer(key))
			s.a.refuse(s.a.reader(key))
			s.b.refuse(s.b.reader(key))
			s.b.refuse(s.b.claim(key, 1, 2))
			for _, p := range []*process{s.a, s.b} {
				p.release(p.reader(key)) // of what was never granted: an error or not
			}
			s.a.stillHolds(&w)
			s.b.refuse(s.b.reader(key))
			s.a.drop(w.Claim)
			s.b.take(s.b.reader(key))
		}},
		{"released_twice", func(s *stage) {
			key := s.key("k")
			first, second := s.a.take(s.a.reader(key)), s.b.take(s.b.reader(key))
			s.a.drop(first.Claim)
			s.a.release(first.Claim)
			s.a.release(first.Claim)
			s.a.refuse(s.a.writer(key))
			s.b.stillHolds(&second)
		}},
		{"each_renews_its_own", func(s *stage) { // B08
			key := s.key("k")
			dead := s.a.take(lasting(s.ttl, s.a.reader(key)))
			alive := s.b.take(s.b.reader(key))
			for deadline := s.gone(dead); len(s.b.inspect(key, 10).Holders) > 1; {
				s.b.stillHolds(&alive)
				if time.Now().After(deadline) {
					s.Fatalf("a reader that does not renew is kept alive by another that does")
				}
				s.store.Sleep(s.ttl / 5)
			}
			s.lost(s.a.renew(&dead), "Renew of a reader that has ended")
			s.b.refuse(s.b.writer(key))
			s.b.drop(alive.Claim)
			s.b.take(s.b.writer(key))
		}},
		{"each_lasts_its_own_ttl", func(s *stage) {
			key := s.key("k")
			long := s.a.take(lasting(4*s.ttl, s.a.reader(key)))
			s.b.take(lasting(s.ttl, s.b.reader(key)))
			w := s.b.takeBy(s.gone(long), s.b.writer(key))
			s.notBefore(w.answered, long.until(), 4*s.ttl, "grant to a writer before the last reader's end")
		}},
	}
}

// counting: of a capacity no more units are held than there are.
func counting() []check {
	return []check{
		{"or_refused", func(s *stage) {
			if s.traits.Counting {
				return // the other checks test it
			}
			if _, err := s.a.try(s.a.claim(s.key("k"), 1, 2)); err == nil {
				s.Errorf("Acquire of 1 of 2 where shares are not counted: got a grant, want ErrUnsupported")
			}
		}},
		{"no_more_than_the_capacity", func(s *stage) { // C08
			s.needs(s.traits.Counting, "Counting")
			key := s.key("k")
			var held []hold
			for i := range 3 {
				p := []*process{s.a, s.b}[i%2]
				held = append(held, p.take(p.claim(key, 1, 3)))
			}
			s.b.refuse(s.b.claim(key, 1, 3))
			s.b.refuse(s.b.mutex(key))
			for range 2 { // releasing what was never granted gives no unit back
				s.b.release(s.b.claim(key, 1, 3))
			}
			s.b.refuse(s.b.claim(key, 1, 3))
			for range 3 { // nor does releasing again
				s.a.release(held[0].Claim)
			}
			s.b.take(s.b.claim(key, 1, 3))
			s.b.refuse(s.b.claim(key, 1, 3))
		}},
		{"weights", func(s *stage) {
			s.needs(s.traits.Counting, "Counting")
			key := s.key("k")
			three := s.a.take(s.a.claim(key, 3, 5))
			s.b.refuse(s.b.claim(key, 3, 5))
			two := s.b.take(s.b.claim(key, 2, 5))
			s.a.refuse(s.a.claim(key, 1, 5))
			s.a.drop(three.Claim)
			s.a.refuse(s.a.claim(key, 4, 5))
			s.a.take(s.a.claim(key, 3, 5))
			s.b.drop(two.Claim)
		}},
		{"the_claims_own_capacity", func(s *stage) { // D07
			s.needs(s.traits.Counting, "Counting")
			key := s.key("k")
			s.a.take(s.a.claim(key, 2, 5))
			s.b.refuse(s.b.claim(key, 1, 2))
			s.b.take(s.b.claim(key, 1, 3))
			s.b.take(s.b.reader(key))
		}},
		{"expired_units_come_back", func(s *stage) {
			s.needs(s.traits.Counting, "Counting")
			key := s.key("k")
			s.a.take(s.a.claim(key, 1, 2))
			short := s.a.take(lasting(s.ttl, s.a.claim(key, 1, 2)))
			b := s.b.takeBy(s.gone(short), s.b.claim(key, 1, 2))
			s.notBefore(b.answered, short.until(), s.ttl, "grant of a unit whose holder does not renew")
			s.b.refuse(s.b.claim(key, 1, 2))
		}},
		{"contended", func(s *stage) {
			s.needs(s.traits.Counting, "Counting")
			const clients, units = 12, 4
			var (
				key  = s.key("k")
				all  sync.WaitGroup
				wins atomic.Int32
			)
			for i := range clients {
				p := []*process{s.a, s.b}[i%2]
				all.Go(func() {
					if _, err := p.try(p.claim(key, 1, units)); err == nil {
						wins.Add(1)
					}
				})
			}
			all.Wait()
			if n := wins.Load(); n != units {
				s.Errorf("%d clients at once for %d units: got %d grants", clients, units, n)
			}
		}},
	}
}

// downgrade: an exclusive claim becomes a share, with no gap for anyone else.
func downgrade() []check {
	smaller := func(s *stage, h hold, weight, capacity int) hold {
		c := h.Claim
		c.Weight, c.Capacity = weight, capacity
		again := s.a.take(c)
		if again.Grant.Token != h.Grant.Token {
			s.Errorf("token after a downgrade: got %d, want %d as before", again.Grant.Token, h.Grant.Token)
		}
		return again
	}
	return []check{
		{"writer_to_reader", func(s *stage) { // B10
			key := s.key("k")
			s.a.take(s.a.reader(s.key("probe")))
			w := s.a.take(s.a.writer(key))
			s.b.refuse(s.b.reader(key))
			r := smaller(s, w, 1, driver.Unlimited)
			other := s.b.take(s.b.reader(key))
			s.b.refuse(s.b.writer(key))
			s.a.stillHolds(&r)
			s.b.drop(other.Claim)
			s.b.refuse(s.b.writer(key))
			s.a.drop(r.Claim)
			s.b.take(s.b.writer(key))
		}},
		{"serves_a_waiter", func(s *stage) {
			key := s.key("k")
			s.a.take(s.a.reader(s.key("probe")))
			w := s.a.take(s.a.writer(key))
			reader := s.b.wait(queued(s.b.reader(key)))
			r := smaller(s, w, 1, driver.Unlimited)
			reader.by(s.soon())
			s.a.stillHolds(&r)
		}},
		{"still_expires", func(s *stage) {
			s.a.take(s.a.reader(s.key("probe")))
			key := s.key("k")
			w := s.a.take(s.a.writer(key))
			w.TTL = s.ttl
			r := smaller(s, w, 1, driver.Unlimited)
			b := s.b.takeBy(s.gone(r), s.b.writer(key))
			s.notBefore(b.answered, r.until(), s.ttl, "end of a claim that was downgraded")
		}},
		{"fewer_units", func(s *stage) {
			s.needs(s.traits.Counting, "Counting")
			key := s.key("k")
			h := s.a.take(s.a.claim(key, 3, 4))
			s.b.refuse(s.b.claim(key, 2, 4))
			smaller(s, h, 2, 4)
			s.b.take(s.b.claim(key, 2, 4))
			s.b.refuse(s.b.claim(key, 1, 4))
		}},
		{"never_upgrades", func(s *stage) {
			key := s.key("k")
			r := s.a.take(s.a.reader(key))
			c := r.Claim
			c.Weight = driver.Unlimited
			s.a.try(c) // the same grant, or an error: but no writer
			s.b.take(s.b.reader(key))

			if s.traits.Counting {
				key := s.key("n")
				c := s.a.take(s.a.claim(key, 2, 3)).Claim
				c.Weight, c.Capacity = 1, 1 // fewer, and all there are
				s.a.try(c)
				s.b.take(s.b.claim(key, 1, 3))
			}
		}},
	}
}
