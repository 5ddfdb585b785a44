package term_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/term"
)

// FuzzTerm plays events in any order against a lease and checks, after each,
// what must hold whatever the order is.
func FuzzTerm(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add([]byte{1, 2, 3, 0, 0x10, 0x23, 0x11, 0x35, 0x10, 0xf0, 0x22, 0x43})
	f.Fuzz(play)
}

// Case B07.
func TestAnyOrderOfEvents(t *testing.T) {
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		events := make([]byte, 4+r.IntN(60))
		for i := range events {
			events[i] = byte(r.Uint32())
		}
		if play(t, events); t.Failed() {
			t.Fatalf("seed %d: events %v", seed, events)
		}
	}
}

// play reads a configuration and then one event from each byte: what in the low
// three bits, and how much in the high five.
func play(t *testing.T, events []byte) {
	if len(events) < 4 {
		return
	}
	ttl := []time.Duration{10 * ms, sec, 10 * sec, time.Hour}[events[0]%4]
	cfg := term.Config{
		RenewEvery: ttl / time.Duration(2+events[1]%8),
		Drift:      []float64{0.001, 0.01, 0.3, 0.49}[events[1]>>3%4],
		Grace:      []time.Duration{0, 0, ttl / 2, 2 * ttl}[events[2]%4],
		MaxHold:    []time.Duration{0, 0, ttl / 2, 5 * ttl}[events[2]>>2%4],
	}
	now := term.Instant{At: time.Duration(events[3]) * ttl / 200}
	g := &game{t: t, cfg: cfg, now: now, sent: []term.Instant{{}}}
	var ok bool
	if g.tm, ok = term.Start(cfg, ttl+cfg.Grace, g.sent[0], now); !ok {
		return
	}
	g.promised(ttl+cfg.Grace, g.sent[0])
	g.check()
	for _, e := range events[4:] {
		g.event(ttl, int(e&7), time.Duration(e>>3))
		g.check()
	}
	g.ends()
}

type game struct {
	t     *testing.T
	cfg   term.Config
	tm    term.Term
	now   term.Instant
	sent  []term.Instant // of each request, in order
	bound time.Duration  // what the store promised at most
	end   time.Duration  // the last that End said
	lost  bool           // Lose was told, or it was denied
	over  bool           // lost or released
}

func (g *game) promised(ttl time.Duration, sent term.Instant) {
	ttl -= g.cfg.Grace
	g.bound = max(g.bound, sent.At+ttl-time.Duration(g.cfg.Drift*float64(ttl))-2*ms)
}

func (g *game) event(ttl time.Duration, what int, much time.Duration) {
	switch what {
	case 0, 1: // time passes
		g.now.At += much * ttl / 60
	case 2: // the machine sleeps
		g.now.At += much * ttl / 30
		g.now.Slept += much * ttl / 30
	case 3: // the keeper has a look
		g.due()
	case 4: // a renewal is answered, any of those that were sent
		i := len(g.sent) - 1 - int(much)%len(g.sent)
		given := ttl + g.cfg.Grace
		if much&16 != 0 {
			given -= ttl / 4
		}
		alive := !g.over && g.tm.Left(g.now) > 0
		accepted := g.tm.Renewed(given, g.sent[i], g.now, (much-16)*g.cfg.RenewEvery/160)
		if accepted != alive {
			g.t.Errorf("renewal accepted: got %v, want %v", accepted, alive)
		}
		if accepted {
			g.promised(given, g.sent[i])
		} else if !g.over {
			g.lost, g.over = true, true
		}
	case 5:
		g.tm.Failed(g.now)
	case 6: // the store says no, or the holder lets go: rarely
		switch {
		case much == 31:
			if !g.over {
				g.lost, g.over = true, true
			}
			g.tm.Deny(driver.Stolen)
		case much == 30:
			alive := !g.over && g.tm.Left(g.now) > 0
			released := g.over && !g.lost
			if got := g.tm.Release(g.now); got != (alive || released) {
				g.t.Errorf("release: got %v, want %v", got, alive || released)
			}
			g.lost = g.lost || !alive && !released
			g.over = true
		}
	case 7:
		g.sent = append(g.sent, g.now)
	}
}

// due does what the keeper does, and checks that it comes to an end.
func (g *game) due() {
	for range 2 {
		switch action, next := g.tm.Due(g.now); action {
		case term.Lose:
			if g.over {
				g.t.Error("loss told twice, or after the release")
			}
			g.lost, g.over = true, true
		case term.Renew:
			g.sent = append(g.sent, g.now)
			if timeout := g.tm.Try(g.now); timeout <= 0 {
				g.t.Errorf("patience of %v for a renewal", timeout)
			}
			continue // it must not be due again now
		default:
			if !g.over && next <= g.now.At {
				g.t.Errorf("due again at %v, now is %v", next, g.now.At)
			}
		}
		return
	}
	g.t.Error("a renewal is due twice at one moment")
}

func (g *game) check() {
	tm, now := &g.tm, g.now
	left := tm.Left(now)
	if left > 0 && now.At+left > g.bound {
		g.t.Errorf("valid until %v, beyond what the store promised, %v", now.At+left, g.bound)
	}
	if limit := g.cfg.MaxHold; limit > 0 && left > 0 && now.At+left > limit {
		g.t.Errorf("valid until %v, beyond max-hold", now.At+left)
	}
	if tm.Deadline() > g.bound || tm.End() > tm.Deadline() {
		g.t.Errorf("end %v, deadline %v, promised %v: want them in order", tm.End(), tm.Deadline(), g.bound)
	}
	if tm.End() < g.end {
		g.t.Errorf("the end has moved from %v to %v", g.end, tm.End())
	}
	g.end = tm.End()
	if g.over && left > 0 {
		g.t.Errorf("%v left of a lease that is over", left)
	}
	if want := map[bool]term.State{true: term.Lost, false: term.Released}[g.lost]; g.over && tm.State() != want {
		g.t.Errorf("state: got %v, want %v", tm.State(), want)
	}
	if !g.over && tm.State() != term.Live {
		g.t.Errorf("state: got %v, want live", tm.State())
	}
}

// ends lets the keeper go on alone: the loss is told at the end, no later.
func (g *game) ends() {
	for range 1000 {
		if g.due(); g.over {
			break
		}
		_, g.now.At = g.tm.Due(g.now)
	}
	if !g.over {
		g.t.Error("the lease does not end")
	}
	if g.lost && g.tm.Reason() == "" {
		g.t.Error("lost without a reason")
	}
	g.check()
}
