package drivertest

import (
	"time"

	"github.com/pawlock/pawl/driver"
)

// expiry: a claim that is not renewed ends after its TTL, and not before.
func expiry() []check {
	return []check{
		{"after_the_ttl", func(s *stage) { // J10
			key := s.key("k")
			a := s.a.take(lasting(s.ttl, s.a.mutex(key)))
			b := s.b.takeBy(s.gone(a), s.b.mutex(key))
			s.notBefore(b.answered, a.until(), s.ttl, "grant of a key whose holder does not renew")
			s.lost(s.a.renew(&a), "Renew of an expired claim")
			s.b.stillHolds(&b)
		}},
		{"with_nobody_looking", func(s *stage) {
			key := s.key("k")
			a := s.a.take(lasting(s.ttl, s.a.mutex(key)))
			s.b.emptyBy(s.gone(a), key)
			s.notBefore(time.Now(), a.until(), s.ttl, "end of a claim, as Inspect tells it")
			s.b.take(s.b.mutex(key))
		}},
		{"each_by_itself", func(s *stage) {
			long := s.a.take(s.a.mutex(s.key("long")))
			short := s.a.take(lasting(s.ttl, s.a.mutex(s.key("short"))))
			s.b.takeBy(s.gone(short), s.b.mutex(short.Key))
			s.b.refuse(s.b.mutex(long.Key))
			s.a.stillHolds(&long)
		}},
	}
}

// renewal: a holder that renews in time keeps its claim, and one that comes
// too late never gets it back that way.
func renewal() []check {
	return []check{
		{"keeps", func(s *stage) { // B17
			s.patiently(func(ttl time.Duration, key string) bool {
				a := s.a.take(lasting(ttl, s.a.mutex(key)))
				token := a.Grant.Token
				for range 8 {
					s.store.Sleep(ttl / 3)
					if b, err := s.b.try(s.b.mutex(key)); err == nil {
						s.notBefore(b.answered, a.until(), ttl, "grant of a key whose holder renews")
						return false
					}
					due := a.until()
					if err := s.a.renew(&a); err != nil {
						if time.Now().Before(due) {
							s.Errorf("Renew in time: got %v, want a grant", err)
						}
						return false
					}
					if a.Grant.Token != token {
						s.Errorf("token after Renew: got %d, want %d as before", a.Grant.Token, token)
					}
					s.sound(a)
				}
				return true
			})
		}},
		{"restarts_the_ttl", func(s *stage) {
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			a.TTL = s.ttl // from now on
			s.a.stillHolds(&a)
			b := s.b.takeBy(s.gone(a), s.b.mutex(key))
			s.notBefore(b.answered, a.until(), s.ttl, "end of a claim that was renewed with a shorter TTL")
		}},
		{"with_a_longer_ttl", func(s *stage) {
			s.patiently(func(ttl time.Duration, key string) bool {
				a := s.a.take(lasting(ttl, s.a.mutex(key)))
				due := a.until()
				a.TTL = 3 * ttl
				if err := s.a.renew(&a); err != nil {
					if time.Now().Before(due) {
						s.Errorf("Renew in time: got %v, want a grant", err)
					}
					return false
				}
				b := s.b.takeBy(s.gone(a), s.b.mutex(key))
				s.notBefore(b.answered, a.until(), 3*ttl, "end of a claim that was renewed with a longer TTL")
				return true
			})
		}},
		{"never_resurrects", func(s *stage) { // B05, G10, T14
			expired, released, followed := s.key("expired"), s.key("released"), s.key("followed")
			a := s.a.take(lasting(s.ttl, s.a.mutex(expired)))
			s.b.emptyBy(s.gone(a), expired)
			s.lost(s.a.renew(&a), "Renew of an expired claim, the key free")
			s.b.empty(expired)
			s.b.take(s.b.mutex(expired))

			a = s.a.take(s.a.mutex(released))
			s.a.drop(a.Claim)
			s.lost(s.a.renew(&a), "Renew of a released claim")
			s.b.empty(released)
			s.b.take(s.b.mutex(released))

			a = s.a.take(lasting(s.ttl, s.a.mutex(followed)))
			b := s.b.takeBy(s.gone(a), s.b.mutex(followed))
			s.b.drop(b.Claim)
			s.lost(s.a.renew(&a), "Renew of an expired claim, the key held and free again since")
			s.b.empty(followed)
		}},
		{"never_grants", func(s *stage) {
			key := s.key("unknown")
			stranger := hold{Claim: s.a.mutex(key)}
			s.lost(s.a.renew(&stranger), "Renew of a claim that was never sent")
			stranger.Grant.Token = 7
			s.lost(s.a.renew(&stranger), "Renew with a token that was never granted")
			s.b.empty(key)
			s.b.take(s.b.mutex(key))

			key = s.key("waiting")
			a := s.a.take(s.a.mutex(key))
			waiting := hold{Claim: queued(s.b.mutex(key))}
			s.b.refuse(waiting.Claim)
			s.lost(s.b.renew(&waiting), "Renew of a claim that waits")
			s.a.stillHolds(&a)
			s.a.drop(a.Claim)
			s.lost(s.b.renew(&waiting), "Renew of the next in line")
			s.b.take(waiting.Claim)
		}},
	}
}

// keep: a claim released with a Keep goes on without its holder, for so long.
func keep() []check {
	// kept releases h with a Keep, and says when, or false if h has ended.
	kept := func(s *stage, h hold, keep time.Duration) (time.Time, bool) {
		h.Keep = keep
		sent := time.Now()
		if err := s.a.release(h.Claim); err != nil {
			if time.Now().Before(h.until()) {
				s.Errorf("Release with a Keep of %v: got %v, want nil", keep, err)
			}
			return sent, false
		}
		return sent, !time.Now().After(h.until())
	}
	goesOn := func(ttl func(*stage, time.Duration) time.Duration, recipe func(*process, string) driver.Claim) func(*stage) {
		return func(s *stage) {
			s.patiently(func(base time.Duration, key string) bool {
				a := s.a.take(lasting(ttl(s, base), recipe(s.a, key)))
				sent, ok := kept(s, a, 3*base)
				if !ok {
					return false
				}
				answered := time.Now()
				s.lost(s.a.renew(&a), "Renew after a Release with Keep")
				_, err := s.a.try(a.Claim)
				s.lost(err, "Acquire after a Release with Keep")
				s.a.drop(a.Claim) // again: no error, and no effect
				b := s.b.takeBy(answered.Add(3*base+s.prompt), s.b.writer(key))
				s.notBefore(b.answered, sent.Add(3*base), 3*base, "end of a claim released with a Keep")
				return true
			})
		}
	}
	long := func(s *stage, _ time.Duration) time.Duration { return s.long }
	short := func(_ *stage, base time.Duration) time.Duration { return base }
	return []check{
		{"shorter_than_the_ttl", goesOn(long, (*process).mutex)},
		{"longer_than_the_ttl", goesOn(short, (*process).mutex)},
		{"of_a_share", goesOn(long, (*process).reader)},
		{"of_a_share_beyond_its_ttl", goesOn(short, (*process).reader)},
		{"wakes_at_its_end", func(s *stage) {
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			w := s.b.wait(queued(s.b.mutex(key)))
			sent, _ := kept(s, a, s.ttl)
			b := w.by(s.soon().Add(s.ttl))
			s.notBefore(b.answered, sent.Add(s.ttl), s.ttl, "grant to a waiter while the claim ahead was kept")
		}},
		{"not_in_line", func(s *stage) {
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			waiting := queued(s.b.mutex(key))
			s.b.refuse(waiting)
			waiting.Keep = s.long
			s.b.drop(waiting)
			s.a.drop(a.Claim)
			s.b.empty(key)
			s.a.take(s.a.mutex(key))
		}},
	}
}
