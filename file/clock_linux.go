package file

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

func newClock() (clock, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return clock{}, fmt.Errorf("the boot has no name: %w", err)
	}
	boot := strings.TrimSpace(string(id))
	if boot == "" || strings.ContainsAny(boot, " \n") || len(boot) > 64 {
		return clock{}, fmt.Errorf("the boot has an odd name: %q", boot)
	}
	offset, err := timeOffset()
	if err != nil {
		return clock{}, err
	}
	return clock{
		boot: boot,
		wall: time.Now,
		since: func() (time.Duration, error) {
			d, err := bootTime()
			return d - offset, err
		},
	}, nil
}

// bootTime reads CLOCK_BOOTTIME.
func bootTime() (time.Duration, error) {
	const clockBoottime = 7
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0, os.NewSyscallError("clock_gettime(CLOCK_BOOTTIME)", errno)
	}
	return time.Duration(ts.Nano()), nil
}

// timeOffset returns what this process's time namespace adds to the boot clock.
// Containers with different ones share the clock once it is taken off.
func timeOffset() (time.Duration, error) {
	text, err := os.ReadFile("/proc/self/timens_offsets")
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil // a kernel without time namespaces
	}
	if err != nil {
		return 0, err
	}
	return parseTimeOffset(string(text))
}

func parseTimeOffset(text string) (time.Duration, error) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != "boottime" && f[0] != "7" {
			continue
		}
		sec, err1 := strconv.ParseInt(f[1], 10, 64)
		nsec, err2 := strconv.ParseInt(f[2], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return 0, err
		}
		return time.Duration(sec)*time.Second + time.Duration(nsec), nil
	}
	return 0, fmt.Errorf("the time namespace has no offset of its boot clock: %q", text)
}
