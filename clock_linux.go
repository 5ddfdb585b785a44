package pawl

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// A sleepMeter measures for how long the machine has been suspended: the growth
// of the difference between CLOCK_BOOTTIME, which counts suspensions, and
// CLOCK_MONOTONIC, which does not and is what Go's monotonic clock reads.
//
// Both are read from the kernel, also in a synctest bubble: there the
// difference stays what it is while the bubble's own time jumps.
type sleepMeter struct {
	base time.Duration // the difference when the meter was made
	last atomic.Int64  // the most that was ever read, in nanoseconds
}

const (
	clockMonotonic = 1
	clockBoottime  = 7

	// Two readings can't be taken at one instant. A difference below this is
	// the time between them and no suspension; it is less than what every
	// lease gives away for coarse clocks.
	readingGap = time.Millisecond
)

func newSleepMeter() *sleepMeter {
	m := &sleepMeter{}
	m.base = m.difference()
	return m
}

func (m *sleepMeter) slept() time.Duration {
	// The monotonic clock is read first: a pause between the two readings
	// makes the suspension look longer, never shorter.
	mono := kernelClock(clockMonotonic)
	d := kernelClock(clockBoottime) - mono - m.base
	if last := time.Duration(m.last.Load()); d < last+readingGap {
		return last
	}
	d = m.difference() - m.base
	for {
		last := m.last.Load()
		if int64(d) < last+int64(readingGap) {
			return time.Duration(last)
		}
		if m.last.CompareAndSwap(last, int64(d)) {
			return d
		}
	}
}

// difference is the least of several readings, the one that was interrupted
// least.
func (m *sleepMeter) difference() time.Duration {
	var least time.Duration
	for i := range 5 {
		mono := kernelClock(clockMonotonic)
		d := kernelClock(clockBoottime) - mono
		if i == 0 || d < least {
			least = d
		}
	}
	return least
}

// kernelClock reads a clock by system call. Both exist on every Linux that Go
// runs on.
func kernelClock(id uintptr) time.Duration {
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
