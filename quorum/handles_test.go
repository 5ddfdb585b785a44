package quorum_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/quorum"
)

// A grant is all that another process needs to go on with a hold.
func TestAnotherProcessGoesOnWithAGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		p, q := c.process(t, nil), c.process(t, nil)
		claim := p.take(p.mutex("k"))
		synctest.Wait()
		token := claim.Grant.Token
		for range 4 {
			time.Sleep(ttl / 2)
			claim = q.renew(claim)
			if claim.Grant.Token != token {
				t.Errorf("token after a renewal elsewhere: got %d, want %d", claim.Grant.Token, token)
			}
		}
		c.holds(t, "k", 0, 1, 2, 3, 4)
		third := c.process(t, nil)
		third.release(claim)
		time.Sleep(100 * ms)
		c.holds(t, "k")
		if _, err := p.Renew(context.Background(), claim); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Renew by the first process: got %v, want ErrLost", err)
		}
	})
}

// A reference works only for the claim, the token and the quorum that it is of.
func TestAReferenceIsOfOneHoldAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		p, q := c.process(t, nil), c.process(t, nil)
		claim := p.take(p.mutex("k"))
		synctest.Wait() // for the nodes that were not waited for
		other, _ := c.connect(t, &quorum.Options{MaxTTL: 30 * time.Second})

		stranger := q.mutex("k")
		stranger.Grant = claim.Grant
		token := claim
		token.Grant.Token++
		for what, bad := range map[string]driver.Claim{"another ID": stranger, "another token": token} {
			if _, err := q.Renew(context.Background(), bad); !errors.Is(err, driver.ErrLost) {
				t.Errorf("Renew with %s: got %v, want ErrLost", what, err)
			}
		}
		_ = q.Release(context.Background(), stranger) // whatever it says, it must not touch the hold
		for _, ref := range []string{"x", claim.Grant.Ref + ",0", strings.Replace(claim.Grant.Ref, "1 ", "2 ", 1), strings.Replace(claim.Grant.Ref, ",", ",x", 1)} {
			bad := claim
			bad.Grant.Ref = ref
			if _, err := c.process(t, nil).Renew(context.Background(), bad); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("Renew with the reference %q: got %v, want ErrInvalid", ref, err)
			}
		}
		if _, err := other.Renew(context.Background(), claim); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("Renew through a quorum with another MaxTTL: got %v, want ErrInvalid", err)
		}
		c.holds(t, "k", 0, 1, 2)
		p.renew(claim)
	})
}

// The reference does not depend on the order in which a process lists the nodes.
func TestNodesAreKnownByNameAndNotByOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		p := c.process(t, nil)
		c.servers[0].set(dead) // so that the values differ by node
		claim := p.take(p.mutex("k"))
		synctest.Wait()
		c.servers[0].set(alive)
		back := &cluster{}
		for i := range c.servers {
			back.servers = append(back.servers, c.servers[len(c.servers)-1-i])
		}
		q := back.process(t, nil)
		claim = q.renew(claim)
		q.release(claim)
		time.Sleep(100 * ms)
		c.holds(t, "k")
	})
}
