package term_test

import (
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/term"
)

// A renewal that nobody answers is repeated when its patience is over, and not
// before.
func TestSilenceIsTriedAgain(t *testing.T) {
	tm := start(t, config, 10*sec, 0, 0)
	now := at(tm.Next())
	timeout := tm.Try(now)
	if got, want := timeout, 10*sec/6; got != want {
		t.Errorf("patience: got %v, want %v", got, want)
	}
	if action, next := tm.Due(now); action != term.Nothing || next != now.At+timeout {
		t.Errorf("due at once after a try: got %v, %v; want nothing until %v", action, next, now.At+timeout)
	}
	if action, _ := tm.Due(at(now.At + timeout)); action != term.Renew {
		t.Errorf("due after the patience: got %v, want a renewal", action)
	}
	if got, want := tm.Try(at(8*sec)), 898*ms; got != want {
		t.Errorf("patience near the end: got %v, want what is left, %v", got, want)
	}
}

// Calling Renew in vain over and over must not put off the renewal that works.
func TestFailuresDoNotPutOffTheNextRenewal(t *testing.T) {
	tm := start(t, config, 10*sec, 0, 0)
	due := tm.Next()
	for now := time.Duration(0); now < due; now += 100 * ms {
		tm.Failed(at(now))
		if got := tm.Next(); got > due {
			t.Fatalf("after a failure at %v the renewal is due at %v, later than %v as before", now, got, due)
		}
	}
}

// Whatever the options are, the first renewal is due while a third of the lease
// is left.
func TestARenewalIsDueInTime(t *testing.T) {
	for _, ttl := range []time.Duration{10 * ms, 100 * ms, 10 * sec, time.Hour} {
		for _, drift := range []float64{0.0001, 0.01, 0.2, 0.45, 0.499} {
			for _, rtt := range []time.Duration{0, ttl / 20, ttl / 6} {
				cfg := term.Config{RenewEvery: ttl / 2, Drift: drift}
				tm, ok := term.Start(cfg, ttl, at(0), at(rtt))
				if !ok {
					continue
				}
				if !tm.Renewed(ttl, at(rtt), at(rtt), cfg.RenewEvery/10) { // the most jitter
					t.Errorf("ttl %v, drift %v, rtt %v: renewal refused", ttl, drift, rtt)
				}
				if got, latest := tm.Next(), rtt+(tm.End()-rtt)*2/3; got > latest {
					t.Errorf("ttl %v, drift %v, rtt %v: renewal due at %v of %v, want by %v", ttl, drift, rtt, got, tm.End(), latest)
				}
			}
		}
	}
}

func TestMaxHoldEndsALeaseThatIsRenewed(t *testing.T) {
	cfg := config
	cfg.MaxHold = 15 * sec
	tm := start(t, cfg, 10*sec, 2*sec, 2*sec)
	for now := 2 * sec; now < 17*sec; now += sec {
		if action, _ := tm.Due(at(now)); action == term.Lose {
			t.Fatalf("lost at %v", now)
		}
		if !tm.Renewed(10*sec, at(now), at(now), 0) {
			t.Fatalf("renewal at %v refused", now)
		}
	}
	if got := tm.Left(at(17*sec - 1)); got != 1 {
		t.Errorf("left a nanosecond before: got %v, want 1ns", got)
	}
	if action, _ := tm.Due(at(17 * sec)); action != term.Lose || tm.Reason() != driver.MaxHold {
		t.Errorf("at its end: got %v, reason %q, want lost, max-hold", action, tm.Reason())
	}
	if action, _ := tm.Due(at(18 * sec)); action != term.Nothing {
		t.Errorf("told twice: got %v, want nothing", action)
	}
}

// The reason is what ended the lease, and not what came by before anyone
// looked.
// Case P04.
func TestReasonIsWhatEndedTheLeaseFirst(t *testing.T) {
	asleep := func(at, slept time.Duration) term.Instant { return term.Instant{At: at, Slept: slept} }
	limited := config
	limited.MaxHold = 60 * sec
	for _, tt := range []struct {
		name string
		cfg  term.Config
		now  term.Instant
		want string
	}{
		{"nobody renewed", config, at(8898 * ms), driver.Expired},
		{"slept past the end", config, asleep(3600*sec, 3599*sec), driver.Suspended},
		{"slept a little, and expired awake", config, asleep(9*sec, 50*ms), driver.Expired},
		{"slept a little, and that was decisive", config, asleep(9*sec, sec), driver.Suspended},
		{"slept past the end and past max-hold", limited, asleep(3600*sec, 3599*sec), driver.Suspended},
		{"expired, and seen after max-hold", limited, at(70 * sec), driver.Expired},
	} {
		tm := start(t, tt.cfg, 10*sec, 0, 0)
		if got := tm.Left(tt.now); got != 0 {
			t.Errorf("%s: left: got %v, want 0 before anything is due", tt.name, got)
		}
		if action, _ := tm.Due(tt.now); action != term.Lose || tm.Reason() != tt.want {
			t.Errorf("%s: got %v, reason %q, want lost, %s", tt.name, action, tm.Reason(), tt.want)
		}
	}
}

// What was slept before the last renewal has nothing to do with the end of it.
func TestSleepBeforeARenewalIsForgiven(t *testing.T) {
	tm := start(t, config, 10*sec, 0, 0)
	sent := term.Instant{At: 8 * sec, Slept: 7 * sec}
	if !tm.Renewed(10*sec, sent, sent, 0) {
		t.Fatal("refused")
	}
	now := term.Instant{At: 17 * sec, Slept: 7 * sec}
	if action, _ := tm.Due(now); action != term.Lose || tm.Reason() != driver.Expired {
		t.Errorf("got %v, reason %q, want lost, expired", action, tm.Reason())
	}
}

func TestJitterMovesTheNextRenewalAndNotTheEnd(t *testing.T) {
	for _, jitter := range []time.Duration{-333 * ms, 0, 333 * ms} {
		tm := start(t, config, 10*sec, 0, 0)
		if !tm.Renewed(10*sec, at(3*sec), at(3*sec), jitter) {
			t.Fatal("refused")
		}
		if got, want := tm.Next(), 3*sec+10*sec/3+jitter; got != want {
			t.Errorf("jitter %v: next: got %v, want %v", jitter, got, want)
		}
		if got, want := tm.End(), 11898*ms; got != want {
			t.Errorf("jitter %v: end: got %v, want %v", jitter, got, want)
		}
	}
}
