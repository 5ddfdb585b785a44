package main

import (
	"context"
	"time"

	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
	"github.com/pawlock/pawl/cmd/pawl/internal/proc"
)

// tidyUp is how long a command has to stop by itself at a Ctrl-Z.
const tidyUp = 300 * time.Millisecond

// suspend stops the command, and then this process, because somebody has typed
// Ctrl-Z. Nobody renews the lock meanwhile. It returns when it goes on: what was
// stopped here stays so if the lock is lost by then.
func (j *job) suspend(typed bool) {
	lease := j.hold
	ctx, cancel := context.WithTimeout(context.Background(), confirmTimeout)
	_ = lease.Renew(ctx) // to have all of the TTL; a failure has been told
	cancel()
	grace := time.Duration(0)
	if typed {
		grace = tidyUp
	}
	j.tree.Pause(grace)
	left := time.Until(lease.Deadline())
	j.program.note("suspended; %s until %s (%s)", yours(len(lease.leases)), lease.Deadline().Format("15:04:05"), plain.Duration(left))
	j.events.tell(event{Event: "suspended", Fence: lease.first().Token(), EndsIn: milliseconds(max(0, left))})
	proc.Suspend()
	if lease.Check(j.timing.killAfter) != nil && j.onLost == "kill" {
		return // it is going to be killed, and need not run before
	}
	j.tree.Resume()
	j.events.tell(event{Event: "resumed", Fence: lease.first().Token(), EndsIn: milliseconds(max(0, time.Until(lease.Deadline())))})
}

func yours(locks int) string {
	if locks > 1 {
		return "the locks are yours"
	}
	return "the lock is yours"
}

// A toleration is what was done about a lock that is lost, or about to be, under
// a command that goes on nevertheless.
type toleration struct {
	warned bool // the command was sent its signal
	told   bool // the loss was told
}

// mayGoOn reports whether the command may go on, as the lease or --on-lost have
// it.
func (j *job) mayGoOn() bool {
	if j.hold.Check(j.timing.killAfter) == nil {
		return true
	}
	if j.onLost == "kill" {
		return false
	}
	lease := j.hold.weakest()
	since := j.sinceRenewed(lease)
	lost := lostReason(lease)
	warning := ""
	if j.onLost == "signal" && !j.tolerant.warned {
		j.tolerant.warned = true
		j.tree.Signal(j.lostSignal)
		warning = ": " + signalName(j.lostSignal) + " sent"
		if lost == nil {
			j.program.say("%s was not renewed for %s, and ends in %s\n      %s goes on%s (--on-lost=signal)", plain.Quote(lease.Key()),
				plain.Duration(since), plain.Duration(time.Until(lease.Deadline())), j.name(), warning)
		}
	}
	if lost != nil && !j.tolerant.told {
		j.tolerant.told = true
		j.stopping.Store(true)
		j.program.say("LOCK LOST %s (fence %d): %s\n      %s goes on, unlocked%s (--on-lost=%s)%s", plain.Quote(lease.Key()), lease.Token(),
			j.lostWhy(lost, since), j.name(), warning, j.onLost, j.successor(lease))
		j.tellLoss(lease, lost)
	}
	return true
}
