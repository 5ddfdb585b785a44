package pawl

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A machine that is not suspended has not slept, however long its processes
// wait, and the meter never goes back, whoever reads it.
// Case U14.
func TestSleepMeter(t *testing.T) {
	m := newSleepMeter()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := time.Duration(0)
			for range 5_000 {
				now := m.slept()
				if now < last {
					t.Errorf("the meter went back from %v to %v", last, now)
				}
				last = now
			}
		})
	}
	wg.Wait()
	// A machine that is suspended during the test would have slept.
	if got := m.slept(); got != 0 {
		t.Errorf("slept for %v without a suspension", got)
	}
}

// The time of a bubble jumps, and that of the machine does not: that is no
// sleep.
func TestSleepMeterInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newSleepMeter()
		for range 100 {
			time.Sleep(time.Hour)
			if got := m.slept(); got != 0 {
				t.Fatalf("slept for %v of the bubble's time", got)
			}
		}
	})
}

// The clock of a client begins with it, and its moments can be turned into
// times.
func TestClientsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &fixed{slept: time.Hour}
		c := &Client{opts: Options{Clock: clock}, start: clock.Now(), slept0: clock.Slept()}
		if got := c.now(); got.At != 0 || got.Slept != 0 {
			t.Errorf("at first: got %+v, want zero", got)
		}
		time.Sleep(time.Minute)
		clock.slept += time.Second
		if got := c.now(); got.At != 61*time.Second || got.Slept != time.Second {
			t.Errorf("after a minute and a second of sleep: got %+v", got)
		}
		if got, want := c.time(61*time.Second), time.Now(); !got.Equal(want) {
			t.Errorf("the present: got %v, want %v", got, want)
		}
		if got := time.Until(c.time(62 * time.Second)); got != time.Second {
			t.Errorf("a second ahead: got %v", got)
		}
	})
}

type fixed struct{ slept time.Duration }

func (*fixed) Now() time.Time         { return time.Now() }
func (f *fixed) Slept() time.Duration { return f.slept }

func BenchmarkNow(b *testing.B) {
	clock := realClock{newSleepMeter()}
	c := &Client{opts: Options{Clock: clock}, start: clock.Now(), slept0: clock.Slept()}
	for b.Loop() {
		c.now()
	}
}
