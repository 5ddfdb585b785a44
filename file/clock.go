package file

import (
	"time"

	"github.com/pawlock/pawl/driver"
)

// unknownBoot stands for the boot on systems that have no name for it. There a
// reboot is known by a clock that went back, and claims that it did not show
// end with their TTL.
const unknownBoot = "-"

// A clock measures the time since the machine was started, sleep included.
// Nobody can set it.
type clock struct {
	boot  string // differs between any two boots; unknownBoot if there is no such name
	since func() (time.Duration, error)
	wall  func() time.Time
}

// at returns the instant for a line that was last written as h says, and
// whether that was in this boot.
func (c clock) at(h header) (now driver.Instant, same bool, err error) {
	since, err := c.since()
	if err != nil {
		return now, false, err
	}
	same = h.boot == c.boot
	if since < h.clock && same {
		if c.boot == unknownBoot {
			same = false
		} else {
			since = h.clock // never set back: claims then last longer, not shorter
		}
	}
	return driver.Instant{Clock: since, Wall: c.wall()}, same, nil
}
