package sim

import (
	"time"

	"github.com/pawlock/pawl/internal/ballot"
)

// A lease is what a client has when its attempt was elected.
type lease struct {
	attempt  *attempt
	token    uint64
	fast     bool
	backed   []bool        // by node: it is of the majority that stands for the token
	returned time.Duration // true time
	until    time.Duration // the client's clock: valid before that, unless lost
	lost     bool
	ended    time.Duration // true time at which it was released or known to be lost
	spans    []span        // of true time in which it said that it was valid
	renewed  time.Duration // when a renewal was sent last; the client's clock
	revived  bool          // it was valid again after it was lost
}

// A span is a time in which a lease was valid.
type span struct{ from, to time.Duration }

// elected begins the lease.
func (a *attempt) elected() {
	c := a.client
	w := c.world
	l := &lease{attempt: a, token: a.Token(), returned: w.now, ended: -1, fast: true}
	for i := range w.hosts {
		l.backed = append(l.backed, a.Backs(i))
		l.fast = l.fast && !a.Acknowledged(i)
	}
	if a.forced != nil {
		l.backed, l.fast = a.forced, false
	}
	l.until = a.sent + a.ttl - ballot.Allowance(a.ttl)
	if w.mutant.ValidityFromReply {
		l.until = c.mono() + a.ttl
	}
	if w.mutant.ClockNotRead {
		l.until = c.mono() + time.Hour
	}
	if w.mutant.NoRecheck {
		l.until = max(l.until, c.mono()+time.Millisecond)
	}
	l.renewed = c.mono()
	a.lease = l
	w.leases = append(w.leases, l)
	w.report.Acquired++
	if l.fast {
		w.report.Fast++
	}
	w.tell(c.name, "has %d, by %s, until %v of its clock", l.token, a.nonce, l.until)
	l.valid(l.until)
}

// valid notes that the lease is valid from now until the client's clock shows t.
func (l *lease) valid(t time.Duration) {
	c := l.attempt.client
	from, to := c.world.now, t+c.blind
	if n := len(l.spans); n > 0 && l.ended < 0 && l.spans[n-1].to >= from {
		l.spans[n-1].to = max(l.spans[n-1].to, to)
		return
	}
	if to > from {
		l.spans = append(l.spans, span{from, to})
	}
}

// stop notes that the lease is not valid from now on.
func (l *lease) stop() {
	now := l.attempt.client.world.now
	if l.ended < 0 {
		l.ended = now
	}
	if n := len(l.spans); n > 0 {
		l.spans[n-1].to = min(l.spans[n-1].to, now)
	}
}

// Valid reads the clock: the lease has not ended.
func (l *lease) Valid() bool {
	c := l.attempt.client
	if c.mono() >= l.until && !l.lost {
		l.lose("its time is over")
	}
	return !l.lost && l.ended < 0
}

// lose ends the lease, for good.
func (l *lease) lose(why string) {
	if l.lost {
		return
	}
	l.lost = true
	a := l.attempt
	a.client.world.tell(a.client.name, "loses %d: %s", l.token, why)
	l.stop()
}

// renew sends a renewal.
func (l *lease) renew() {
	a := l.attempt
	c := a.client
	sent := c.mono()
	round, requests := a.Renew(0, sent)
	a.end = max(a.end, sent+timeout+50*time.Millisecond+a.ttl)
	c.world.tell(c.name, "renews %d", l.token)
	settled := false
	settle := func() {
		if settled || round.Result() == ballot.Pending {
			return
		}
		settled = true
		l.settle(round.Result(), sent)
	}
	a.watchers = append(a.watchers, settle)
	a.send(requests)
	settle()
}

// settle takes the result of a renewal that was sent at sent.
func (l *lease) settle(result ballot.Result, sent time.Duration) {
	a := l.attempt
	c := a.client
	switch {
	case result == ballot.Denied:
		l.lose("too few nodes have it")
	case result == ballot.Carried && (l.Valid() || c.world.mutant.RevivedByRenewal && l.ended >= 0 && l.lost):
		if c.world.mutant.RevivedByRenewal && l.lost {
			l.lost, l.ended, l.revived = false, -1, true
		}
		l.until = max(l.until, sent+a.ttl-ballot.Allowance(a.ttl))
		c.world.tell(c.name, "renewed %d, until %v of its clock", l.token, l.until)
		l.valid(l.until)
	}
}

// release ends the lease and gives the key back.
func (l *lease) release() {
	a := l.attempt
	c := a.client
	c.world.tell(c.name, "releases %d", l.token)
	l.stop()
	if c.world.mutant.NoRecheck || a.forced != nil {
		a.end = max(a.end, c.mono()+timeout)
	}
	_, requests := a.Release(c.mono())
	a.feed(requests)
}
