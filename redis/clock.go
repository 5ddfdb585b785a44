package redis

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A clock knows the server's clock from its answers, so that a request can say
// until when its sender waits. The zero value knows nothing yet.
type clock struct{ last atomic.Pointer[reading] }

// Clocks are those of all servers that the backend has heard of: one, unless it
// is a cluster. The zero value is ready.
type clocks struct {
	one  clock
	many sync.Map // name of the server -> *clock
}

// clockOf returns the clock of the server that has k. Where that can't be told it
// is one that knows nothing.
func (b *backend) clockOf(ctx context.Context, k keys) *clock {
	if !b.sharded {
		return &b.clocks.one
	}
	home, err := b.node.Home(ctx, k.lock)
	if err != nil {
		return new(clock)
	}
	c, ok := b.clocks.many.Load(home)
	if !ok {
		c, _ = b.clocks.many.LoadOrStore(home, new(clock))
	}
	return c.(*clock)
}

// A reading is the server's time in one answer. The clock stood there at some
// moment between the request and the answer.
type reading struct {
	answered time.Time // monotonic
	server   time.Time
	took     time.Duration // the exchange
}

// A reading is replaced by one that is more exact, or when it is old: clocks
// drift, and are set.
const readingLife = 10 * time.Second

// known reports whether the clock can tell a deadline.
func (c *clock) known() bool { return c.last.Load() != nil }

// learn takes note of the server's time in an answer, just received, to a
// request sent at sent. If it must be believed, the reading before has proved
// wrong.
func (c *clock) learn(sent, server time.Time, must bool) {
	now := time.Now()
	r := &reading{answered: now, server: server, took: now.Sub(sent)}
	old := c.last.Load()
	if must || old == nil || r.took <= old.took || now.Sub(old.answered) > readingLife {
		c.last.Store(r) // one that overtakes another is as good
	}
}

// deadline returns the deadline of ctx on the server's clock, in microseconds,
// and 0 if there is none or the server's clock is not known yet. It is never
// late, and early by no more than the exchange of the reading took: a slow
// answer must not let a later request be granted after its time.
func (c *clock) deadline(ctx context.Context) int64 {
	d, ok := ctx.Deadline()
	r := c.last.Load()
	if !ok || r == nil {
		return 0
	}
	return r.server.Add(d.Sub(r.answered)).UnixMicro()
}
