package pawl

import (
	"time"

	"github.com/pawlock/pawl/internal/term"
)

// A Clock is where a client reads the time: a seam for simulations. Timers are
// those of package time; a Clock that runs differently only makes them look
// early or late, and the clock decides. Its methods are called concurrently.
type Clock interface {
	// Now returns the time with a monotonic reading, as time.Now does.
	Now() time.Time

	// Slept returns for how long the machine has been suspended since some
	// fixed moment. The monotonic reading of Now does not count that time,
	// but the store does. It never decreases.
	Slept() time.Duration
}

// realClock is the default Clock. Suspensions are read from the system where it
// has a clock that counts them; see slept.
type realClock struct{ sleep *sleepMeter }

func (realClock) Now() time.Time         { return time.Now() }
func (c realClock) Slept() time.Duration { return c.sleep.slept() }

// now reads the client's clock as the time since the client was made,
// suspensions included.
func (c *Client) now() term.Instant {
	slept := c.opts.Clock.Slept() - c.slept0
	return term.Instant{At: c.opts.Clock.Now().Sub(c.start) + slept, Slept: slept}
}

// time turns an instant of the client's clock into a time.Time with a monotonic
// reading, which is right as long as the machine is not suspended.
func (c *Client) time(at time.Duration) time.Time {
	now := c.opts.Clock.Now()
	slept := c.opts.Clock.Slept() - c.slept0
	return now.Add(at - now.Sub(c.start) - slept)
}
