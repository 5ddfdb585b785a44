package drivertest

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
)

// patience bounds one exchange with the store, so that a store which hangs
// fails the suite instead of stopping it.
const patience = 30 * time.Second

// A stage is where one check plays: a store, or a corner of one, and two
// processes that use it.
type stage struct {
	*testing.T
	store  Store
	traits driver.Traits
	ttl    time.Duration // of claims that are left to end
	long   time.Duration // of claims that don't end while the check runs
	prompt time.Duration // see Harness.Prompt
	corner string        // begins every key of the check
	a, b   *process
}

// A process is one client program, with an identity of its own.
type process struct {
	driver.Backend
	stage *stage
	label string
	ids   *driver.Identity
	close func() error // Close, the first time
}

// A hold is a claim that was granted, and when.
type hold struct {
	driver.Claim
	sent     time.Time // the last request that restarted its TTL
	answered time.Time // and the answer
}

func newStage(t *testing.T, h Harness) *stage {
	s := &stage{T: t, store: h.New(t), ttl: h.TTL, prompt: h.Prompt, corner: "t" + rand.Text() + "-"}
	if s.store.Sleep == nil {
		s.store.Sleep = time.Sleep
	}
	s.a, s.b = s.process("a"), s.process("b")
	s.traits = s.a.Traits()
	s.long = max(time.Minute, 30*s.ttl)
	if m := s.traits.MaxTTL; m > 0 {
		s.long = min(s.long, m)
	}
	return s
}

func (s *stage) process(label string) *process {
	b := s.store.Connect()
	p := &process{Backend: b, stage: s, label: label, ids: driver.NewIdentity(label), close: sync.OnceValue(b.Close)}
	s.Cleanup(func() {
		if err := p.close(); err != nil {
			s.Errorf("Close: %v", err)
		}
	})
	return p
}

// key returns the key of the check that ends in name.
func (s *stage) key(name string) string { return s.corner + name }

// needs skips the check unless the backend claims the trait.
func (s *stage) needs(claimed bool, trait string) {
	s.Helper()
	if !claimed {
		s.Skipf("%s does not claim %s", s.traits.Name, trait)
	}
}

func (p *process) claim(key string, weight, capacity int) driver.Claim {
	return driver.Claim{Key: key, ID: p.ids.Next(), Label: p.label, Weight: weight, Capacity: capacity, TTL: p.stage.long}
}

func (p *process) mutex(key string) driver.Claim  { return p.claim(key, 1, 1) }
func (p *process) reader(key string) driver.Claim { return p.claim(key, 1, driver.Unlimited) }
func (p *process) writer(key string) driver.Claim {
	return p.claim(key, driver.Unlimited, driver.Unlimited)
}

// lasting returns c with another TTL.
func lasting(ttl time.Duration, c driver.Claim) driver.Claim {
	c.TTL = ttl
	return c
}

// queued returns c as a claim that stays in line.
func queued(c driver.Claim) driver.Claim {
	c.Queue = true
	return c
}

// try makes one attempt.
func (p *process) try(c driver.Claim) (hold, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h := hold{Claim: c, sent: time.Now()}
	g, err := p.Acquire(ctx, c)
	h.Grant, h.answered = g, time.Now()
	return h, err
}

// take makes one attempt, which must succeed. A share that the backend does
// not keep skips the check.
func (p *process) take(c driver.Claim) hold {
	s := p.stage
	s.Helper()
	h, err := p.try(c)
	switch {
	case errors.Is(err, driver.ErrUnsupported) && !c.Exclusive() && !s.traits.Counting:
		s.Skipf("%s does not keep shares", s.traits.Name)
	case err != nil:
		s.Fatalf("Acquire of a free %q, %d of %d: got %v, want a grant", c.Key, c.Weight, c.Capacity, describe(err))
	}
	s.sound(h)
	return h
}

// takeBy attempts again and again, without Wait, until c is granted, which has
// to be by the deadline.
func (p *process) takeBy(deadline time.Time, c driver.Claim) hold {
	s := p.stage
	s.Helper()
	for {
		h, err := p.try(c)
		switch {
		case err == nil:
			s.sound(h)
			return h
		case !errors.Is(err, driver.ErrHeld):
			s.Fatalf("Acquire of %q: got %v, want a grant or ErrHeld", c.Key, err)
		case h.sent.After(deadline):
			s.Fatalf("Acquire of %q: still %v, %v after it had to be free", c.Key, describe(err), h.sent.Sub(deadline))
		}
		s.store.Sleep(s.ttl / 20)
	}
}

// sound checks what every grant has to say.
func (s *stage) sound(h hold) {
	s.Helper()
	g := h.Grant
	if g.TTL < h.TTL || g.Holder == "" || g.Block < 1 || g.Block > max(1, h.Block) || s.traits.Fencing && g.Token == 0 {
		s.Errorf("grant for %+v: got %+v, want the TTL asked for or more, a holder, 1 to %d tokens", h.Claim, g, max(1, h.Block))
	}
}

// refuse makes one attempt, which must find no room.
func (p *process) refuse(c driver.Claim) *driver.HeldError {
	s := p.stage
	s.Helper()
	_, err := p.try(c)
	var held *driver.HeldError
	if !errors.As(err, &held) || !errors.Is(err, driver.ErrHeld) {
		s.Fatalf("Acquire of %q, %d of %d, with no room: got %v, want a *HeldError", c.Key, c.Weight, c.Capacity, describe(err))
	}
	return held
}

// renew restarts the TTL of h, and returns the backend's error.
func (p *process) renew(h *hold) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	sent := time.Now()
	g, err := p.Renew(ctx, h.Claim)
	if err == nil {
		h.Grant, h.sent, h.answered = g, sent, time.Now()
	}
	return err
}

// stillHolds checks by a renewal that h goes on.
func (p *process) stillHolds(h *hold) {
	p.stage.Helper()
	if err := p.renew(h); err != nil {
		p.stage.Fatalf("Renew of the holder of %q: got %v, want a grant", h.Key, err)
	}
}

// release withdraws c, and returns the backend's error.
func (p *process) release(c driver.Claim) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return p.Release(ctx, c)
}

// drop withdraws c, which must succeed.
func (p *process) drop(c driver.Claim) {
	p.stage.Helper()
	if err := p.release(c); err != nil {
		p.stage.Fatalf("Release of %q: got %v, want nil", c.Key, err)
	}
}

func (p *process) revoke(key, id string, n driver.Notice) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return p.Revoke(ctx, key, id, n)
}

func (p *process) inspect(key string, limit int) driver.State {
	p.stage.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	st, err := p.Inspect(ctx, key, limit)
	if err != nil {
		p.stage.Fatalf("Inspect(%q): %v", key, err)
	}
	return st
}

// empty checks that there is no trace of any claim on key.
func (p *process) empty(key string) {
	p.stage.Helper()
	if st := p.inspect(key, 100); len(st.Holders) > 0 || st.Waiting > 0 {
		p.stage.Errorf("Inspect(%q): got %d claims, %d waiting, want no trace of any: %+v", key, len(st.Holders), st.Waiting, st.Holders)
	}
}

// emptyBy waits until nobody holds key, which has to be by the deadline.
func (p *process) emptyBy(deadline time.Time, key string) {
	s := p.stage
	s.Helper()
	for len(p.inspect(key, 1).Holders) > 0 {
		if time.Now().After(deadline) {
			s.Fatalf("Inspect(%q): still held, %v after it had to be free", key, time.Since(deadline))
		}
		s.store.Sleep(s.ttl / 20)
	}
}

// lost checks that err says so.
func (s *stage) lost(err error, what string) *driver.LostError {
	s.Helper()
	var lost *driver.LostError
	if !errors.As(err, &lost) || !errors.Is(err, driver.ErrLost) {
		s.Errorf("%s: got %v, want a *LostError", what, describe(err))
		return &driver.LostError{}
	}
	return lost
}

// until is when h may end: its TTL after the request was sent.
func (h hold) until() time.Time { return h.sent.Add(h.Grant.TTL) }

// gone is when h must have ended: its TTL after the answer, and what the store
// may take to notice.
func (s *stage) gone(h hold) time.Time { return h.answered.Add(h.Grant.TTL + s.prompt) }

// notBefore checks that something which came to be known at got did not happen
// before want. What the clocks of the test and the store may differ by in such
// a short time is allowed.
func (s *stage) notBefore(got, want time.Time, span time.Duration, what string) {
	s.Helper()
	if early := want.Sub(got); early > span/100+2*time.Millisecond {
		s.Errorf("%s: came %v early", what, early)
	}
}

// patiently calls f with a longer and longer TTL until it returns true. f
// returns false if the machine was so slow that it could not see what it had
// to; a store that is wrong it fails.
func (s *stage) patiently(f func(ttl time.Duration, key string) bool) {
	s.Helper()
	ttl := s.ttl
	for range 7 {
		if f(ttl, s.key(ttl.String())) {
			return
		}
		ttl *= 2
	}
	s.Fatalf("not one of 7 attempts went without a long pause, the last with a TTL of %v", ttl/2)
}

// knowsTheTime makes requests of p until one was answered within a share of ttl:
// a backend may learn the store's clock from an answer, and is wrong by as much
// as that was late.
func (p *process) knowsTheTime(ttl time.Duration) bool {
	p.stage.Helper()
	for range 20 {
		sent := time.Now()
		p.drop(p.take(p.mutex(p.stage.key("clock"))).Claim)
		if time.Since(sent) < ttl/5 {
			return true
		}
	}
	return false
}

// soon is when something that ought to come at once must have come.
func (s *stage) soon() time.Time { return time.Now().Add(s.prompt) }

// describe prints an error that may be nil.
func describe(err error) string {
	if err == nil {
		return "a grant, or no error"
	}
	return err.Error()
}
