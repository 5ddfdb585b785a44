// Package term is the life of a lease as a pure state machine: when it is
// valid, when to renew it, when to call it lost. It reads no clock, starts no
// timer and does no I/O, so that each of its rules can be tested to the
// nanosecond.
//
// The rules, with S the moment before the last successful request was sent and
// TTL what the store keeps:
//
//   - The store can't end the claim before S + TTL. The lease's deadline is
//     that minus an allowance for clocks of unequal rate. It is never counted
//     from the moment of the answer.
//   - Loss is told a margin before the deadline, by the clock alone, whatever
//     any request is doing.
//   - A renewal that is refused or whose outcome is unknown changes nothing:
//     it is tried again while the lease lasts.
//   - A renewal that says "not yours" is loss at once.
//   - Loss is final. A renewal that succeeds afterwards revives nothing.
package term

import (
	"time"

	"github.com/pawlock/pawl/driver"
)

// An Instant is a reading of the holder's clock.
type Instant struct {
	At    time.Duration // time that has passed, suspensions of the machine included
	Slept time.Duration // how much of At the machine was suspended
}

// A Config says how a lease is to be kept.
type Config struct {
	RenewEvery time.Duration // between renewals
	Grace      time.Duration // part of the store's TTL that is not the holder's
	Drift      float64       // share of the TTL given away to clocks of unequal rate
	MaxHold    time.Duration // the lease ends so long after its grant; 0 is never
}

// Epsilon is given away in every lease beside the drift: stores end claims on
// clocks that tick in milliseconds.
const Epsilon = 2 * time.Millisecond

// A State is what a lease is in.
type State int

// The states of a lease. Live is the only one that is ever left.
const (
	Live State = iota
	Lost
	Released
)

// An Action is what is due.
type Action int

// The actions that Due asks for.
const (
	Nothing Action = iota
	Renew          // call Try, send a renewal, and report what became of it
	Lose           // the lease has ended: Reason says why
)

// A Term is one lease. The zero value is of no use; Start makes one.
type Term struct {
	cfg    Config
	state  State
	reason string // why it was lost

	granted time.Duration // when the request that was granted was sent
	sent    Instant       // when the last request that succeeded was sent
	ttl     time.Duration // the holder's part of what the store gave then
	until   time.Duration // the store can't end the claim earlier
	end     time.Duration // a margin before until: when the loss is told
	rtt     time.Duration // smoothed, of renewals
	next    time.Duration // when to renew
	fails   int           // renewals since the last that succeeded
}

// Start returns the term of a grant with ttl whose request was sent at sent and
// whose answer came at now. It reports false if nothing useful is left of it:
// the claim is to be released.
func Start(cfg Config, ttl time.Duration, sent, now Instant) (Term, bool) {
	t := Term{cfg: cfg, granted: sent.At, rtt: now.At - sent.At}
	t.extend(ttl, sent, 0)
	return t, now.At < t.End()
}

// Due returns what is to be done at now and, if that is nothing, when to ask
// again. Lose is returned once; the term is lost from then on.
func (t *Term) Due(now Instant) (Action, time.Duration) {
	switch {
	case t.state != Live:
		return Nothing, 0
	case now.At >= t.End():
		t.lose(t.cause(now))
		return Lose, 0
	case now.At >= t.next:
		return Renew, 0
	}
	return Nothing, t.Next()
}

// Next returns when to call Due.
func (t *Term) Next() time.Duration { return min(t.next, t.End()) }

// Patience returns how long to wait for the answer to a renewal sent at now.
func (t *Term) Patience(now Instant) time.Duration { return min(t.ttl/6, t.End()-now.At) }

// Try notes that a renewal is about to be sent, and returns how long to wait
// for its answer. If none comes the next try is due then.
func (t *Term) Try(now Instant) time.Duration {
	timeout := t.Patience(now)
	t.next = now.At + timeout
	return timeout
}

// Renewed reports a renewal, sent at sent, that was answered with ttl at now.
// It returns false if it came too late to matter: the claim is to be released.
// The next renewal is moved by jitter, so that leases of the same age spread.
func (t *Term) Renewed(ttl time.Duration, sent, now Instant, jitter time.Duration) bool {
	t.Due(now)
	if t.state != Live {
		return false
	}
	t.rtt += (now.At - sent.At - t.rtt) / 4
	t.extend(ttl, sent, jitter)
	return true
}

// Failed reports a renewal that was refused, or whose outcome is unknown. The
// lease is as long as before, and another renewal is due soon: never later than
// it was, or whoever renews in vain again and again would put off the one that
// succeeds.
func (t *Term) Failed(now Instant) {
	t.fails++
	t.next = min(t.next, now.At+min(t.ttl/6, t.ttl/40<<min(t.fails-1, 3)))
}

// Deny reports that the store says the claim is not granted.
func (t *Term) Deny(reason string) {
	if t.state == Live {
		t.lose(reason)
	}
}

// Release ends the term, and reports whether it was still live: false means
// that the lease ended before it was released.
func (t *Term) Release(now Instant) bool {
	t.Due(now)
	if t.state == Live {
		t.state = Released
		return true
	}
	return t.state == Released
}

// HandOver returns the term of a hold that takes over what is left of a live one:
// it ends when the store's claim does, and has a MaxHold of its own. It reports
// false if less than a third of the TTL is left: renewals are failing, and whoever
// comes next had better ask the store.
func (t *Term) HandOver(now Instant) (Term, bool) {
	if t.Left(now) < t.ttl/3 {
		return Term{}, false
	}
	heir := *t
	heir.granted = now.At
	return heir, true
}

// Left returns for how long the lease is sure to last, 0 if it has ended. It
// says so before anyone has called Due: the clock decides, not a timer that may
// be late.
func (t *Term) Left(now Instant) time.Duration {
	if t.state != Live {
		return 0
	}
	return max(0, t.End()-now.At)
}

// End returns when the lease ends unless renewed, which is when its loss is
// told: a margin before its deadline, or when it has been held for MaxHold.
func (t *Term) End() time.Duration {
	if t.outlived(t.end) {
		return t.granted + t.cfg.MaxHold
	}
	return t.end
}

// outlived reports whether at is not before the end of MaxHold. Nothing is added
// to MaxHold, which may be the longest duration there is.
func (t *Term) outlived(at time.Duration) bool {
	return t.cfg.MaxHold > 0 && at-t.granted >= t.cfg.MaxHold
}

// Deadline returns the moment before which the store does not give the key to
// anyone else, if the assumptions about clocks hold.
func (t *Term) Deadline() time.Duration { return t.until }

// Sent returns when the last request that succeeded was sent.
func (t *Term) Sent() Instant { return t.sent }

// State returns what the lease is in.
func (t *Term) State() State { return t.state }

// Reason returns why the lease was lost, one of the reasons of
// driver.LostError.
func (t *Term) Reason() string { return t.reason }

// extend counts from the moment of sending. A lease never gets shorter by a
// renewal: answers may come in another order than they were sent, and one that
// was slow makes the margin wider. The next renewal is due while a third of the
// lease is left to repeat it in, whatever the drift, margin and RenewEvery are.
func (t *Term) extend(ttl time.Duration, sent Instant, jitter time.Duration) {
	ttl -= t.cfg.Grace
	until := sent.At + ttl - Drift(t.cfg.Drift, ttl)
	if until < t.until {
		return
	}
	t.until, t.ttl, t.sent, t.fails = until, ttl, sent, 0
	t.end = max(t.end, until-t.margin())
	t.next = sent.At + min(t.cfg.RenewEvery+jitter, (t.end-sent.At)*2/3)
}

// Drift returns what a lease of ttl gives away to clocks that may differ in
// rate by the share rate.
func Drift(rate float64, ttl time.Duration) time.Duration {
	return time.Duration(rate*float64(ttl)) + Epsilon
}

// margin is between the telling of the loss and the deadline: a tenth of the
// TTL but no more than a second, and two round trips where those are longer.
func (t *Term) margin() time.Duration {
	return min(max(min(t.ttl/10, time.Second), 2*t.rtt), t.ttl/2)
}

func (t *Term) lose(reason string) {
	t.state, t.reason = Lost, reason
}

// cause says why the clock has ended the lease. A machine that slept past the
// end is told from a store that did not answer: the work went on in neither
// case, but only the second is the store's affair.
func (t *Term) cause(now Instant) string {
	awake := now.At - (now.Slept - t.sent.Slept)
	switch {
	case t.outlived(t.end):
		return driver.MaxHold // it would have lasted longer
	case awake < t.End():
		return driver.Suspended
	}
	return driver.Expired
}
