package quorum

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pawlock/pawl/driver"
)

// Wait polls so often when no node tells that there is room: for a while after
// the last attempt, and then more and more seldom.
const (
	minPoll = 100 * time.Millisecond
	maxPoll = 800 * time.Millisecond
)

// maxGrowth is how often the pause after a wake-up doubles. Beyond, those who have
// lost most would go on losing to those who came last.
const maxGrowth = 5

// Wait implements driver.Backend. It returns when so many nodes have room that
// there may be a majority, after a random pause that grows with the attempts
// that others won: those who wait for the same key are woken at the same time.
func (b *Backend) Wait(ctx context.Context, c driver.Claim, held *driver.HeldError) error {
	refusals, losses := b.book.refusals(c.ID, len(b.seats))
	nodes := 0
	for _, r := range refusals {
		if r != nil {
			nodes++
		}
	}
	// Who was not in the way then has room, or can't be counted on.
	need := max(1, nodes-(len(b.seats)-b.majority()))
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan struct{}, len(b.seats))
	for i, r := range refusals {
		if r == nil {
			continue
		}
		s := b.seats[i]
		go func() {
			n := c
			n.ID, n.Queue, n.Block = c.ID+"~0", false, 1
			if s.Backend.Wait(inner, n, r) == nil {
				ready <- struct{}{}
			}
		}()
	}
	poll := min(minPoll<<min(losses, 5), maxPoll)
	poll = poll/2 + rand.N(poll)
	if held != nil && held.Left >= 0 && held.Left < poll {
		poll = held.Left + rand.N(2*time.Millisecond)
	}
	timer := time.NewTimer(poll)
	defer timer.Stop()
	for need > 0 {
		select {
		case <-ready:
			need--
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if losses > 1 {
		window := min(minPause<<min(losses, maxGrowth), b.timeout(c.TTL))
		return pause(ctx, rand.N(window))
	}
	return nil
}

// refusals returns who was in the way of the last attempt, by node, and how many
// attempts in a row others have won.
func (k *book) refusals(id string, nodes int) ([]*driver.HeldError, int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.claims[id]
	if e == nil || e.refuse == nil {
		return make([]*driver.HeldError, nodes), 0
	}
	return e.refuse, e.losses
}
