package quorum_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
	"github.com/pawlock/pawl/memory"
	"github.com/pawlock/pawl/quorum"
)

// decisions records what an observer is told.
type decisions struct {
	mu  sync.Mutex
	all []quorum.Decision
}

func (d *decisions) observer() *quorum.Observer {
	return &quorum.Observer{Decided: func(x quorum.Decision) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.all = append(d.all, x)
	}}
}

// last returns the last decision on an operation.
func (d *decisions) last(t *testing.T, op string) quorum.Decision {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := len(d.all) - 1; i >= 0; i-- {
		if d.all[i].Op == op {
			return d.all[i]
		}
	}
	t.Fatalf("no decision on %s was told", op)
	return quorum.Decision{}
}

// Without contention the nodes agree at once, whoever comes and goes.
func TestOneRoundIsEnoughInSteadyState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		var d decisions
		o := &quorum.Options{Observer: d.observer()}
		p, q := c.process(t, o), c.process(t, o)
		var last uint64
		for i := range 200 {
			for j, s := range c.servers {
				s.jitter(time.Duration((i+j)%5) * ms)
			}
			p, q = q, p
			claim := p.take(p.mutex("k"))
			if claim.Grant.Token <= last {
				t.Fatalf("token number %d: got %d after %d", i, claim.Grant.Token, last)
			}
			last = claim.Grant.Token
			if got := d.last(t, "acquire").Rounds; got != 1 {
				t.Fatalf("rounds of number %d: got %d, want 1", i, got)
			}
			p.release(claim)
			time.Sleep(10 * ms)
		}
	})
}

// Nodes whose counters differ are brought together: the second round makes the
// greatest value the token, and whoever comes next has it in one.
func TestNodesThatDifferTakeASecondRoundOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		for i, s := range c.servers {
			s.delay = 2 * ms
			s.raise(t, "k", 200_000*uint64(i+1)) // microseconds ahead of the clock
		}
		var d decisions
		p := c.process(t, &quorum.Options{Observer: d.observer()})
		claim := p.mutex("k")
		took(t, 4*ms, "Acquire", func() { claim = p.take(claim) })
		if got := d.last(t, "acquire"); got.Rounds != 2 || got.Outcome != "won" {
			t.Errorf("decision: got %+v, want won in 2 rounds", got)
		}
		highest := c.servers[2].last(t, "k")
		if claim.Grant.Token != highest && claim.Grant.Token != c.servers[1].last(t, "k") {
			t.Errorf("token: got %d, want one that a majority's counters have reached", claim.Grant.Token)
		}
		claim = p.renew(claim)
		p.release(claim)
		next := p.mutex("k")
		took(t, 2*ms, "Acquire after that", func() { next = p.take(next) })
		if next.Grant.Token <= claim.Grant.Token {
			t.Errorf("next token: got %d, want more than %d", next.Grant.Token, claim.Grant.Token)
		}
		p.release(next)
	})
}

// Tokens rise from one majority to another that shares but one node with it.
// Case R07.
func TestTokensRiseFromMajorityToMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		for i, s := range c.servers {
			s.raise(t, "k", uint64(i)*uint64(time.Hour.Microseconds()))
		}
		p := c.process(t, nil)
		var last uint64
		for _, down := range [][]int{{3, 4}, {0, 1}, {0, 2}, {1, 4}, {2, 3}, {0, 4}} {
			for _, s := range c.servers {
				s.set(alive)
			}
			time.Sleep(3 * time.Second)
			for _, i := range down {
				c.servers[i].set(dead)
			}
			claim := p.take(p.mutex("k"))
			if claim.Grant.Token <= last {
				t.Errorf("token with %v down: got %d, want more than %d", down, claim.Grant.Token, last)
			}
			last = claim.Grant.Token
			p.release(claim)
		}
	})
}

// A token is confirmed by those who granted it, or it is none.
func TestATokenThatIsNotConfirmedIsNotGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		for i, s := range c.servers {
			s.delay = 2 * ms
			s.raise(t, "k", uint64(time.Hour.Microseconds())*uint64(i+1))
		}
		p := c.process(t, nil)
		time.AfterFunc(2*ms+ms/2, func() { // the confirmations are on their way
			c.servers[1].set(losing)
			c.servers[2].set(losing)
		})
		c.servers[0].breakRenew = true
		c.servers[1].breakRenew = true
		_, err := p.try(p.mutex("k"))
		var outage *quorum.NoMajorityError
		if !errors.As(err, &outage) {
			t.Fatalf("Acquire: got %v, want a *NoMajorityError", err)
		}
		for _, s := range c.servers {
			s.set(alive)
		}
		time.Sleep(2 * time.Second)
		c.holds(t, "k")
	})
}

// Through the core, with nodes that come and go, what clients saw is sound.
func TestWhatClientsSeeIsSoundWhileNodesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		var history drivertest.History
		var all sync.WaitGroup
		done := make(chan struct{})
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				case <-time.After(700 * ms):
				}
				s := c.servers[i%5]
				s.set([]health{dead, frozen, losing}[i%3])
				time.AfterFunc(600*ms, func() { s.set(alive) })
			}
		})
		var workers sync.WaitGroup
		for i := range 4 {
			for j, s := range c.servers {
				s.jitter(time.Duration((i+j)%3) * ms)
			}
			b, _ := c.connect(t, nil)
			client, err := pawl.New(b, &pawl.Options{TTL: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			workers.Go(func() {
				defer client.Close()
				for range 25 {
					ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
					sent := time.Now()
					lease, err := client.Mutex("k").Acquire(ctx)
					cancel()
					if err != nil {
						t.Errorf("Acquire with one node of five in trouble: %v", err)
						return
					}
					claim := driver.Claim{Key: "k", ID: lease.Holder(), Weight: 1, Capacity: 1, Grant: driver.Grant{Token: lease.Token(), TTL: time.Minute}}
					record := history.Granted(claim, sent, time.Now())
					select {
					case <-lease.Context().Done():
					case <-time.After(time.Duration(i*40) * ms):
					}
					history.Ended(record, time.Now())
					_ = lease.Release(context.Background())
				}
			})
		}
		workers.Wait()
		close(done)
		all.Wait()
		if got := history.Holds(); got < 90 {
			t.Errorf("leases: got %d, want about 100", got)
		}
		for _, v := range history.Check() {
			t.Error(v)
		}
	})
}

// raise sets the counter of key ahead of the clock by d microseconds.
func (s *server) raise(t *testing.T, key string, d uint64) {
	t.Helper()
	b := memory.New(s.store)
	claim := driver.Claim{Key: key, ID: driver.NewIdentity("raise").Next(), Weight: 1, Capacity: 1, TTL: time.Minute}
	g, err := b.Acquire(context.Background(), claim)
	if err == nil {
		claim.Grant, claim.Floor = g, g.Token+d
		_, err = b.Renew(context.Background(), claim)
	}
	if err == nil {
		err = b.Release(context.Background(), claim)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// last returns the counter of key.
func (s *server) last(t *testing.T, key string) uint64 {
	t.Helper()
	st, err := memory.New(s.store).Inspect(context.Background(), key, 1)
	if err != nil {
		t.Fatal(err)
	}
	return st.Last
}
