package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlock/pawl/internal/ballot"
)

// timeout is how long a client waits for a node.
const timeout = maxTTL / 4

// A client wants the key, holds it for a while, and lets it go.
type client struct {
	world   *world
	number  int
	name    string
	skew    time.Duration // of its wall clock
	blind   time.Duration // how long its clocks have stood still
	paused  time.Duration // until when it does nothing
	poison  bool          // it proposes absurd tokens
	seen    uint64
	clocks  []ballot.Clock
	serial  int
	losses  int                            // in a row
	current *attempt                       // on a stage
	decided func(*attempt, ballot.Outcome) // what it does then
}

// An attempt is one try of a client to have the key.
type attempt struct {
	*ballot.Attempt
	client  *client
	nonce   string
	ttl     time.Duration
	cand    uint64
	invoked time.Duration // true time
	sent    time.Duration // the client's clock
	end     time.Duration // when all of it has expired at the nodes; the client's clock
	done    bool          // the outcome has been told
	lease   *lease        // nil if it was not elected

	watchers []func() // called after each answer
	forced   []bool   // by node, who stands for a token that a mutant took for granted
	spread   bool     // a mutant has asked everybody to confirm
}

func newClient(w *world, number int) *client {
	return &client{
		world:  w,
		number: number,
		name:   fmt.Sprintf("c%d", number),
		skew:   w.spread(w.cfg.Faults.ClientSkew),
		poison: w.cfg.Faults.Poison && number == 0,
		clocks: make([]ballot.Clock, w.cfg.Nodes),
	}
}

// mono returns the clock that the client's leases are counted on.
func (c *client) mono() time.Duration { return c.world.now - c.blind }

// wall returns the time as the client believes the nodes have it.
func (c *client) wall() time.Time {
	var ahead []time.Duration
	for i := range c.clocks {
		if lo, hi, ok := c.clocks[i].Ahead(); ok {
			ahead = append(ahead, lo+(hi-lo)/2)
		}
	}
	if c.world.cfg.Faults.NoWall {
		return time.UnixMicro(1)
	}
	if len(ahead) == 0 || c.world.cfg.Faults.ClientSkew > time.Minute {
		return time.UnixMicro(base + (c.world.now + c.skew).Microseconds()) // as if it corrected nothing
	}
	slices.Sort(ahead)
	return time.Unix(0, int64(c.mono()+ahead[len(ahead)/2]))
}

// awake runs f when the client is not paused.
func (c *client) awake(f func()) {
	if c.paused > c.world.now {
		c.world.at(c.paused, func() { c.awake(f) })
		return
	}
	f()
}

// after runs f in d of the client's time, at the earliest.
func (c *client) after(d time.Duration, f func()) {
	due := c.mono() + d
	c.world.after(d, func() {
		c.awake(func() {
			if left := due - c.mono(); left > 0 { // its clock stood still meanwhile
				c.after(left, f)
				return
			}
			f()
		})
	})
}

// acquire begins an attempt.
func (c *client) acquire() *attempt {
	c.serial++
	nonce := fmt.Sprintf("%s.%d", c.name, c.serial)
	if c.world.mutant.NoncePerClient {
		nonce = c.name
	}
	a := &attempt{client: c, nonce: nonce, ttl: maxTTL, invoked: c.world.now, sent: c.mono()}
	a.end = a.sent + timeout + 50*time.Millisecond + a.ttl
	a.cand = ballot.Candidate(c.seen, c.wall())
	if c.poison {
		a.cand = 1 << 53
	}
	var requests []ballot.Request
	ttl := a.ttl
	if c.world.mutant.NoRecheck {
		ttl = time.Hour
	}
	a.Attempt, requests = ballot.Begin(len(c.world.hosts), a.sent, a.sent+timeout, ttl)
	c.world.report.Attempts++
	c.world.tell(c.name, "acquires with %s, candidate %d", nonce, a.cand)
	a.send(requests)
	c.after(timeout, func() { a.feed(a.Overdue(c.mono())) })
	c.after(2*timeout, func() {
		if a.Outcome() == ballot.Open {
			a.feed(a.Abandon(c.mono()))
		}
	})
	return a
}

// send sends requests, those that have to wait when it is time.
func (a *attempt) send(requests []ballot.Request) {
	c := a.client
	for _, r := range requests {
		if wait := r.At - c.mono(); wait > 0 {
			c.after(wait, func() { a.sendOne(r) })
			continue
		}
		a.sendOne(r)
	}
}

func (a *attempt) sendOne(r ballot.Request) {
	c := a.client
	m := &message{from: c, to: c.world.hosts[r.Node], attempt: a, request: r, value: r.Value, sent: c.mono()}
	if r.Op == ballot.Acquire {
		m.cand = a.cand
		if _, hi, ok := c.clocks[r.Node].Ahead(); ok {
			m.notAfter = (a.sent + timeout + hi).Microseconds()
		}
	}
	c.world.post(m)
	c.after(timeout, func() {
		if !m.answered {
			m.answered = true
			a.take(m, ballot.Answer{Verdict: ballot.Unknown})
		}
	})
}

// receive takes the answer to a message, once the client is awake.
func (c *client) receive(m *message, r Reply) {
	c.awake(func() {
		if m.answered {
			return
		}
		m.answered = true
		h := m.to.number
		c.clocks[h].Observe(time.UnixMicro(r.Now), m.sent, c.mono(), maxTTL)
		c.seen = max(c.seen, r.Last)
		ans := ballot.Answer{Value: r.Value, Barred: c.clocks[h].Barred(c.mono())}
		switch r.Code {
		case Done:
			ans.Verdict = ballot.Yes
		case Busy:
			ans.Verdict = ballot.Held
		case NotYours:
			ans.Verdict = ballot.Gone
		case Died:
			ans.Verdict = ballot.Unknown
		default:
			ans.Verdict = ballot.Refused
		}
		m.attempt.take(m, ans)
	})
}

// take feeds an answer to the state machine.
func (a *attempt) take(m *message, ans ballot.Answer) {
	c, r := a.client, m.request
	if c.world.mutant.StragglersDropped && a.done && r.Op == ballot.Acquire {
		return
	}
	if ans.Verdict == ballot.Unknown && c.world.mutant.TimeoutIsNo && r.Op == ballot.Acquire {
		ans.Verdict = ballot.Refused
	}
	var next []ballot.Request
	switch r.Op {
	case ballot.Acquire:
		next = a.Acquired(r.Node, ans, c.mono())
	case ballot.Confirm:
		next = a.Confirmed(r.Node, ans, c.mono())
	case ballot.Renew:
		next = r.Round.Renewed(r.Node, ans, c.mono())
	case ballot.Find:
		next = r.Round.Found(r.Node, ans, r, c.mono())
	case ballot.Release:
		a.Released(r.Node, ans)
		if ans.Verdict != ballot.Yes && ans.Verdict != ballot.Gone {
			if c.mono() > a.end {
				a.Expire(r.Node)
			} else {
				c.after(40*time.Millisecond+c.world.upTo(20*time.Millisecond), func() { a.sendOne(r) })
			}
		}
	}
	a.feed(next)
	for _, f := range a.watchers {
		f()
	}
}

// feed sends what follows, and tells the outcome once.
func (a *attempt) feed(requests []ballot.Request) {
	requests = a.mutate(requests)
	a.send(requests)
	if a.done || a.Outcome() == ballot.Open {
		return
	}
	a.done = true
	c := a.client
	c.world.tell(c.name, "%s: %v", a.nonce, a.Outcome())
	if a.Outcome() == ballot.Won {
		a.elected()
	}
	if c.decided != nil {
		c.decided(a, a.Outcome())
	}
}
