package quorum_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/quorum"
)

// A grant that came after the decision is part of the hold: it is renewed with
// the others, and stands in for nodes that fail.
func TestALateGrantIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		c.servers[3].delay, c.servers[4].delay = 20*ms, 30*ms
		p := c.process(t, nil)
		claim := p.take(p.mutex("k"))
		time.Sleep(40 * ms)
		c.servers[0].set(dead)
		c.servers[1].set(dead)
		for range 5 {
			time.Sleep(ttl / 3)
			claim = p.renew(claim)
		}
		c.holds(t, "k", 2, 3, 4)
		p.release(claim)
		time.Sleep(40 * ms)
		c.holds(t, "k")
	})
}

// A process that goes on with a grant of another finds what came late there.
func TestALateGrantIsFoundByAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		c.servers[3].delay, c.servers[4].delay = 20*ms, 30*ms
		p, q := c.process(t, nil), c.process(t, nil)
		claim := p.take(p.mutex("k"))
		time.Sleep(40 * ms)
		claim = q.renew(claim)
		time.Sleep(100 * ms)
		c.servers[0].set(dead)
		c.servers[1].set(dead)
		claim = q.renew(claim)
		q.release(claim)
	})
}

// A grant that comes when it is not wanted any more is released, when it comes.
func TestALateGrantIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.servers[2].delay = 100 * ms
		p := c.process(t, nil)
		p.release(p.take(p.mutex("k")))
		time.Sleep(60 * ms)
		c.holds(t, "k", 2)
		time.Sleep(100 * ms)
		c.holds(t, "k")
	})
}

// With as many nodes away as may be, the next one needs each of the others: the
// release waits for the slowest of them.
func TestAReleaseWithNodesAwayWaitsForAllOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		c.servers[3].set(away)
		c.servers[4].set(away)
		p, q := c.process(t, nil), c.process(t, nil)
		for range 3 {
			claim := p.take(p.mutex("k"))
			synctest.Wait()
			c.servers[2].jitter(20 * ms)
			took(t, 20*ms, "Release", func() { p.release(claim) })
			c.servers[2].jitter(0)
			c.holds(t, "k")
			q.release(q.take(q.mutex("k")))
		}
	})
}

// A frozen node grants nothing when it comes back after the deadline, and what it
// has granted before it froze is released then.
func TestAFrozenNodeKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		p := c.process(t, nil)
		held := p.take(p.mutex("held"))
		synctest.Wait() // for the nodes that were not waited for
		c.servers[2].set(frozen)
		p.release(held)
		p.release(p.take(p.mutex("k")))
		c.holds(t, "held", 2)
		time.Sleep(3 * time.Second)
		c.servers[2].set(alive)
		time.Sleep(3 * time.Second) // the node is tried once a second by then
		c.holds(t, "held")
		c.holds(t, "k")
		p.release(p.take(p.mutex("k")))
	})
}

// A node that loses its answers has granted and released all the same.
func TestANodeThatLosesItsAnswersKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		p := c.process(t, nil)
		c.servers[2].set(losing)
		for range 5 {
			p.release(p.take(p.mutex("k")))
		}
		time.Sleep(2 * time.Second)
		c.holds(t, "k")
	})
}

// Whatever the delays, a second after the last release nothing is left.
func TestNothingIsLeftASecondAfterTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		p := c.process(t, nil)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		var keys []string
		for i := range 50 {
			c.servers[1].jitter(time.Duration(r.Int64N(int64(100 * ms))))
			c.servers[3].jitter(time.Duration(r.Int64N(int64(100 * ms))))
			key := string(rune('A' + i))
			keys = append(keys, key)
			p.release(p.take(p.mutex(key)))
		}
		time.Sleep(time.Second)
		for _, key := range keys {
			c.holds(t, key)
		}
	})
}

// An attempt that is called off, whenever, leaves nothing either.
// Cases F04, G08.
func TestNothingIsLeftOfACancelledAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		for i, s := range c.servers {
			s.delay = time.Duration(i+1) * 2 * ms
		}
		p := c.process(t, nil)
		for cancelled := range 12 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(cancelled)*ms)
			claim := p.mutex("k")
			g, err := p.Acquire(ctx, claim)
			cancel()
			if claim.Grant = g; err == nil {
				p.release(claim)
			}
			time.Sleep(time.Second)
			c.holds(t, "k")
		}
	})
}

// A claim that failed because answers were lost may ask again: what its first attempt
// has left is not taken for somebody else's.
func TestAnAttemptIsNotInTheWayOfTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		p := c.process(t, &quorum.Options{Timeout: 50 * ms})
		claim := p.mutex("k")
		outage := (*quorum.NoMajorityError)(nil)
		c.servers[1].set(losing)
		c.servers[2].set(losing)
		if _, err := p.try(claim); !errors.As(err, &outage) {
			t.Fatalf("Acquire with two of three nodes that lose their answers: got %v, want an outage", err)
		}
		synctest.Wait()
		c.holds(t, "k", 1, 2)
		c.servers[1].set(frozen)
		c.servers[2].set(frozen)
		time.AfterFunc(20*ms, func() {
			c.servers[1].set(alive)
			c.servers[2].set(alive)
		})
		p.release(p.take(claim))
		time.Sleep(time.Second) // for the nodes that were not waited for

		claim = p.mutex("k")
		c.servers[1].set(losing)
		c.servers[2].set(losing)
		_, _ = p.try(claim)
		for _, s := range c.servers[1:] {
			s.set(alive)
			s.breakRelease.Store(true)
		}
		if _, err := p.try(claim); !errors.As(err, &outage) || errors.Is(err, driver.ErrHeld) {
			t.Errorf("Acquire while the attempt of before can't be released: got %v, want an outage", err)
		}
		for _, s := range c.servers {
			s.breakRelease.Store(false)
		}
		time.Sleep(3 * time.Second)
		c.holds(t, "k")
	})
}

// Close waits for releases that are under way, and not for ever.
func TestCloseWaitsForWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.servers[2].delay = 300 * ms
		p := c.process(t, nil)
		p.release(p.take(p.mutex("k")))
		p.Close()
		c.holds(t, "k")

		q := c.process(t, nil)
		c.servers[2].set(frozen)
		q.release(q.take(q.mutex("k")))
		took(t, 2*time.Second, "Close with a frozen node", func() { q.Close() })
	})
}

// A frozen node at which nothing is left to be released is not waited for.
func TestCloseDoesNotWaitForAnswersThatNobodyNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		p, q, r := c.process(t, nil), c.process(t, nil), c.process(t, nil)
		p.release(p.take(p.mutex("done")))
		held := q.take(q.mutex("held"))
		synctest.Wait()
		c.servers[2].set(frozen)
		if _, err := p.Inspect(context.Background(), "held", 1); err != nil {
			t.Errorf("Inspect: %v", err)
		}
		took(t, 0, "Close after Inspect with a frozen node", func() { p.Close() })
		q.renew(held)
		took(t, 0, "Close after Renew with a frozen node", func() { q.Close() })
		r.take(r.mutex("k"))
		took(t, 0, "Close after Acquire with a frozen node", func() { r.Close() })
	})
}

// What is left of a node that stays away is forgotten with the TTL.
func TestADeadNodeIsNotTriedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		p := c.process(t, &quorum.Options{Timeout: 50 * ms})
		claim := p.take(p.mutex("k"))
		c.servers[2].set(dead)
		p.release(claim)
		time.Sleep(2 * ttl)
		before := c.servers[2].called("release")
		time.Sleep(ttl)
		if after := c.servers[2].called("release"); after != before || before < 5 {
			t.Errorf("releases sent to a dead node: got %d in two TTLs and %d after that, want at least 5 and none", before, after-before)
		}
	})
}
