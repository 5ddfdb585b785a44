package drivertest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pawlock/pawl/driver"
)

// fencing: every token is greater than all that were granted before on the key.
func fencing() []check {
	fenced := func(f func(*stage)) func(*stage) {
		return func(s *stage) {
			s.needs(s.traits.Fencing, "Fencing")
			f(s)
		}
	}
	return []check{
		{"rises", fenced(func(s *stage) {
			key := s.key("k")
			var last uint64
			for i := range 20 {
				p := []*process{s.a, s.b}[i%2]
				h := p.take(p.mutex(key))
				s.rises(&last, h, "after a release")
				p.drop(h.Claim)
			}
		})},
		{"however_a_claim_ends", fenced(func(s *stage) { // R02
			key := s.key("k")
			var last uint64
			h := s.a.take(lasting(s.ttl, s.a.mutex(key)))
			s.rises(&last, h, "at first")
			h = s.b.takeBy(s.gone(h), s.b.mutex(key))
			s.rises(&last, h, "after an expiry")
			if err := s.a.revoke(key, h.Grant.Holder, driver.Notice{Force: true}); err != nil {
				s.Fatalf("Revoke: %v", err)
			}
			h = s.a.takeBy(s.soon(), s.a.mutex(key))
			s.rises(&last, h, "after a revocation")
			h.Keep = s.ttl
			s.a.drop(h.Claim)
			h = s.b.takeBy(s.soon().Add(s.ttl), s.b.mutex(key))
			s.rises(&last, h, "after a release with Keep")
			s.b.drop(h.Claim)
			s.store.Sleep(2 * s.ttl)
			h = s.a.take(s.a.mutex(key))
			s.rises(&last, h, "after a while with no claim")
		})},
		{"of_shares", fenced(func(s *stage) { // R04
			key := s.key("k")
			var last uint64
			for i := range 6 {
				p := []*process{s.a, s.b}[i%2]
				s.rises(&last, p.take(p.reader(key)), "while other readers hold")
			}
		})},
		{"of_those_who_waited", fenced(func(s *stage) {
			key := s.key("k")
			var last uint64
			holder := s.a.take(s.a.mutex(key))
			waits := s.b.wait(queued(s.b.mutex(key)))
			s.rises(&last, holder, "at first")
			s.a.drop(holder.Claim)
			h := waits.by(s.soon())
			s.rises(&last, h, "to one who waited")
			s.b.drop(h.Claim)
			s.rises(&last, s.a.take(s.a.mutex(key)), "after that")
		})},
		{"told_to_others", fenced(func(s *stage) {
			key := s.key("k")
			h := s.a.take(s.a.mutex(key))
			if last := s.b.refuse(s.b.mutex(key)).Last; last != h.Grant.Token && last != 0 {
				s.Errorf("Last in the HeldError: got %d, want the holder's token, %d, or 0", last, h.Grant.Token)
			}
			if last := s.b.inspect(key, 1).Last; last != h.Grant.Token {
				s.Errorf("Last in the State: got %d, want the holder's token, %d", last, h.Grant.Token)
			}
		})},
		{"contended", fenced(func(s *stage) {
			key := s.key("k")
			const clients, each = 6, 5
			var (
				history History
				all     sync.WaitGroup
			)
			for i := range clients {
				p := []*process{s.a, s.b}[i%2]
				all.Go(func() {
					for n := 0; n < each; {
						h, err := p.try(p.mutex(key))
						if err != nil {
							time.Sleep(time.Millisecond)
							continue
						}
						n++
						rec := history.Granted(h.Claim, h.sent, h.answered)
						history.Ended(rec, time.Now())
						p.release(h.Claim)
					}
				})
			}
			all.Wait()
			for _, v := range history.Check() {
				s.Error(v)
			}
		})},
	}
}

// rises checks that h's token is above *last, and raises that.
func (s *stage) rises(last *uint64, h hold, when string) {
	s.Helper()
	if h.Grant.Token <= *last {
		s.Errorf("token granted %s: got %d, want more than %d", when, h.Grant.Token, *last)
	}
	*last = max(*last, h.Grant.Token+uint64(h.Grant.Block)-1)
}

// floors: a caller can lift the counter, and not to its end.
func floors() []check {
	fenced := func(f func(*stage)) func(*stage) {
		return func(s *stage) {
			s.needs(s.traits.Fencing, "Fencing")
			f(s)
		}
	}
	return []check{
		{"renew_raises", fenced(func(s *stage) {
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			token := a.Grant.Token
			a.Floor = token + 1_000_000
			s.a.stillHolds(&a)
			if a.Grant.Token != token {
				s.Errorf("token after a Renew with a floor: got %d, want %d as before", a.Grant.Token, token)
			}
			again := a
			again.Floor = token + 1 // never back
			s.a.stillHolds(&again)
			s.a.drop(a.Claim)
			if b := s.b.take(s.b.mutex(key)); b.Grant.Token <= a.Floor {
				s.Errorf("token after a Renew with the floor %d: got %d, want more", a.Floor, b.Grant.Token)
			}
		})},
		{"candidate", fenced(func(s *stage) {
			key := s.key("k")
			first := s.a.take(s.a.mutex(key))
			s.a.drop(first.Claim)
			c := s.b.mutex(key)
			c.Floor = first.Grant.Token + 500_000 // half a second, in the microseconds that tokens count
			b := s.b.take(c)
			if b.Grant.Token < c.Floor {
				s.Errorf("token for the candidate %d: got %d, want no less", c.Floor, b.Grant.Token)
			}
			s.b.drop(b.Claim)
			c = s.a.mutex(key)
			c.Floor = 1 // long passed
			if a := s.a.take(c); a.Grant.Token <= b.Grant.Token {
				s.Errorf("token for a candidate that has been passed: got %d, want more than %d", a.Grant.Token, b.Grant.Token)
			}
		})},
		{"never_wraps", fenced(func(s *stage) {
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			last := a.Grant.Token
			a.Floor = 1<<53 - 2 // as far as tokens are exact everywhere
			if err := s.a.renew(&a); err == nil {
				last = a.Floor
			}
			s.a.drop(a.Claim)
			for range 3 {
				b, err := s.b.try(s.b.mutex(key))
				switch {
				case err == nil:
					s.rises(&last, b, "at the end of the counter")
					s.b.drop(b.Claim)
				case errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrLost):
					s.Errorf("Acquire at the end of the counter: got %v, want a grant or an error that tells", err)
				}
			}
		})},
		{"absurd_candidate", fenced(func(s *stage) {
			key := s.key("k")
			const absurd = 1 << 53
			for range 2 { // on an unknown key, and on a known one
				c := s.a.mutex(key)
				c.Floor = absurd
				a := s.a.take(c)
				if a.Grant.Token >= absurd {
					s.Fatalf("token for a candidate far in the future: got %d", a.Grant.Token)
				}
				s.a.drop(a.Claim)
				b := s.b.take(s.b.mutex(key))
				if b.Grant.Token <= a.Grant.Token {
					s.Errorf("token after an absurd candidate: got %d, want more than %d", b.Grant.Token, a.Grant.Token)
				}
				s.b.drop(b.Claim)
			}
		})},
	}
}

// blocks: the tokens of a block belong to one grant.
func blocks() []check {
	fenced := func(f func(*stage)) func(*stage) {
		return func(s *stage) {
			s.needs(s.traits.Fencing, "Fencing")
			f(s)
		}
	}
	of := func(block int, c driver.Claim) driver.Claim {
		c.Block = block
		return c
	}
	return []check{
		{"reserved", fenced(func(s *stage) {
			key := s.key("k")
			var last uint64
			for _, n := range []int{16, 0, 1, 100, driver.MaxBlock, 2} {
				a := s.a.take(of(n, s.a.mutex(key)))
				if want := max(n, 1); s.traits.Blocks && a.Grant.Block != want {
					s.Errorf("tokens in a grant: got %d, want the %d asked for", a.Grant.Block, want)
				}
				s.rises(&last, a, "after a block")
				s.a.drop(a.Claim)
			}
		})},
		{"same_when_repeated", fenced(func(s *stage) {
			key := s.key("k")
			a := s.a.take(of(16, s.a.mutex(key)))
			again := s.a.take(a.Claim)
			if again.Grant.Token != a.Grant.Token || again.Grant.Block != a.Grant.Block {
				s.Errorf("repeated Acquire of a block: got %d+%d, want %d+%d", again.Grant.Token, again.Grant.Block, a.Grant.Token, a.Grant.Block)
			}
			last := a.Grant.Token + uint64(a.Grant.Block) - 1
			s.a.stillHolds(&a)
			if a.Grant.Token+uint64(a.Grant.Block)-1 > last {
				s.Errorf("Renew of a block: got %d+%d, which goes beyond %d", a.Grant.Token, a.Grant.Block, last)
			}
			s.a.drop(a.Claim)
			s.rises(&last, s.b.take(s.b.mutex(key)), "after a block that was asked for twice")
		})},
		{"of_shares", fenced(func(s *stage) {
			key := s.key("k")
			var holds []hold
			for range 4 {
				holds = append(holds, s.a.take(of(8, s.a.reader(key))))
			}
			slices.SortFunc(holds, func(x, y hold) int { return int(int64(x.Grant.Token) - int64(y.Grant.Token)) })
			for i, h := range holds[1:] {
				if before := holds[i].Grant; h.Grant.Token < before.Token+uint64(before.Block) {
					s.Errorf("blocks of two readers: got %d+%d and %d+%d, which overlap", before.Token, before.Block, h.Grant.Token, h.Grant.Block)
				}
			}
		})},
	}
}
