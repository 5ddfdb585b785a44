package sim

import (
	"time"

	"github.com/pawlock/pawl/internal/ballot"
)

// populate sets the clients to work and the faults loose.
func (w *world) populate() {
	for _, c := range w.clients {
		c.decided = func(a *attempt, o ballot.Outcome) { w.decided(c, a, o) }
		c.after(w.upTo(200*time.Millisecond), func() { c.acquire() })
	}
	f := w.cfg.Faults
	w.often(f.Pauses, 1500*time.Millisecond, func() {
		c := w.clients[w.rand.IntN(len(w.clients))]
		d := w.upTo(3 * time.Second)
		if w.chance(0.5) {
			d = w.upTo(300 * time.Millisecond)
		}
		w.tell(c.name, "is paused for %v", d)
		c.paused = max(c.paused, w.now+d)
	})
	w.often(f.Suspends, 3*time.Second, func() {
		c := w.clients[w.rand.IntN(len(w.clients))]
		if c.paused > w.now {
			return
		}
		d := w.upTo(2 * time.Second)
		w.tell(c.name, "is suspended for %v, and its clock with it", d)
		c.paused = w.now + d
		w.at(c.paused, func() { c.blind += d })
	})
	w.often(f.Partitions, 800*time.Millisecond, func() {
		c := w.rand.IntN(len(w.clients))
		w.cut[c] = w.rand.IntN(len(w.hosts) + 1)
	})
	w.often(f.NodeSteps, 2*time.Second, func() {
		h := w.hosts[w.rand.IntN(len(w.hosts))]
		d := w.spread(2 * time.Second)
		w.tell(h.name(), "has its clock set by %v", d)
		h.offset += d
	})
	w.often(f.Restarts, 2*time.Second, w.fail)
	w.often(f.Restarts, time.Second, func() {
		h := w.hosts[w.rand.IntN(len(w.hosts))]
		h.snapshot = *h.Node
	})
}

// often lets f happen again and again, at random times about so far apart.
func (w *world) often(yes bool, every time.Duration, f func()) {
	if !yes {
		return
	}
	w.after(w.upTo(2*every), func() {
		if w.now < w.cfg.For {
			f()
			w.often(true, every, f)
		}
	})
}

// fail lets servers lose their memory: one, or several at once.
func (w *world) fail() {
	n := 1
	if w.cfg.Faults.Together {
		n += w.rand.IntN(len(w.hosts))
	}
	for _, i := range w.rand.Perm(len(w.hosts))[:n] {
		h := w.hosts[i]
		switch w.rand.IntN(4) {
		case 0:
			w.tell(h.name(), "is flushed")
			h.flush()
		case 1:
			w.reboot(h, h.snapshot, "an old snapshot")
		case 2:
			w.reboot(h, Node{}, "nothing")
		case 3:
			d := w.upTo(1500 * time.Millisecond)
			w.tell(h.name(), "is frozen for %v", d)
			h.frozen = w.now + d
		}
	}
}

// reboot stops the server, and starts it after a while from what it remembers.
func (w *world) reboot(h *host, snapshot Node, from string) {
	if h.down {
		return
	}
	h.down = true
	w.tell(h.name(), "is killed")
	w.after(w.upTo(300*time.Millisecond), func() {
		w.runs++
		h.down = false
		h.restart(snapshot, w.runs, h.clock())
		w.tell(h.name(), "is up again with %s", from)
	})
}

// decided is what a client does with an attempt that is decided.
func (w *world) decided(c *client, a *attempt, o ballot.Outcome) {
	if o == ballot.Lost {
		return // the holder's turn finds out
	}
	if o != ballot.Won {
		c.losses++
		window := min(20*time.Millisecond<<min(c.losses, 5), 400*time.Millisecond)
		w.goOn(c, 10*time.Millisecond+w.upTo(window))
		return
	}
	c.losses = 0
	l := a.lease
	hold := w.upTo(1200 * time.Millisecond)
	if w.chance(0.3) {
		hold = w.upTo(30 * time.Millisecond)
	}
	end := c.mono() + hold
	w.work(c, l, end)
}

// work is one turn of a holder: write, renew, or let go.
func (w *world) work(c *client, l *lease, end time.Duration) {
	if !l.Valid() || c.mono() >= end {
		l.release() // of one that is lost too: what is left is not wanted
		w.goOn(c, w.upTo(100*time.Millisecond))
		return
	}
	if w.chance(0.6) {
		w.after(w.delay(), func() { w.write(l) })
	}
	if c.mono() >= l.renewed+maxTTL/3 {
		l.renewed = c.mono()
		l.renew()
	}
	c.after(20*time.Millisecond+w.upTo(130*time.Millisecond), func() { w.work(c, l, end) })
}

// goOn lets a client try again later.
func (w *world) goOn(c *client, d time.Duration) {
	if w.now < w.cfg.For {
		c.after(d, func() { c.acquire() })
	}
}
