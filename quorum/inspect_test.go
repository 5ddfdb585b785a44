package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl/driver"
)

// A key that was released is not shown as held because those who look hear from
// the slow nodes first: that a majority may have a claim is said only if the
// others don't answer.
func TestAClaimThatWasReleasedIsNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		p, q := c.process(t, nil), c.process(t, nil)
		claim := p.take(p.mutex("k"))
		synctest.Wait() // for the nodes that were not waited for
		for _, s := range c.servers[:2] {
			s.jitter(100 * ms)
		}
		p.release(claim)
		synctest.Wait() // until the slow requests are on their way
		for i, s := range c.servers {
			s.jitter([]time.Duration{0, 0, 0, 20 * ms, 20 * ms}[i])
		}
		c.holds(t, "k", 0, 1)
		var st driver.State
		var listed int
		took(t, 20*ms, "Inspect while two nodes still have the claim", func() {
			var err error
			if st, err = q.Inspect(context.Background(), "k", 10); err != nil {
				t.Error(err)
			}
		})
		took(t, 20*ms, "List while two nodes still have the claim", func() {
			for h, err := range q.List(context.Background(), "") {
				t.Logf("listed: %+v, %v", h, err)
				listed++
			}
		})
		c.holds(t, "k", 0, 1)
		if len(st.Holders) > 0 || listed > 0 {
			t.Errorf("after the release: Inspect got %+v, List %d claims, want none", st.Holders, listed)
		}
	})
}

// What nodes that don't answer may have is shown, after a second.
func TestAClaimThatAMajorityMayHaveIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		c.servers[4].set(dead)
		p, q := c.process(t, nil), c.process(t, nil)
		claim := p.take(p.mutex("k"))
		synctest.Wait()
		c.servers[0].set(frozen)
		c.servers[1].set(frozen)
		c.servers[4].set(alive)
		q.sees(t, time.Second, claim)
		c.servers[0].set(dead) // and if they are known not to answer, at once
		c.servers[1].set(dead)
		q.sees(t, 0, claim)
	})
}

// sees checks that Inspect shows claim, and how long it takes.
func (p *process) sees(t *testing.T, want time.Duration, claim driver.Claim) {
	t.Helper()
	took(t, want, "Inspect", func() {
		st, err := p.Inspect(context.Background(), claim.Key, 10)
		if err != nil || len(st.Holders) != 1 || st.Holders[0].ID != claim.ID {
			t.Errorf("Inspect: got %+v, %v, want the claim %s", st.Holders, err, claim.ID)
		}
	})
}
