package recipetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlock/pawl"
)

// askRelease: a holder is asked, and lets go when it can.
func askRelease() []check {
	return []check{
		{"the_holder_hears_who_and_why", func(s *stage) {
			lease := s.acquire(s.a.Mutex(s.key("k")))
			bystander := s.acquire(s.a.Mutex(s.key("other")))
			granted := make(chan got, 1)
			s.start("next", s.b.Mutex(s.key("k")), granted)
			if err := s.b.AskRelease(s.ctx, s.key("k"), "maintenance at noon"); err != nil {
				s.Fatalf("AskRelease: %v", err)
			}
			receive(s, lease.Revoked(), "the request")
			if n := lease.Notice(); n == nil || n.Force || n.By != "b" || n.Why != "maintenance at noon" || n.At.IsZero() {
				s.Errorf("notice: got %+v, want who, why and when", n)
			}
			if err := lease.Renew(s.ctx); err != nil {
				s.Errorf("a lease that was asked for: %v", err)
			}
			s.release(lease)
			s.release(s.next(granted, "next"))
			select {
			case <-bystander.Revoked():
				s.Errorf("another key: got a notice %+v", bystander.Notice())
			default:
			}
			s.release(bystander)
		}},
		{"all_holders_are_asked", func(s *stage) {
			if !s.traits.Counting {
				s.Skip("the store has one holder at a time")
			}
			x, y := s.acquire(s.a.ReadLock(s.key("k"))), s.acquire(s.b.ReadLock(s.key("k")))
			if err := s.b.AskRelease(s.ctx, s.key("k"), "a writer waits"); err != nil {
				s.Fatalf("AskRelease: %v", err)
			}
			receive(s, x.Revoked(), "the request to the first")
			receive(s, y.Revoked(), "the request to the second")
			s.release(x)
			s.release(y)
		}},
		{"nobody_to_ask_is_no_error", func(s *stage) {
			if err := s.a.AskRelease(s.ctx, s.key("k"), ""); err != nil {
				s.Errorf("a key that nobody holds: %v", err)
			}
			lease := s.acquire(s.a.Mutex(s.key("k")))
			if err := lease.Renew(s.ctx); err != nil || lease.Notice() != nil {
				s.Errorf("who came later: got %v and notice %+v, want none", err, lease.Notice())
			}
			s.release(lease)
		}},
	}
}

// forceRelease: a holder is put out, and stays out.
func forceRelease() []check {
	return []check{
		{"it_sticks_and_the_next_holds_at_once", func(s *stage) { // S01, S02
			const ttl = 30 * time.Second
			patient := s.client(&pawl.Options{Label: "patient", TTL: ttl})
			lease := s.acquire(patient.Mutex(s.key("k")))
			granted := make(chan got, 1)
			s.start("next", s.b.Mutex(s.key("k")), granted)
			s.waiting(s.key("k"), 1)
			forced := time.Now()
			if err := s.b.ForceRelease(s.ctx, s.key("k"), lease.Holder(), "it hangs"); err != nil {
				s.Fatalf("ForceRelease: %v", err)
			}
			next := s.next(granted, "next")
			if took := time.Since(forced); took > ttl/2 {
				s.Errorf("the next: after %v, want at once and not when the TTL of %v is over", took, ttl)
			}
			if next.Token() <= lease.Token() {
				s.Errorf("token of the next: got %d, want more than %d", next.Token(), lease.Token())
			}
			for range 3 {
				s.wantForced(lease.Renew(s.ctx), "renewal")
			}
			s.wantForced(context.Cause(lease.Context()), "cause of the context's end")
			s.wantForced(lease.Release(s.ctx), "release")
			if err := next.Renew(s.ctx); err != nil {
				s.Errorf("the next, after all that: %v", err)
			}
			s.release(next)
		}},
		{"who_and_why_is_on_record", func(s *stage) { // O08
			lease := s.acquire(s.a.Mutex(s.key("k")))
			if err := s.b.ForceRelease(s.ctx, s.key("k"), lease.Holder(), "it hangs"); err != nil {
				s.Fatalf("ForceRelease: %v", err)
			}
			receive(s, lease.Context().Done(), "the end of the lease, without a call")
			st, err := s.a.Inspect(s.ctx, s.key("k"))
			if err != nil || len(st.Holders) != 0 || len(st.Notices) != 1 {
				s.Fatalf("got %+v, %v, want no holder and one notice", st, err)
			}
			if n := st.Notices[0]; !n.Force || n.By != "b" || n.Why != "it hangs" || n.At.IsZero() {
				s.Errorf("notice: got %+v, want who, why and when", n)
			}
			if err := s.b.ForceRelease(s.ctx, s.key("k"), lease.Holder(), "again"); !errors.Is(err, pawl.ErrLost) {
				s.Errorf("forcing who holds no more: got %v, want ErrLost", err) // O08: no crash, and nobody else
			}
		}},
	}
}

func (s *stage) wantForced(err error, what string) {
	s.Helper()
	var lost *pawl.LostError
	if !errors.As(err, &lost) || lost.Reason != "forced" || lost.Notice == nil || lost.Notice.By != "b" || lost.Notice.Why != "it hangs" {
		s.Errorf("%s: got %v, want forced by b, it hangs", what, err)
	}
}

// grace: a delay after an unclean end, and after no other.
func grace() []check {
	return []check{
		{"after_a_crash_and_not_after_a_release", func(s *stage) { // S05
			wait := 2 * s.ttl
			c, line := s.severable(&pawl.Options{Label: "crashes", Grace: wait})
			s.release(s.acquire(c.Mutex(s.key("k"))))
			lease, err := s.a.Mutex(s.key("k")).TryAcquire(s.ctx)
			if err != nil {
				s.Fatalf("after a clean release: %v", err)
			}
			s.release(lease)

			began := time.Now()
			lost := s.acquire(c.Mutex(s.key("k")))
			line.cut.Store(true)
			receive(s, lost.Context().Done(), "the end of the lease")
			told := time.Now()
			next := s.acquire(s.b.Mutex(s.key("k")))
			s.notBefore(time.Now(), began, s.ttl+wait, "the key of a process that crashed")
			s.notBefore(time.Now(), told, wait, "the key, after its holder knew")
			s.release(next)
		}},
	}
}

// once: one run in a period, be it released, or be its process dead.
func once() []check {
	return []check{
		{"one_of_many_runs", func(s *stage) {
			key := s.key("k")
			var runs atomic.Int32
			var all sync.WaitGroup
			for i := range 8 {
				c := []*pawl.Client{s.a, s.b}[i%2]
				all.Go(func() {
					s.eventually("an answer", func() bool { // one that never came has run nothing
						ran, err := c.Once(key, 30*time.Second).Do(s.ctx, func(context.Context, *pawl.Lease) error {
							runs.Add(1)
							return nil
						})
						if ran && err != nil {
							s.Errorf("a run: %v", err)
						}
						return ran || err == nil
					})
				})
			}
			all.Wait()
			if n := runs.Load(); n != 1 {
				s.Errorf("got %d runs, want 1", n)
			}
		}},
		{"the_period_is_over_when_it_is", func(s *stage) {
			period := 2 * s.ttl
			c, _ := s.severable(&pawl.Options{Label: "short", TTL: s.ttl})
			began := time.Now()
			ran, err := c.Once(s.key("k"), period).Do(s.ctx, func(context.Context, *pawl.Lease) error { return nil })
			if !ran || err != nil {
				s.Fatalf("the first: got %v, %v, want a run", ran, err)
			}
			s.release(s.acquire(s.b.Mutex(s.key("k"))))
			s.notBefore(time.Now(), began, period, "the next")
		}},
		{"a_crash_uses_it_up", func(s *stage) {
			period := 3 * s.ttl
			c, line := s.severable(&pawl.Options{Label: "crashes"})
			began := time.Now()
			_, _ = c.Once(s.key("k"), period).Do(s.ctx, func(context.Context, *pawl.Lease) error {
				line.cut.Store(true)
				return nil
			})
			s.release(s.acquire(s.b.Mutex(s.key("k"))))
			s.notBefore(time.Now(), began, period, "the next")
		}},
		{"minimum_hold", func(s *stage) {
			c, _ := s.severable(&pawl.Options{Label: "short", TTL: s.ttl, MinHold: 2 * s.ttl})
			began := time.Now()
			s.release(s.acquire(c.Mutex(s.key("k"))))
			s.release(s.acquire(s.b.Mutex(s.key("k"))))
			s.notBefore(time.Now(), began, 2*s.ttl, "a key that was released")
		}},
	}
}
