package redis

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawlock/pawl/driver"
)

// poll is how often a claim asks again that might be next, whatever the wake-up
// calls say: they can be lost, foreign holders send none, and the head of the
// line has a second to answer a call. Those further back ask more seldom.
const (
	poll    = 400 * time.Millisecond
	maxPoll = 5 * time.Second
)

// channel returns the name of the channel on which the store calls a client about
// k: one for all keys, but for a cluster one for each hash tag, kept where the
// keys are.
func (b *backend) channel(client string, k keys) string {
	if !b.sharded {
		return wakeChannel + client
	}
	start, end, _ := hashTag(k.line)
	return wakeChannel + "{" + k.line[start:end] + "}:" + client
}

// channelField returns what a record has for the channel. It can't have a hash
// tag, with spaces maybe: the scripts put that in.
func (b *backend) channelField(client string) string {
	if !b.sharded {
		return wakeChannel + client
	}
	return wakeChannel + "{}:" + client
}

const wakeChannel = "pawl:wake:"

// Wait implements driver.Backend. It returns early rather than late: when the
// claim is called, when the claim in the way ends, and after a while anyway,
// since the place in line has to be kept alive.
func (b *backend) Wait(ctx context.Context, c driver.Claim, h *driver.HeldError) error {
	began := time.Now()
	pause := pauseFor(c, h)
	if !c.Queue && strings.Contains(c.ID, "~") && !b.sharded {
		return b.waitUntilFree(ctx, c, h, pause)
	}
	called, listening := b.wakeup.calls(c.ID)
	if !listening {
		// The Acquire was not sent after the subscription was confirmed, so a
		// call may have been missed: it is repeated as soon as there is one.
		if c.Queue {
			if id, ok := driver.ParseID(c.ID); ok && b.wakeup.listen(ctx, b.channel(id.Client, b.names.of(c.Key)), min(pause, poll)) {
				return nil
			}
		}
		pause = min(pause, poll)
	}
	timer := time.NewTimer(pause - time.Since(began))
	defer timer.Stop()
	for {
		select {
		case call := <-called:
			if call != callNext {
				return nil
			}
			timer.Reset(min(poll, pause-time.Since(began)))
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// waitUntilFree waits like Wait for an attempt of a quorum, which stays in no
// line: the release of another attempt tells all who listen. What came before the
// subscription was confirmed is found by asking again.
func (b *backend) waitUntilFree(ctx context.Context, c driver.Claim, h *driver.HeldError, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	channel := freeChannel + b.names.lock(c.Key)
	waiter := fmt.Sprintf("%s#%d", channel, b.waiters.Add(1)) // several may wait with one ID
	defer b.wakeup.forget(waiter)
	b.wakeup.expect(waiter, channel, pause)
	called, listening := b.wakeup.calls(waiter)
	if !listening && b.wakeup.listen(ctx, channel, pause) {
		b.wakeup.expect(waiter, channel, pause)
		called, _ = b.wakeup.calls(waiter)
	}
	if b.wakeup.freedAfter(channel, h.Now) {
		return nil
	}
	select {
	case <-called:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const freeChannel = "pawl:free:"

func isFreeChannel(name string) bool { return strings.HasPrefix(name, freeChannel) }

// pauseFor returns how long c may wait uncalled.
func pauseFor(c driver.Claim, h *driver.HeldError) time.Duration {
	pause := poll
	if h.Place > 2 {
		pause = min(maxPoll, time.Duration(h.Place-1)*poll)
	}
	if h.Place <= 1 && h.Left >= 0 {
		pause = min(pause, h.Left+time.Millisecond) // the store rounds down
	}
	if c.Queue {
		pause = min(pause, c.TTL/3)
	}
	return pause
}
