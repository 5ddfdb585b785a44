package file

import (
	"time"

	"github.com/pawlock/pawl/driver"
)

// NewAt is New on a machine whose boot and clocks are given.
func NewAt(dir, boot string, since func() time.Duration, wall func() time.Time) (driver.Backend, error) {
	return open(dir, clock{boot: boot, wall: wall, since: func() (time.Duration, error) { return since(), nil }})
}

// What tests of the files themselves need.
var (
	RecordName = recordName
	KeyOf      = keyOf
)

// UnknownBoot is the boot of a system that has no name for it.
const UnknownBoot = unknownBoot
