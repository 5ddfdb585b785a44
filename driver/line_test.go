package driver_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
)

// FuzzLineKeepsTheOneRule plays any sequence of operations on a Line and on a
// model of it, and compares what they answer and where they stand.
func FuzzLineKeepsTheOneRule(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 1, 0, 0, 3, 0, 0, 0, 0, 1, 0, 0})
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		ops := make([]byte, 400)
		for i := range ops {
			ops[i] = byte(r.Uint32())
		}
		f.Add(ops)
	}
	f.Fuzz(func(t *testing.T, ops []byte) {
		g := &game{T: t, model: newModel(), now: driver.Instant{Wall: time.Unix(1e9, 0)}}
		for len(ops) >= 4 {
			g.step(ops[0], ops[1], ops[2], ops[3])
			ops = ops[4:]
		}
	})
}

// recipes are the claims that take part.
var recipes = []struct{ weight, capacity int }{
	{1, 1}, {1, driver.Unlimited}, {driver.Unlimited, driver.Unlimited},
	{1, 3}, {2, 3}, {3, 3}, {1, 2}, {2, 5}, {4, 5}, {driver.Unlimited - 1, driver.Unlimited},
}

type game struct {
	*testing.T
	line  driver.Line
	model *model
	now   driver.Instant
	turns [5]int // of the IDs of each client
}

// step plays one operation: what, by which client, with what claim, how much
// later.
func (g *game) step(what, who, claim, later byte) {
	g.now.Clock += time.Duration(later%16) * time.Millisecond
	g.now.Wall = g.now.Wall.Add(time.Duration(int8(later)) * time.Second) // set back as often as not
	g.model.pass(g.now.Clock)
	client := int(who) % len(g.turns)
	id := fmt.Sprint(client, ".", g.turns[client])
	if c := g.model.claims[id]; c == nil && g.model.granted[id] && g.model.lastID != id && !g.model.forced[id] {
		g.turns[client]++ // nobody acquires again with an ID that has ended
		id = fmt.Sprint(client, ".", g.turns[client])
	}
	shape := recipes[int(claim)%len(recipes)]
	c := driver.Claim{
		Key: "k", ID: id, Weight: shape.weight, Capacity: shape.capacity,
		TTL: time.Duration(1+claim/16) * 10 * time.Millisecond, Queue: who&0x80 != 0, Block: int(claim / 32),
	}
	if old := g.model.claims[id]; old != nil {
		c.Grant = old.Grant
	}
	switch what % 8 {
	case 0, 1, 2:
		if what&0x80 != 0 {
			c.Floor = g.model.top + uint64(claim)*1000
		}
		g.acquire(c)
	case 3:
		if what&0x80 != 0 {
			c.Grant.Token++ // not its own
		}
		if what&0x40 != 0 {
			c.Floor = g.model.top + uint64(claim)
		}
		got, err := g.line.Renew(c, g.now)
		g.compare("Renew", c, err, g.model.renew(c, g.now.Clock))
		if err == nil && (got.Token != c.Grant.Token || got.TTL != c.TTL) {
			g.Fatalf("Renew of %+v: got %+v", c, got)
		}
	case 4, 5:
		if what&0x80 != 0 {
			c.Keep = time.Duration(claim) * time.Millisecond
		}
		if what&0x40 != 0 {
			c.Grant = driver.Grant{} // its answer was lost
		}
		err := g.line.Release(c, g.now)
		g.compare("Release", c, err, g.model.release(c, g.now.Clock))
		if g.model.claims[id] == nil {
			g.turns[client]++ // its release was sent: the ID is used up
		}
	case 6:
		force := what&0x80 != 0
		err := g.line.Revoke(id, driver.Notice{Force: force, By: "op"}, g.now)
		g.compare("Revoke", c, err, g.model.revoke(id, force))
	case 7:
		g.line.Expire(g.now)
	}
	g.same()
}

func (g *game) acquire(c driver.Claim) {
	before := g.model.claims[c.ID]
	wasHeld := before != nil && before.held
	ready := g.line.Ready(c, g.now)
	got, err := g.line.Acquire(c, g.now)
	want := g.model.acquire(c, g.now.Clock)
	g.compare("Acquire", c, err, want)
	if ready != (want != held) && want != lost {
		g.Fatalf("Ready(%+v): got %v, and then Acquire was %s", c, ready, want)
	}
	switch now := g.model.claims[c.ID]; {
	case want == yes && wasHeld:
		if got.Token != now.Grant.Token || got.Block != now.Grant.Block {
			g.Fatalf("repeated Acquire of %+v: got %+v, want %+v", c, got, now.Grant)
		}
	case want == yes:
		if got.Token <= g.model.top || got.Block != max(c.Block, 1) {
			g.Fatalf("Acquire of %+v: got %d+%d, want a token above %d", c, got.Token, got.Block, g.model.top)
		}
		now.Grant = got
		g.model.top = got.Token + uint64(got.Block) - 1
	case want == held:
		g.place(c, err)
	}
}

// place checks what a refused claim is told.
func (g *game) place(c driver.Claim, err error) {
	var h *driver.HeldError
	errors.As(err, &h)
	want := 0
	for _, id := range g.model.order {
		if !g.model.claims[id].held {
			want++
		}
		if id == c.ID {
			break
		}
	}
	if !c.Queue {
		want = 0
	}
	in := g.model.claims[h.Holder.ID]
	if h.Place != want || in == nil || h.Left != in.ends-g.now.Clock || h.Last != g.model.top {
		g.Fatalf("Acquire of %+v: got %+v, want place %d, the last token %d, and a live claim in the way", c, h, want, g.model.top)
	}
}

func (g *game) compare(op string, c driver.Claim, err error, want outcome) {
	g.Helper()
	got := yes
	switch {
	case errors.Is(err, driver.ErrHeld):
		got = held
	case errors.Is(err, driver.ErrLost):
		got = lost
	case err != nil:
		got = outcome(err.Error())
	}
	if got != want && !(want == unsure && (got == yes || got == lost)) {
		g.Fatalf("%s of %+v: got %s, want %s", op, c, got, want)
	}
}

// same compares where the two stand.
func (g *game) same() {
	g.Helper()
	g.model.pass(g.now.Clock)
	st := g.line.Inspect(100, g.now)
	var holding, waiting, got []string
	first, any := time.Duration(0), false
	for _, id := range g.model.order {
		c := g.model.claims[id]
		if c.held {
			holding = append(holding, id)
		} else {
			waiting = append(waiting, id)
		}
		if !any || c.ends < first {
			first, any = c.ends, true
		}
	}
	for _, h := range st.Holders {
		got = append(got, h.ID)
		if c := g.model.claims[h.ID]; c == nil || h.Held != c.held || h.Left != c.ends-g.now.Clock || h.Weight != c.Weight || h.Capacity != c.Capacity {
			g.Fatalf("Inspect: got %+v, want %+v", h, c)
		}
	}
	if !slices.Equal(got, append(holding, waiting...)) || st.Waiting != len(waiting) || st.Last != g.model.top {
		g.Fatalf("Inspect: got %v, %d waiting, last %d, want %v and %v, last %d", got, st.Waiting, st.Last, holding, waiting, g.model.top)
	}
	if next, ok := g.line.NextExpiry(); ok != any || next != first {
		g.Fatalf("NextExpiry: got %v, %v, want %v, %v", next, ok, first, any)
	}
	g.sound(holding)
}

// sound checks the point of it all: nobody beside an exclusive holder.
func (g *game) sound(holding []string) {
	g.Helper()
	var units, capacity int64
	for _, id := range holding {
		c := g.model.claims[id]
		if c.Exclusive() && len(holding) > 1 {
			g.Fatalf("%v hold, and one of them is exclusive: %+v", holding, c)
		}
		units += int64(c.Weight)
		capacity = max(capacity, int64(c.capacity))
	}
	if units > capacity {
		g.Fatalf("%v hold %d units of %d", holding, units, capacity)
	}
}
