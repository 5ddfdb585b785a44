package drivertest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlock/pawl/driver"
)

// exclusion: of two exclusive claims on a key at most one holds.
func exclusion() []check {
	return []check{
		{"one_at_a_time", func(s *stage) { // C02
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			s.a.refuse(s.a.mutex(key)) // another claim of the same process is another claim
			held := s.b.refuse(s.b.mutex(key))
			if held.Holder.ID != a.Grant.Holder {
				s.Errorf("Holder.ID in the HeldError: got %q, want that of the grant, %q", held.Holder.ID, a.Grant.Holder)
			}
			if held.Left <= 0 || held.Left > a.Grant.TTL+s.prompt {
				s.Errorf("Left in the HeldError: got %v, want more than 0 and about %v at most", held.Left, a.Grant.TTL)
			}
			s.a.stillHolds(&a)
			s.a.drop(a.Claim)
			b := s.b.take(s.b.mutex(key))
			s.a.refuse(s.a.mutex(key))
			s.b.drop(b.Claim)
		}},
		{"whatever_the_capacity", func(s *stage) {
			key := s.key("k")
			for _, c := range []driver.Claim{s.a.mutex(key), s.a.claim(key, 5, 5), s.a.writer(key)} {
				a := s.a.take(c)
				for _, c := range []driver.Claim{s.b.mutex(key), s.b.claim(key, 3, 3), s.b.claim(key, 7, 7), s.b.writer(key)} {
					s.b.refuse(c)
				}
				s.a.drop(a.Claim)
			}
		}},
		{"contended", func(s *stage) { // C10
			const clients, rounds = 8, 5
			for range rounds {
				var (
					key   = s.key("k")
					all   sync.WaitGroup
					wins  atomic.Int32
					start = make(chan struct{})
					won   = make(chan hold, clients)
				)
				for i := range clients {
					p := []*process{s.a, s.b}[i%2]
					all.Go(func() {
						<-start
						if h, err := p.try(p.mutex(key)); err == nil {
							wins.Add(1)
							won <- h
						}
					})
				}
				close(start)
				all.Wait()
				if n := wins.Load(); n != 1 {
					s.Fatalf("%d clients at once: got %d grants, want 1", clients, n)
				}
				s.b.drop((<-won).Claim)
			}
		}},
	}
}

// ownership: nobody's claim is touched by a request about another.
func ownership() []check {
	return []check{
		{"late_release", func(s *stage) { // A06, C01, T11, T13
			key := s.key("k")
			a := s.a.take(lasting(s.ttl, s.a.mutex(key)))
			b := s.b.takeBy(s.gone(a), s.b.mutex(key))
			s.lost(s.a.release(a.Claim), "Release of a claim that has ended, with another holder")
			s.b.stillHolds(&b)
			s.a.refuse(s.a.mutex(key))
		}},
		{"release_by_another", func(s *stage) {
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			stranger := s.b.mutex(key)
			s.b.drop(stranger)
			stranger.Grant = a.Grant
			s.b.release(stranger) // an error or not: it must not touch a
			s.a.stillHolds(&a)
			s.b.refuse(s.b.mutex(key))
		}},
		{"renew_by_another", func(s *stage) {
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			stranger := hold{Claim: s.b.mutex(key)}
			stranger.Grant.Token = a.Grant.Token
			s.lost(s.b.renew(&stranger), "Renew with the holder's token and another ID")
			s.a.stillHolds(&a)
			s.b.refuse(s.b.mutex(key))
		}},
		{"renew_with_another_token", func(s *stage) {
			s.needs(s.traits.Fencing, "Fencing")
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			for _, token := range []uint64{a.Grant.Token - 1, a.Grant.Token + 1} {
				wrong := a
				wrong.Grant.Token = token
				s.lost(s.a.renew(&wrong), "Renew with the holder's ID and another token")
			}
			s.a.stillHolds(&a)
		}},
		{"released_twice", func(s *stage) {
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			s.a.drop(a.Claim)
			s.a.drop(a.Claim) // its answer may have been lost
			b := s.b.take(s.b.mutex(key))
			s.a.release(a.Claim) // ErrLost or nil: the store can't always tell
			s.b.stillHolds(&b)
			s.a.refuse(s.a.mutex(key))
		}},
		{"closed_process", func(s *stage) { // Q04
			p, key := s.process("closed"), s.key("k")
			h := p.take(lasting(s.ttl, p.mutex(key)))
			if err := p.close(); err != nil {
				s.Errorf("Close: %v", err)
			}
			b := s.b.takeBy(s.gone(h), s.b.mutex(key))
			s.notBefore(b.answered, h.until(), s.ttl, "grant of a key whose holder has closed its client")
		}},
	}
}

// idempotence: an Acquire whose answer was lost may be repeated.
func idempotence() []check {
	return []check{
		{"same_grant", func(s *stage) { // H01, R01
			for name, c := range map[string]driver.Claim{"mutex": s.a.mutex(s.key("m")), "reader": s.a.reader(s.key("r"))} {
				a := s.a.take(c)
				for range 3 {
					again := s.a.take(c)
					if g := again.Grant; g.Token != a.Grant.Token || g.Block != a.Grant.Block || g.Holder != a.Grant.Holder {
						s.Errorf("%s: repeated Acquire: got %+v, want %+v again", name, g, a.Grant)
					}
				}
				s.a.stillHolds(&a)
				s.a.drop(a.Claim)
				s.b.empty(c.Key)
			}
		}},
		{"restarts_the_ttl", func(s *stage) {
			s.patiently(func(ttl time.Duration, key string) bool {
				a := s.a.take(lasting(ttl, s.a.mutex(key)))
				s.store.Sleep(ttl * 6 / 10)
				again, err := s.a.try(a.Claim)
				if err != nil {
					if again.answered.Before(a.until()) {
						s.Errorf("repeated Acquire: got %v, want the same grant", err)
					}
					return false
				}
				b := s.b.takeBy(s.gone(again), s.b.mutex(key))
				s.notBefore(b.answered, again.until(), ttl, "end of a claim whose Acquire was repeated")
				return true
			})
		}},
		{"never_after_the_end", func(s *stage) { // G10
			key := s.key("released")
			a := s.a.take(s.a.mutex(key))
			s.a.drop(a.Claim)
			for _, c := range []driver.Claim{a.Claim, queued(a.Claim)} {
				_, err := s.a.try(c)
				s.lost(err, "Acquire with an ID that was released")
			}
			s.b.empty(key)
			s.b.take(s.b.mutex(key))

			key = s.key("expired")
			a = s.a.take(lasting(s.ttl, s.a.mutex(key)))
			s.b.emptyBy(s.gone(a), key)
			_, err := s.a.try(a.Claim)
			s.lost(err, "Acquire with an ID that has expired")
			s.b.empty(key)
		}},
		{"in_line", func(s *stage) { // G11
			s.needs(s.traits.Fair, "Fair")
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			first, second := queued(s.b.mutex(key)), queued(s.b.mutex(key))
			s.b.refuse(first)
			s.b.refuse(second)
			if held := s.b.refuse(first); held.Place != 1 {
				s.Errorf("place of the first in line, asking again: got %d, want 1", held.Place)
			}
			if st := s.a.inspect(key, 10); st.Waiting != 2 {
				s.Errorf("two claims in line, one of them asked twice: got %d waiting, want 2", st.Waiting)
			}
			s.a.drop(a.Claim)
		}},
	}
}
