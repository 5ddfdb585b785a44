package quorum_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/quorum"
)

const (
	ms  = time.Millisecond
	ttl = 10 * time.Second
)

// What a minority of the nodes does to others' patience, nobody else notices.
// Case F05.
func TestNoCallWaitsForADeadOrFrozenNode(t *testing.T) {
	for name, sick := range map[string]health{"alive": alive, "dead": dead, "away": away, "frozen": frozen, "losing": losing} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 5)
				for _, s := range c.servers {
					s.delay = 2 * ms
				}
				p, q := c.process(t, nil), c.process(t, nil)
				for _, s := range c.servers[:2] {
					s.set(sick)
				}
				for range 3 {
					claim := p.mutex("k")
					took(t, 2*ms, "Acquire", func() { claim = p.take(claim) })
					took(t, 2*ms, "Acquire of a key that is held", func() { q.refuse(q.mutex("k")) })
					took(t, 2*ms, "Renew", func() { claim = p.renew(claim) })
					took(t, 2*ms, "Release", func() { p.release(claim) })
				}
			})
		})
	}
}

// A node that freezes while the key is held costs the release half its time
// again, once, and the renewal nothing.
func TestANodeThatFreezesLaterIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		for _, s := range c.servers {
			s.delay = 2 * ms
		}
		p := c.process(t, nil)
		claim := p.take(p.mutex("k"))
		c.servers[4].set(frozen)
		took(t, 2*ms, "Renew", func() { claim = p.renew(claim) })
		took(t, 3*ms, "Release", func() { p.release(claim) })
	})
}

// With too few nodes to decide, the answer comes when the last is known to be of
// no use, and not with the caller's deadline.
func TestAnOutageIsToldSoon(t *testing.T) {
	for _, test := range []struct {
		name string
		sick health
		want time.Duration
	}{{"dead", dead, 0}, {"frozen", frozen, 50 * ms}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3)
				p := c.process(t, &quorum.Options{Timeout: 50 * ms})
				c.servers[0].set(test.sick)
				c.servers[1].set(test.sick)
				took(t, test.want, "Acquire", func() {
					_, err := p.try(p.mutex("k"))
					var outage *quorum.NoMajorityError
					if !errors.As(err, &outage) || errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrRefused) {
						t.Errorf("Acquire with two of three nodes %s: got %v, want a *NoMajorityError", test.name, err)
					}
				})
			})
		})
	}
}

// took checks how long f takes, exactly.
func took(t *testing.T, want time.Duration, what string, f func()) {
	t.Helper()
	began := time.Now()
	f()
	if got := time.Since(began); got != want {
		t.Errorf("%s: took %v, want %v", what, got, want)
	}
}

// A process is a client with a quorum of its own.
type process struct {
	*quorum.Backend
	t     testing.TB
	ids   *driver.Identity
	lines []*line
}

func (c *cluster) process(t testing.TB, o *quorum.Options) *process {
	b, lines := c.connect(t, o)
	return &process{b, t, driver.NewIdentity("p"), lines}
}

func (p *process) mutex(key string) driver.Claim {
	return driver.Claim{Key: key, ID: p.ids.Next(), Weight: 1, Capacity: 1, TTL: ttl}
}

func (p *process) try(c driver.Claim) (driver.Claim, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	g, err := p.Acquire(ctx, c)
	c.Grant = g
	return c, err
}

func (p *process) take(c driver.Claim) driver.Claim {
	p.t.Helper()
	c, err := p.try(c)
	if err != nil {
		p.t.Fatalf("Acquire of %q: got %v, want a grant", c.Key, err)
	}
	return c
}

func (p *process) refuse(c driver.Claim) *driver.HeldError {
	p.t.Helper()
	_, err := p.try(c)
	held := (*driver.HeldError)(nil)
	if !errors.As(err, &held) {
		p.t.Fatalf("Acquire of %q, which is held: got %v, want a *HeldError", c.Key, err)
	}
	return held
}

func (p *process) renew(c driver.Claim) driver.Claim {
	p.t.Helper()
	g, err := p.Renew(context.Background(), c)
	if err != nil {
		p.t.Fatalf("Renew of %q: got %v, want a grant", c.Key, err)
	}
	c.Grant = g
	return c
}

func (p *process) release(c driver.Claim) {
	p.t.Helper()
	if err := p.Release(context.Background(), c); err != nil {
		p.t.Fatalf("Release of %q: got %v, want nil", c.Key, err)
	}
}
