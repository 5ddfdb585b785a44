//go:build !linux && !darwin && !windows

package file

import (
	"fmt"
	"runtime"

	"github.com/pawlock/pawl/driver"
)

func newClock() (clock, error) {
	return clock{}, fmt.Errorf("%w: no clock that outlives a process is known on %s", driver.ErrUnsupported, runtime.GOOS)
}
