package term_test

import (
	"math"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/term"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// config is that of a client with default options and a TTL of 10 s.
var config = term.Config{RenewEvery: 10 * sec / 3, Drift: 0.01}

func at(d time.Duration) term.Instant { return term.Instant{At: d} }

func start(t *testing.T, cfg term.Config, ttl time.Duration, sent, now time.Duration) term.Term {
	t.Helper()
	tm, ok := term.Start(cfg, ttl, at(sent), at(now))
	if !ok {
		t.Fatalf("Start(ttl %v, sent %v, now %v): nothing left", ttl, sent, now)
	}
	return tm
}

// A lease of a store's TTL ends a margin before its deadline, both counted from
// the sending of the request.
func TestEndAndDeadline(t *testing.T) {
	for _, tt := range []struct {
		name          string
		cfg           term.Config
		ttl           time.Duration
		sent, now     time.Duration
		end, deadline time.Duration
	}{
		{"defaults", config, 10 * sec, 0, 0, 8898 * ms, 9898 * ms},
		{"counted from the request", config, 10 * sec, 5 * sec, 5100 * ms, 13898 * ms, 14898 * ms},
		{"two slow round trips are the margin", config, 10 * sec, 0, 1500 * ms, 6898 * ms, 9898 * ms},
		{"the margin is half the TTL at most", config, 10 * sec, 0, 4 * sec, 4898 * ms, 9898 * ms},
		{"a tenth of a short TTL", config, sec, 0, 0, 888 * ms, 988 * ms},
		{"a second of a long TTL", config, 100 * sec, 0, 0, 97998 * ms, 98998 * ms},
		{"grace is not the holder's", term.Config{RenewEvery: sec, Drift: 0.01, Grace: 5 * sec}, 15 * sec, 0, 0, 8898 * ms, 9898 * ms},
		{"more drift", term.Config{RenewEvery: sec, Drift: 0.2}, 10 * sec, 0, 0, 6998 * ms, 7998 * ms},
		{"the shortest TTL", config, 10 * ms, 0, 0, 6900 * time.Microsecond, 7900 * time.Microsecond},
		{"max-hold ends it first", term.Config{RenewEvery: sec, Drift: 0.01, MaxHold: 3 * sec}, 10 * sec, sec, sec, 4 * sec, 10898 * ms},
		{"the longest max-hold never does", term.Config{RenewEvery: sec, Drift: 0.01, MaxHold: math.MaxInt64}, 10 * sec, sec, sec, 9898 * ms, 10898 * ms},
	} {
		tm := start(t, tt.cfg, tt.ttl, tt.sent, tt.now)
		if got := tm.End(); got != tt.end {
			t.Errorf("%s: end: got %v, want %v", tt.name, got, tt.end)
		}
		if got := tm.Deadline(); got != tt.deadline {
			t.Errorf("%s: deadline: got %v, want %v", tt.name, got, tt.deadline)
		}
		if got, want := tm.Left(at(tt.now)), tt.end-tt.now; got != want {
			t.Errorf("%s: left: got %v, want %v", tt.name, got, want)
		}
		if got := tm.Left(at(tt.end)); got != 0 {
			t.Errorf("%s: left at its end: got %v, want 0", tt.name, got)
		}
	}
}

func TestNothingIsLeftOfALateGrant(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  term.Config
		ttl  time.Duration
		now  time.Duration
	}{
		{"it came at the end", config, 10 * sec, 4898 * ms}, // half the TTL is the margin by then
		{"it came after the deadline", config, 10 * sec, 11 * sec},
		{"the drift is all of it", term.Config{RenewEvery: ms, Drift: 0.01}, 2 * ms, 0},
		{"the grace is all of it", term.Config{RenewEvery: sec, Drift: 0.01, Grace: 10 * sec}, 10 * sec, 0},
		{"the grace is more than it", term.Config{RenewEvery: sec, Drift: 0.01, Grace: 20 * sec}, 10 * sec, 0},
		{"no TTL", config, 0, 0},
		{"max-hold is over", term.Config{RenewEvery: sec, Drift: 0.01, MaxHold: sec}, 10 * sec, sec},
	} {
		if tm, ok := term.Start(tt.cfg, tt.ttl, at(0), at(tt.now)); ok {
			t.Errorf("%s: got %v left, want a refusal", tt.name, tm.Left(at(tt.now)))
		}
	}
}

// The four outcomes of a renewal sent at 3 s.
func TestOutcomesOfARenewal(t *testing.T) {
	sent, now := at(3*sec), at(3100*ms)

	renewed := start(t, config, 10*sec, 0, 0)
	if !renewed.Renewed(10*sec, sent, now, 0) {
		t.Error("renewed: got refused, want accepted")
	}
	if got, want := renewed.End(), 11898*ms; got != want {
		t.Errorf("renewed: end: got %v, want %v", got, want)
	}
	if got := renewed.Sent(); got != sent {
		t.Errorf("renewed: sent: got %v, want %v", got, sent)
	}

	failed := start(t, config, 10*sec, 0, 0)
	failed.Try(sent)
	failed.Failed(now)
	if got, want := failed.End(), 8898*ms; got != want {
		t.Errorf("unknown or refused: end: got %v, want %v as before", got, want)
	}
	if got, want := failed.Next(), now.At+250*ms; got != want {
		t.Errorf("unknown or refused: next: got %v, want %v", got, want)
	}

	denied := start(t, config, 10*sec, 0, 0)
	denied.Deny(driver.Stolen)
	if denied.State() != term.Lost || denied.Reason() != driver.Stolen || denied.Left(now) != 0 {
		t.Errorf("denied: got state %v, reason %q, left %v, want lost at once", denied.State(), denied.Reason(), denied.Left(now))
	}
	if denied.Renewed(10*sec, sent, now, 0) {
		t.Error("a renewal revived a denied lease")
	}
	denied.Deny(driver.Forced)
	if got := denied.Reason(); got != driver.Stolen {
		t.Errorf("reason after a second denial: got %q, want the first", got)
	}
}

// A renewal whose answer comes when the lease is over changes nothing, also if
// nobody has looked at the clock meanwhile.
// Case A13.
func TestNothingRevivesALease(t *testing.T) {
	tm := start(t, config, 10*sec, 0, 0)
	if tm.Renewed(10*sec, at(8*sec), at(8898*ms), 0) {
		t.Error("a renewal that came at the end was accepted")
	}
	if tm.State() != term.Lost || tm.Reason() != driver.Expired {
		t.Errorf("got state %v, reason %q, want lost, expired", tm.State(), tm.Reason())
	}
	if tm.Release(at(8899 * ms)) {
		t.Error("the release of a lost lease was a success")
	}
	tm = start(t, config, 10*sec, 0, 0)
	if !tm.Release(at(sec)) || !tm.Release(at(20*sec)) {
		t.Error("a release, or a second one, of a live lease failed")
	}
	if tm.Renewed(10*sec, at(sec), at(2*sec), 0) || tm.State() != term.Released {
		t.Error("a renewal revived a released lease")
	}
	tm.Deny(driver.Stolen)
	if tm.State() != term.Released {
		t.Error("a released lease was lost")
	}
}

// Answers that overtake each other, and slow ones that make the margin wider,
// never take away what was promised.
func TestARenewalNeverShortensTheLease(t *testing.T) {
	tm := start(t, config, 10*sec, 0, 0)
	if !tm.Renewed(10*sec, at(5*sec), at(5010*ms), 0) {
		t.Fatal("refused")
	}
	end, next := tm.End(), tm.Next()
	if !tm.Renewed(10*sec, at(3*sec), at(8*sec), 0) { // sent before, answered after
		t.Fatal("refused")
	}
	if got := tm.End(); got != end {
		t.Errorf("end after a late answer: got %v, want %v as before", got, end)
	}
	if got := tm.Next(); got != next {
		t.Errorf("next renewal: got %v, want %v as before", got, next)
	}
	if !tm.Renewed(2*sec, at(9*sec), at(9*sec), 0) { // the store keeps less now
		t.Fatal("refused")
	}
	if got := tm.End(); got != end {
		t.Errorf("end after a shorter grant: got %v, want %v as before", got, end)
	}
}

// Whatever is lost on the way, a renewal is tried as long as the lease lasts,
// and the tries neither stop nor come in a burst.
func TestCadenceOfRetries(t *testing.T) {
	tm := start(t, config, 10*sec, 0, 0)
	var tries []time.Duration
	for now := at(0); ; {
		action, next := tm.Due(now)
		if action == term.Lose {
			break
		}
		if action == term.Renew {
			tries = append(tries, now.At)
			tm.Try(now)
			tm.Failed(now) // refused at once
			next = tm.Next()
		}
		now.At = next
	}
	want := []time.Duration{3333333333, 3583333333, 4083333333, 5083333333, 6749999999, 8416666665}
	if len(tries) != len(want) {
		t.Fatalf("tries: got %v, want %v", tries, want)
	}
	for i := range want {
		if tries[i] != want[i] {
			t.Errorf("try %d: got %v, want %v", i, tries[i], want[i])
		}
	}
	if tm.State() != term.Lost || tm.Reason() != driver.Expired {
		t.Errorf("got state %v, reason %q, want lost, expired", tm.State(), tm.Reason())
	}
}
