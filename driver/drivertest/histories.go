package drivertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawlock/pawl/driver"
)

// histories: whatever concurrent clients do, what they saw is sound.
func histories() []check {
	exclusive := func(p *process, key string, _ *rand.Rand) driver.Claim { return p.mutex(key) }
	mixed := func(p *process, key string, r *rand.Rand) driver.Claim {
		if r.IntN(4) == 0 {
			return p.writer(key)
		}
		return p.reader(key)
	}
	weighted := func(p *process, key string, r *rand.Rand) driver.Claim {
		return p.claim(key, 1+r.IntN(4), 4)
	}
	return []check{
		{"exclusive", func(s *stage) { s.play(exclusive) }},
		{"readers_and_writers", func(s *stage) {
			s.a.drop(s.a.take(s.a.reader(s.key("probe"))).Claim)
			s.play(mixed)
		}},
		{"semaphore", func(s *stage) {
			s.needs(s.traits.Counting, "Counting")
			s.play(weighted)
		}},
	}
}

// A register is a resource that checks tokens, as the ones that users guard.
type register struct {
	mu      sync.Mutex
	history *History
	top     map[string]uint64 // the greatest token seen, by key; guarded by mu
}

func (r *register) write(key string, token uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	ok := token >= r.top[key]
	if ok {
		r.top[key] = token
	}
	r.history.Wrote(Write{Key: key, Token: token, Accepted: ok})
	return ok
}

// play lets clients acquire, hold, renew, release, cancel and crash at random,
// and checks what they saw.
func (s *stage) play(recipe func(*process, string, *rand.Rand) driver.Claim) {
	const clients, most, least = 6, 60, 4
	var (
		history History
		all     sync.WaitGroup
		seed    = rand.Uint64()
		guard   = &register{history: &history, top: make(map[string]uint64)}
		keys    = []string{s.key("x"), s.key("y")}
		end     = time.Now().Add(min(8*s.ttl, 4*time.Second+s.ttl))
	)
	s.Logf("seed %d", seed)
	for i := range clients {
		p := []*process{s.a, s.b}[i%2]
		c := &client{process: p, rand: rand.New(rand.NewPCG(seed, uint64(i))), history: &history, guard: guard}
		all.Go(func() {
			for n := 0; n < least || n < most && time.Now().Before(end); n++ {
				c.once(recipe(p, keys[c.rand.IntN(len(keys))], c.rand))
			}
		})
	}
	all.Wait()
	for _, v := range history.Check() {
		if s.traits.Fencing || v.Property == NoOverlap {
			s.Error(v)
		}
	}
	if n := history.Holds(); n < clients {
		s.Errorf("%d clients got %d grants in all", clients, n)
	}
	for _, key := range keys { // the crashed are gone by now, or will be soon
		s.a.emptyBy(s.soon().Add(s.ttl), key)
	}
}

// A client is one goroutine of a process, with its own dice.
type client struct {
	*process
	rand    *rand.Rand
	history *History
	guard   *register
}

// within returns a random duration below share of the TTL.
func (c *client) within(share float64) time.Duration {
	return time.Duration(c.rand.Float64() * share * float64(c.stage.ttl))
}

// once acquires, uses the lock, and ends the hold in one way or another.
func (c *client) once(claim driver.Claim) {
	s := c.stage
	claim.TTL = s.ttl
	claim.Queue = c.rand.IntN(3) > 0
	claim.Block = []int{0, 1, driver.MaxBlock}[c.rand.IntN(3)]
	h, ok := c.await(claim)
	if !ok {
		return
	}
	id := c.history.Granted(h.Claim, h.sent, h.answered)
	c.use(h)
	for c.rand.IntN(2) == 0 {
		s.store.Sleep(c.within(0.2))
		if err := c.renew(&h); err != nil {
			if !errors.Is(err, driver.ErrLost) || time.Now().Before(h.until()) {
				s.Errorf("Renew in time: got %v, want a grant", err)
			}
			return // the end of its validity was its end
		}
		c.history.Renewed(id, h.sent, h.Grant.TTL)
		c.use(h)
	}
	s.store.Sleep(c.within(0.05))
	switch c.rand.IntN(8) {
	case 0: // it crashes: what it did goes on for as long as the claim is valid
		return
	case 1:
		h.Keep = c.within(0.3) + time.Millisecond
	}
	c.history.Ended(id, time.Now())
	c.let(h)
}

// let releases h. It may have ended before.
func (c *client) let(h hold) {
	due := h.until()
	if err := c.release(h.Claim); err != nil && (!errors.Is(err, driver.ErrLost) || time.Now().Before(due)) {
		c.stage.Errorf("Release in time: got %v, want nil", err)
	}
}

// await waits for a grant, and sometimes loses patience: then it withdraws.
func (c *client) await(claim driver.Claim) (hold, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), c.within(1.5))
	defer cancel()
	for {
		h, err := c.try(claim)
		if err == nil {
			return h, true
		}
		var held *driver.HeldError
		if !errors.As(err, &held) {
			c.stage.Errorf("Acquire: got %v, want a grant or a *HeldError", err)
			return hold{}, false
		}
		c.Wait(ctx, claim, held)
		if ctx.Err() != nil {
			if c.rand.IntN(8) == 0 {
				return hold{}, false // it crashes, and its place in line is left to end
			}
			if err := c.release(claim); err != nil {
				c.stage.Errorf("Release of a claim that waits: got %v, want nil", err)
			}
			return hold{}, false
		}
		c.stage.store.Sleep(time.Millisecond) // if Wait is always early
	}
}

// use writes to the guarded resource. An exclusive holder whose validity goes
// on is never rejected.
func (c *client) use(h hold) {
	ok := c.guard.write(h.Key, h.Grant.Token)
	if !ok && h.Exclusive() && time.Now().Before(h.until()) && c.stage.traits.Fencing {
		c.stage.Errorf("a write with the token %d was rejected while its claim was valid", h.Grant.Token)
	}
}
