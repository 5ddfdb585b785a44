package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
	"github.com/pawlock/pawl/cmd/pawl/internal/proc"
	"github.com/pawlock/pawl/driver"
)

// lost stops the command because the lease has ended, or is about to.
func (j *job) lost() error {
	lease, now := j.hold.weakest(), time.Now()
	since := j.sinceRenewed(lease)
	j.stopping.Store(true)
	others := max(0, len(j.tree.Processes())-1)
	lost := lostReason(lease)
	early := lost == nil // it can't be renewed, but has not ended
	grace := j.timing.killAfter
	switch {
	case early:
		grace = max(0, time.Until(lease.Deadline())-j.timing.margin)
	case j.overslept(lost, since):
		grace = 0 // the end of the lease is past: somebody else may be at work
	}
	kill := proc.Now()
	if grace > 0 {
		kill = time.After(grace)
	}
	stopped := j.stop(kill)
	text := "LOCK LOST %s (fence %d): %s\n      stopping %s"
	if others > 0 {
		text += " and " + plain.Count(others, "child process", "child processes")
	}
	if grace > 0 {
		text += ": " + signalName(j.killSignal) + " sent, KILL in " + plain.Duration(grace)
	} else {
		text += ": KILL sent"
	}
	j.program.say(text, plain.Quote(lease.Key()), lease.Token(), j.lostWhy(lost, since), j.name())
	j.tellLoss(lease, lost)
	survivors := <-stopped
	j.tellExit()
	j.tellSurvivors(survivors)
	if early && j.hold.Check(0) == nil && len(survivors) == 0 {
		j.program.more("it was stopped before the lease ended")
	} else {
		j.program.more("it may have run unlocked for up to %s%s", plain.Duration(since+time.Since(now)), j.successor(lease))
	}
	j.release()
	return &failure{code: exitLost}
}

// lostAtEnd is for a command that had ended when the lock was found to be lost.
func (j *job) lostAtEnd() error {
	j.stopping.Store(true)
	lease := j.hold.weakest()
	since := j.sinceRenewed(lease)
	j.release()
	if lostReason(lease) == nil {
		lease = j.hold.weakest() // the release has told
	}
	if j.tolerant.told {
		return &failure{code: exitLost}
	}
	lost := lostReason(lease)
	j.program.say("LOCK LOST %s (fence %d): %s\n      %s has ended; it may have run unlocked for up to %s%s", plain.Quote(lease.Key()), lease.Token(),
		j.lostWhy(lost, since), j.name(), plain.Duration(since), j.successor(lease))
	j.tellLoss(lease, lost)
	return &failure{code: exitLost}
}

// tellLoss is the event that the lock is lost.
func (j *job) tellLoss(lease *pawl.Lease, lost *pawl.LostError) {
	why := driver.Expired // it is about to be
	if lost != nil {
		why = lost.Reason
	}
	j.events.tell(event{Event: "lost", Lock: lease.Key(), Fence: lease.Token(), Reason: why})
}

// overslept reports whether the lease ended by the clock. A store that has no
// trace of a claim calls it expired, too, but then it was renewed not long ago.
func (j *job) overslept(lost *pawl.LostError, since time.Duration) bool {
	ttl := j.hold.ttl()
	return lost.Reason == driver.Suspended || lost.Reason == driver.Expired && since > ttl-ttl/10
}

// successor says who has the lock now, if that can be found out soon.
func (j *job) successor(lease *pawl.Lease) string {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	state, err := j.hold.store.Inspect(ctx, lease.Key(), 1)
	if err != nil || !held(state) || state.Holders[0].ID == lease.Holder() {
		return ""
	}
	h := state.Holders[0]
	text := "; now held by " + holderOf(h)
	if h.Grant.Token != 0 {
		text += fmt.Sprintf(" (fence %d)", h.Grant.Token)
	}
	return text
}

// lostReason returns why the lease has ended, nil if it has not.
func lostReason(lease *pawl.Lease) *pawl.LostError {
	var lost *pawl.LostError
	if err := lease.Check(0); errors.As(err, &lost) {
		return lost
	}
	return nil
}

func (j *job) lostWhy(lost *pawl.LostError, since time.Duration) string {
	if lost == nil {
		return "not renewed for " + plain.Duration(since)
	}
	switch lost.Reason {
	case driver.Expired:
		if j.overslept(lost, since) {
			return "not renewed for " + plain.Duration(since)
		}
		return "it is gone from the store, by deletion, eviction or a failover"
	case driver.Stolen:
		return "somebody else holds it"
	case driver.Deleted:
		return "it is gone from the store, by deletion, eviction or a failover"
	case driver.Suspended:
		return "this machine was suspended for longer than the lease"
	case driver.Forced:
		if n := lost.Notice; n != nil {
			why := ""
			if n.Why != "" {
				why = " (" + plain.Text(n.Why) + ")"
			}
			return "forced by " + byWhom(n.By) + why
		}
	}
	return plain.Text(lost.Reason)
}
