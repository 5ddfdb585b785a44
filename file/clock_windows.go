package file

import (
	"syscall"
	"time"
)

// newClock reads GetTickCount64, which counts sleep and which nobody sets.
// What Windows tells about the time of the boot moves with the wall clock, so
// there is no name for the boot.
func newClock() (clock, error) {
	tick := syscall.NewLazyDLL("kernel32.dll").NewProc("GetTickCount64")
	if err := tick.Find(); err != nil {
		return clock{}, err
	}
	return clock{boot: unknownBoot, wall: time.Now, since: func() (time.Duration, error) {
		low, high, _ := tick.Call() // high is the upper half where a uintptr has 32 bits
		ms := uint64(low)
		if ^uintptr(0)>>32 == 0 {
			ms |= uint64(high) << 32
		}
		return time.Duration(ms) * time.Millisecond, nil
	}}, nil
}
