package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
	"github.com/pawlock/pawl/quorum"
)

// nodes returns n nodes with servers of their own, and what they say of
// themselves, which may be changed.
func nodes(n int) ([]quorum.Node, []quorum.Facts) {
	nodes, facts := make([]quorum.Node, n), make([]quorum.Facts, n)
	for i := range nodes {
		facts[i].Server = fmt.Sprintf("run%d", i)
		nodes[i] = quorum.Node{
			Name:    string(rune('a' + i)),
			Backend: memory.New(nil),
			Probe:   func(context.Context, string) (quorum.Facts, error) { return facts[i], nil },
		}
	}
	return nodes, facts
}

// What would break the promise of a majority is refused when the quorum is made.
func TestNewRefusesWhatCanBeNoQuorum(t *testing.T) {
	for _, test := range []struct {
		name  string
		nodes int
		opts  quorum.Options
		spoil func([]quorum.Node, []quorum.Facts)
		want  string // in the error; "" for none
	}{
		{"sound", 3, quorum.Options{}, nil, ""},
		{"none", 0, quorum.Options{AnySize: true}, nil, "are none"},
		{"one", 1, quorum.Options{}, nil, "fewer than 3"},
		{"two", 2, quorum.Options{}, nil, "fewer than 3"},
		{"one, wanted", 1, quorum.Options{AnySize: true}, nil, ""},
		{"even", 4, quorum.Options{}, nil, "use 3 or 5"},
		{"even, wanted", 4, quorum.Options{AnySize: true}, nil, ""},
		{"no name", 3, quorum.Options{}, func(n []quorum.Node, _ []quorum.Facts) { n[1].Name = "" }, "no name"},
		{"a name twice", 3, quorum.Options{}, func(n []quorum.Node, _ []quorum.Facts) { n[1].Name = n[0].Name }, "twice"},
		{"no backend", 3, quorum.Options{}, func(n []quorum.Node, _ []quorum.Facts) { n[2].Backend = nil }, "no backend"},
		{"a server twice", 3, quorum.Options{}, func(_ []quorum.Node, f []quorum.Facts) { f[1].Server = f[2].Server }, "same server"},
		{"a replica", 3, quorum.Options{}, func(_ []quorum.Node, f []quorum.Facts) { f[1].Replica = true }, "replica"},
		{"a cluster", 3, quorum.Options{}, func(_ []quorum.Node, f []quorum.Facts) { f[0].Cluster = true }, "cluster"},
		{"another configuration", 3, quorum.Options{}, func(_ []quorum.Node, f []quorum.Facts) { f[0].Config = "0" }, "other nodes or another MaxTTL"},
		{"a TTL too long for a node", 3, quorum.Options{MaxTTL: 1000 * 24 * time.Hour}, nil, "keeps no more"},
		{"a TTL too short", 3, quorum.Options{MaxTTL: time.Microsecond}, nil, "keep no less"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n, f := nodes(test.nodes)
			if test.spoil != nil {
				test.spoil(n, f)
			}
			b, err := quorum.New(n, &test.opts)
			if test.want == "" {
				if err != nil {
					t.Fatalf("New: got %v, want nil", err)
				}
				b.Close()
				return
			}
			if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("New: got %v, want ErrInvalid that says %q", err, test.want)
			}
		})
	}
}

// All clients of one quorum have one configuration, in whatever order they list
// its nodes; those with other nodes or another longest TTL have another.
func TestTheConfigurationIsTheNodesAndTheLongestTTL(t *testing.T) {
	config := func(n []quorum.Node, o *quorum.Options) string {
		b, err := quorum.New(n, o)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		return b.Config()
	}
	n, _ := nodes(5)
	want := config(n, nil)
	back, _ := nodes(5)
	back[0], back[3] = back[3], back[0]
	if got := config(back, nil); got != want {
		t.Errorf("the same nodes in another order: got %s, want %s", got, want)
	}
	if got := config(n[:3], nil); got == want {
		t.Errorf("three of the nodes: got %s as for all", got)
	}
	if got := config(n, &quorum.Options{MaxTTL: 5 * time.Second}); got == want {
		t.Errorf("another MaxTTL: got %s as before", got)
	}
}

// A node that is down is no reason not to start, and is looked at when it comes.
// Case T16.
func TestANodeIsProbedWhenItComesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, f := nodes(3)
		up := false
		n[2].Probe = func(context.Context, string) (quorum.Facts, error) {
			if !up {
				return quorum.Facts{}, errDead
			}
			return f[2], nil
		}
		n[1].Probe = func(ctx context.Context, _ string) (quorum.Facts, error) {
			<-ctx.Done() // frozen
			return quorum.Facts{}, ctx.Err()
		}
		var b *quorum.Backend
		var err error
		took(t, time.Second, "New with a frozen node", func() { b, err = quorum.New(n, nil) })
		if err != nil {
			t.Fatalf("New with a node down and one frozen: %v", err)
		}
		n[1].Probe = nil
		p := &process{b, t, driver.NewIdentity("p"), nil}
		if _, err := p.try(p.mutex("k")); errors.Is(err, driver.ErrHeld) || err == nil {
			t.Errorf("Acquire with one node of three: got %v, want an outage", err)
		}
		up, f[2].Server = true, f[0].Server
		if _, err := p.try(p.mutex("k")); err == nil || !strings.Contains(err.Error(), "same server as a") {
			t.Errorf("Acquire with a server that is two nodes: got %v, want an error that says so", err)
		}
		f[2].Server = "another"
		time.Sleep(2 * time.Second)
		p.release(p.take(p.mutex("k")))
		b.Close()
	})
}

// A node is asked again what it is as long as it is used, and nobody waits for
// the answer: what has become unfit loses its vote within a minute.
func TestANodeThatIsUsedIsProbedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, f := nodes(3)
		var probes atomic.Int32
		for i := range n {
			n[i].Probe = func(context.Context, string) (quorum.Facts, error) {
				probes.Add(1)
				time.Sleep(100 * ms)
				return f[i], nil
			}
		}
		b, err := quorum.New(n, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		p := &process{b, t, driver.NewIdentity("p"), nil}
		claim := p.take(p.mutex("k"))
		for range 60 {
			time.Sleep(ttl / 2)
			took(t, 0, "Renew", func() { claim = p.renew(claim) })
		}
		if got, want := probes.Load(), int32(3*(1+4)); got != want { // with the first renewal after a minute
			t.Errorf("probes of three nodes in five minutes: got %d, want %d", got, want)
		}
		f[0].Replica, f[1].Config = true, "another"
		for range 13 {
			time.Sleep(ttl / 2)
			claim = p.renew(claim) // what was granted is not taken away
		}
		if _, err := p.try(p.mutex("other")); err == nil || !strings.Contains(err.Error(), "replica") {
			t.Errorf("Acquire a minute after two of three nodes became unfit: got %v, want an error that says so", err)
		}
	})
}

// A node whose clock is set has no vote until all leases of before have ended.
func TestANodeWhoseClockIsSetHasNoVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		p := c.process(t, &quorum.Options{MaxTTL: 20 * time.Second})
		claim := p.take(p.mutex("k"))
		synctest.Wait() // for the nodes that were not waited for
		c.servers[0].step(time.Second)
		claim = p.renew(claim) // the others are enough
		c.servers[1].step(-time.Second)
		if _, err := p.Renew(context.Background(), claim); !errors.Is(err, driver.ErrLost) {
			t.Fatalf("Renew after the clocks of two of three nodes were set: got %v, want ErrLost", err)
		}
		time.Sleep(time.Second)
		c.holds(t, "k")
		if _, err := p.try(p.mutex("k")); err == nil || errors.Is(err, driver.ErrHeld) {
			t.Errorf("Acquire meanwhile: got %v, want an outage", err)
		}
		c.servers[0].step(-time.Second)
		c.servers[1].step(time.Second)
		_, _ = p.try(p.mutex("k")) // sees them come back, which is a step too
		synctest.Wait()
		time.Sleep(21 * time.Second)
		p.release(p.take(p.mutex("k")))
	})
}

// When the clocks of all nodes are set at once and by the same, it is ours that
// stood still: the lease is lost, and the nodes vote on the next.
func TestOurOwnClockStandingStillIsNotTheNodesFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		p := c.process(t, nil)
		claim := p.take(p.mutex("k"))
		synctest.Wait()
		for _, s := range c.servers {
			s.step(7 * time.Second)
		}
		if _, err := p.Renew(context.Background(), claim); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Renew: got %v, want ErrLost", err)
		}
		time.Sleep(time.Second)
		p.release(p.take(p.mutex("k")))
	})
}

// A clock that is a little fast or slow, or an answer that takes long, is no step.
func TestASlowAnswerIsNoStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		p := c.process(t, &quorum.Options{Timeout: time.Second})
		claim := p.take(p.mutex("k"))
		synctest.Wait()
		for i := range 20 {
			c.servers[i%3].jitter(time.Duration(i%5) * 200 * ms)
			time.Sleep(time.Second)
			for _, s := range c.servers {
				s.step(5 * ms)
			}
			claim = p.renew(claim)
		}
		p.release(claim)
	})
}

// A node whose clock is far from the others' grants, and does not vote.
func TestANodeThatIsFarOffHasNoVoteOnNewLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.servers[1].step(2 * time.Second)
		p := c.process(t, nil)
		p.release(p.take(p.mutex("k"))) // nobody knows yet
		synctest.Wait()
		c.servers[0].set(dead)
		if _, err := p.try(p.mutex("k")); err == nil || errors.Is(err, driver.ErrHeld) {
			t.Errorf("Acquire with one sound node of three: got %v, want an outage", err)
		}
		c.servers[0].set(alive)
		time.Sleep(3 * time.Second)
		p.release(p.take(p.mutex("k")))
	})
}

// Contention and outage are told apart by counting, and each node has its say.
func TestErrorsTellWhatEachNodeSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		var d decisions
		p, q := c.process(t, nil), c.process(t, &quorum.Options{Observer: d.observer()})
		claim := p.take(p.mutex("k"))
		synctest.Wait() // for the nodes that were not waited for
		c.servers[1].set(dead)
		c.servers[2].set(dead)
		held := q.refuse(q.mutex("k")) // three of five say so
		if held.Holder.ID != claim.ID || held.Last != claim.Grant.Token || held.Left > ttl || held.Left < ttl-ms {
			t.Errorf("HeldError: got %+v, want holder %s, last %d, left %v", *held, claim.ID, claim.Grant.Token, ttl)
		}
		synctest.Wait()
		got := d.last(t, "acquire")
		said := make(map[string]int)
		for _, v := range got.Votes {
			said[v.Said]++
		}
		if got.Outcome != "contended" || said["held"] != 3 || said["unknown"]+said["silent"] != 2 {
			t.Errorf("decision: got %+v, want contended, three held, two unknown or not waited for", got)
		}
		c.servers[3].set(dead)
		_, err := q.try(q.mutex("k"))
		var outage *quorum.NoMajorityError
		if !errors.As(err, &outage) || errors.Is(err, driver.ErrHeld) {
			t.Fatalf("Acquire with two of five nodes: got %v, want a *NoMajorityError", err)
		}
		for _, want := range []string{"acquire", "3 of 5", "b: connection refused (", "failures in a row)", "d: connection refused"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error: got %q, want %q in it", err, want)
			}
		}
		if s := q.Stats()["b"]; s.Asked < 2 || s.Failed != s.Asked || s.InARow != int(s.Asked) || !errors.Is(s.LastError, errDead) {
			t.Errorf("statistics of b: got %+v, want 2 asked at least, all failed", s)
		}
	})
}

// An observer is told of each failure of a node, and of nothing else; the statistics
// count them, and how long it is that the node has failed.
func TestAnObserverIsToldOfEachFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		var mu sync.Mutex
		told := make(map[string]int)
		p := c.process(t, &quorum.Options{Observer: &quorum.Observer{Trouble: func(node, op string, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				t.Errorf("trouble of %s with %s: got no error", node, op)
			}
			told[node+" "+op]++
		}}})
		look := func() map[string]int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			defer clear(told)
			return maps.Clone(told)
		}
		claim := p.take(p.mutex("k"))
		if got := look(); len(got) > 0 {
			t.Errorf("told of sound nodes: got %v, want nothing", got)
		}
		if s := p.Stats()["b"]; s.Asked == 0 || s.Failed != 0 || s.InARow != 0 || s.LastError != nil {
			t.Errorf("statistics of a sound node: got %+v, want no failure", s)
		}
		c.servers[1].set(dead)
		for range 3 {
			claim = p.renew(claim)
		}
		if got, want := look(), map[string]int{"b renew": 3}; !maps.Equal(got, want) {
			t.Errorf("told of three renewals with b dead: got %v, want %v", got, want)
		}
		if s := p.Stats()["b"]; s.Failed != 3 || s.InARow != 3 || !errors.Is(s.LastError, errDead) {
			t.Errorf("statistics of b, dead: got %+v, want 3 failures in a row", s)
		}
		c.servers[1].set(alive)
		c.servers[2].step(time.Second)
		claim = p.renew(claim)
		if got, want := look(), map[string]int{"c clock": 1}; !maps.Equal(got, want) {
			t.Errorf("told of a renewal after c's clock was set: got %v, want %v", got, want)
		}
		if s := p.Stats()["b"]; s.Failed != 3 || s.InARow != 0 {
			t.Errorf("statistics of b, up again: got %+v, want 3 failures, none in a row", s)
		}
		p.release(claim)
	})
}

// Nodes that are known to have done nothing make an error that says so.
func TestARefusalByAllIsARefusal(t *testing.T) {
	n, _ := nodes(3)
	for i := range n {
		n[i].Backend = refusing{n[i].Backend}
	}
	b, err := quorum.New(n, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	p := &process{b, t, driver.NewIdentity("p"), nil}
	if _, err := p.try(p.mutex("k")); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("Acquire with all nodes loading: got %v, want ErrRefused", err)
	}
}

type refusing struct{ driver.Backend }

func (refusing) Acquire(context.Context, driver.Claim) (driver.Grant, error) {
	return driver.Grant{}, fmt.Errorf("%w: loading", driver.ErrRefused)
}
