package file

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"time"
)

// newClock names the boot by kern.bootsessionuuid: kern.boottime changes when
// the wall clock is set. For the same reason the wall clock less boottime is a
// clock that nobody sets.
func newClock() (clock, error) {
	boot, err := syscall.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return clock{}, fmt.Errorf("kern.bootsessionuuid: %w", err)
	}
	if len(boot) < 16 || len(boot) > 64 {
		return clock{}, fmt.Errorf("kern.bootsessionuuid is odd: %q", boot)
	}
	return clock{boot: boot, wall: time.Now, since: sinceBoot}, nil
}

func sinceBoot() (time.Duration, error) {
	for {
		before, err := bootTime()
		if err != nil {
			return 0, err
		}
		now := time.Now().Round(0) // without its monotonic reading
		after, err := bootTime()
		if err != nil {
			return 0, err
		}
		if before.Equal(after) { // else the wall clock was set in between
			return now.Sub(before), nil
		}
	}
}

func bootTime() (time.Time, error) {
	raw, err := syscall.Sysctl("kern.boottime") // a timeval, of which Sysctl cuts a zero byte at the end
	if err != nil {
		return time.Time{}, fmt.Errorf("kern.boottime: %w", err)
	}
	b := append([]byte(raw), 0, 0, 0, 0, 0, 0, 0, 0)
	if len(raw) < 11 {
		return time.Time{}, fmt.Errorf("kern.boottime has %d bytes", len(raw))
	}
	sec, usec := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:])
	return time.Unix(int64(sec), int64(usec)*1000), nil
}
