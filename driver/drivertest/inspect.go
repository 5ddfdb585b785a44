package drivertest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/pawlock/pawl/driver"
)

// listing: whoever looks sees who holds, who waits, and nothing else.
func listing() []check {
	return []check{
		{"nobody", func(s *stage) {
			s.a.empty(s.key("k"))
			if got := s.list(s.a, s.corner); len(got) > 0 {
				s.Errorf("List of an unused prefix: got %q", got)
			}
		}},
		{"a_holder", func(s *stage) {
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			for h := range s.each(s.b, key) {
				if h.Key != key || h.ID != a.Grant.Holder || !h.Held || h.Foreign {
					s.Errorf("holder: got %+v, want %q, which holds %q", h, a.Grant.Holder, key)
				}
				if s.traits.Fencing && h.Grant.Token != a.Grant.Token {
					s.Errorf("token of the holder: got %d, want %d", h.Grant.Token, a.Grant.Token)
				}
				if h.Left <= 0 || h.Left > a.Grant.TTL+s.prompt {
					s.Errorf("Left of the holder: got %v, want more than 0 and about %v at most", h.Left, a.Grant.TTL)
				}
				if h.Age > time.Since(a.sent)+s.prompt {
					s.Errorf("Age of the holder: got %v, want %v at most, or a negative one", h.Age, time.Since(a.sent))
				}
				if h.Label != "" && h.Label != a.Label {
					s.Errorf("Label of the holder: got %q, want %q or none", h.Label, a.Label)
				}
				if !h.Exclusive() {
					s.Errorf("holder: got %d of %d, want an exclusive claim", h.Weight, h.Capacity)
				}
			}
		}},
		{"holders_then_waiters", func(s *stage) {
			s.needs(s.traits.Fair, "Fair")
			key := s.key("k")
			first, second := s.a.take(s.a.reader(key)), s.b.take(s.b.reader(key))
			third, fourth := queued(s.a.writer(key)), queued(s.b.reader(key))
			s.a.refuse(third)
			s.b.refuse(fourth)
			want := []string{first.Grant.Holder, second.Grant.Holder, third.ID, fourth.ID}
			st := s.b.inspect(key, 10)
			var got []string
			for i, h := range st.Holders {
				got = append(got, h.ID)
				if h.Held != (i < 2) {
					s.Errorf("number %d: got Held %v", i+1, h.Held)
				}
				if h.Exclusive() != (i == 2) {
					s.Errorf("number %d: got %d of %d", i+1, h.Weight, h.Capacity)
				}
				if i >= 2 && h.Grant.Token != 0 {
					s.Errorf("number %d waits: got the token %d, want 0", i+1, h.Grant.Token)
				}
			}
			if len(got) == 4 && got[0] == want[1] && got[1] == want[0] {
				got[0], got[1] = got[1], got[0] // readers that hold have no order that matters
			}
			if !slices.Equal(got, want) || st.Waiting != 2 {
				s.Errorf("Inspect: got %q and %d waiting, want %q and 2", got, st.Waiting, want)
			}
			for limit := range 4 {
				if st := s.b.inspect(key, limit); len(st.Holders) != limit || st.Waiting != 2 {
					s.Errorf("Inspect with the limit %d: got %d claims and %d waiting, want %d and 2", limit, len(st.Holders), st.Waiting, limit)
				}
			}
			if got := s.list(s.a, key); !slices.Equal(got, []string{key}) {
				s.Errorf("List: got %q, want %q", got, key)
			}
		}},
		{"by_prefix", func(s *stage) { // K04
			keys := []string{s.key("x"), s.key("x/1"), s.key("x/2"), s.key("xy"), s.key("y")}
			for _, key := range keys {
				s.a.take(s.a.mutex(key))
			}
			for prefix, want := range map[string][]string{
				s.corner:      keys,
				s.key("x"):    keys[:4],
				s.key("x/"):   keys[1:3],
				s.key("y"):    keys[4:],
				s.key("none"): nil,
				s.key("x*"):   nil,
			} {
				if got := s.list(s.b, prefix); !slices.Equal(got, want) {
					s.Errorf("List(%q): got %q, want %q", prefix, got, want)
				}
			}
			for range s.b.List(context.Background(), s.corner) {
				break // who has seen enough may stop
			}
		}},
		{"not_the_ended", func(s *stage) {
			gone, over, kept := s.key("gone"), s.key("over"), s.key("kept")
			s.a.drop(s.a.take(s.a.mutex(gone)).Claim)
			h := s.a.take(lasting(s.ttl, s.a.mutex(over)))
			s.a.take(s.a.mutex(kept))
			s.b.emptyBy(s.gone(h), over)
			if got := s.list(s.b, s.corner); !slices.Equal(got, []string{kept}) {
				s.Errorf("List: got %q, want only %q", got, kept)
			}
		}},
		{"ends_with_its_context", func(s *stage) {
			for i := range 5 {
				s.a.take(s.a.mutex(s.key(string(rune('a' + i)))))
			}
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			n := 0
			for range s.b.List(ctx, s.corner) {
				n++
			}
			if n > 6 { // five holders and an error at most
				s.Errorf("List with a cancelled context: got %d results", n)
			}
		}},
	}
}

// each yields the only holder of key as three calls tell it.
func (s *stage) each(p *process, key string) iter.Seq[driver.Holder] {
	return func(yield func(driver.Holder) bool) {
		if st := p.inspect(key, 10); len(st.Holders) != 1 {
			s.Errorf("Inspect(%q): got %d claims, want 1", key, len(st.Holders))
		} else if !yield(st.Holders[0]) {
			return
		}
		for h, err := range p.List(context.Background(), key) {
			if err != nil {
				s.Errorf("List(%q): %v", key, err)
			} else if !yield(h) {
				return
			}
		}
		held := p.refuse(p.mutex(key))
		held.Holder.Key = key // known to whoever asked
		yield(held.Holder)
	}
}

// revocation: a holder can be asked to let go, or be made to, and learns of it.
func revocation() []check {
	told := func(s *stage, n *driver.Notice, force bool, how string) {
		s.Helper()
		if n == nil || n.Force != force || n.By != "ops@example" || n.Why != "maintenance: 50% off {now}\n" || n.At.IsZero() {
			s.Errorf("notice in %s: got %+v, want what was said", how, n)
		}
	}
	notice := func(force bool) driver.Notice {
		return driver.Notice{Force: force, By: "ops@example", Why: "maintenance: 50% off {now}\n"}
	}
	kinds := func(s *stage, f func(key string, a hold)) {
		f(s.key("mutex"), s.a.take(s.a.mutex(s.key("mutex"))))
		r, err := s.a.try(s.a.reader(s.key("reader")))
		switch {
		case err == nil:
			f(s.key("reader"), r)
		case !errors.Is(err, driver.ErrUnsupported):
			s.Errorf("Acquire of a free key by a reader: %v", err)
		}
	}
	return []check{
		{"asked", func(s *stage) {
			kinds(s, func(key string, a hold) {
				if a.Grant.Notice != nil {
					s.Errorf("notice in a new grant: got %+v, want none", a.Grant.Notice)
				}
				if err := s.b.revoke(key, a.Grant.Holder, notice(false)); err != nil {
					s.Fatalf("Revoke: %v", err)
				}
				s.b.refuse(s.b.mutex(key)) // it is up to the holder
				s.a.stillHolds(&a)
				told(s, a.Grant.Notice, false, "the grant of the next Renew")
				s.a.drop(a.Claim)
				b := s.b.take(s.b.mutex(key))
				s.b.stillHolds(&b)
				if b.Grant.Notice != nil {
					s.Errorf("notice for the next holder: got %+v, want none", b.Grant.Notice)
				}
			})
		}},
		{"forced", func(s *stage) { // P04, S01
			kinds(s, func(key string, a hold) {
				if err := s.b.revoke(key, a.Grant.Holder, notice(true)); err != nil {
					s.Fatalf("Revoke: %v", err)
				}
				s.b.empty(key)
				for range 2 {
					lost := s.lost(s.a.renew(&a), "Renew of a claim that was ended by force")
					if lost.Reason != driver.Forced {
						s.Errorf("reason: got %q, want %q", lost.Reason, driver.Forced)
					}
					told(s, lost.Notice, true, "the LostError")
				}
				_, err := s.a.try(a.Claim)
				s.lost(err, "Acquire of a claim that was ended by force")
				s.b.empty(key)
				b := s.b.take(s.b.mutex(key))
				s.lost(s.a.release(a.Claim), "Release of a claim that was ended by force")
				lost := s.lost(s.a.renew(&a), "Renew of a claim that was ended by force, with another holder")
				told(s, lost.Notice, true, "the LostError")
				s.b.stillHolds(&b)
			})
		}},
		{"forced_after_asked", func(s *stage) {
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			if err := s.b.revoke(key, a.Grant.Holder, driver.Notice{By: "someone", Why: "please"}); err != nil {
				s.Fatalf("Revoke: %v", err)
			}
			if err := s.b.revoke(key, a.Grant.Holder, notice(true)); err != nil {
				s.Fatalf("Revoke by force: %v", err)
			}
			told(s, s.lost(s.a.renew(&a), "Renew").Notice, true, "the LostError")
		}},
		{"not_the_successor", func(s *stage) { // O08
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			s.a.drop(a.Claim)
			b := s.b.take(s.b.mutex(key))
			for _, force := range []bool{false, true} {
				s.lost(s.a.revoke(key, a.Grant.Holder, notice(force)), "Revoke of a claim that has ended")
				s.lost(s.a.revoke(key, "nobody/00000000000000000000000000000000.1", notice(force)), "Revoke of a claim that never was")
				s.lost(s.a.revoke(s.key("other"), b.Grant.Holder, notice(force)), "Revoke on another key")
			}
			s.b.stillHolds(&b)
			if b.Grant.Notice != nil {
				s.Errorf("notice meant for another: got %+v", b.Grant.Notice)
			}
			s.a.empty(s.key("other"))
		}},
		{"one_of_several", func(s *stage) {
			key := s.key("k")
			first, second := s.a.take(s.a.reader(key)), s.b.take(s.b.reader(key))
			if err := s.b.revoke(key, first.Grant.Holder, notice(true)); err != nil {
				s.Fatalf("Revoke: %v", err)
			}
			s.b.stillHolds(&second)
			s.a.refuse(s.a.writer(key))
			s.b.drop(second.Claim)
			s.a.take(s.a.writer(key))
		}},
		{"the_kept", func(s *stage) {
			key := s.key("k")
			a := s.a.take(s.a.mutex(key))
			a.Keep = s.long
			s.a.drop(a.Claim)
			s.b.refuse(s.b.mutex(key))
			if err := s.b.revoke(key, a.Grant.Holder, notice(true)); err != nil {
				s.Fatalf("Revoke of a claim released with a Keep: %v", err)
			}
			s.b.take(s.b.mutex(key))
		}},
	}
}
