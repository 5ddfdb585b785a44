package quorum

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlock/pawl/internal/workers"
)

// A crew is the goroutines that talk to the nodes, and what they owe them:
// releases of what nobody wants any more, and revocations. Close waits for these,
// and not for answers that nobody needs.
type crew struct {
	*workers.Workers

	mu      sync.Mutex
	owed    int           // guarded by mu
	idle    chan struct{} // guarded by mu: closed when owed is 0, if somebody waits for that
	stopped chan struct{} // closed when Close has waited long enough
	closing atomic.Bool
}

func newCrew() *crew {
	stopped := make(chan struct{})
	return &crew{Workers: workers.New(stopped, 0), stopped: stopped}
}

// finish runs f on a goroutine that Close waits for.
func (c *crew) finish(f func()) {
	c.owe(1)
	go func() {
		defer c.owe(-1)
		f()
	}()
}

// owe adds n to what is owed.
func (c *crew) owe(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owed += n; c.owed == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// close waits until nothing is owed, but not for longer than d.
func (c *crew) close(d time.Duration) {
	if c.closing.Swap(true) {
		return
	}
	var idle chan struct{}
	c.mu.Lock()
	if c.owed > 0 {
		idle = make(chan struct{})
		c.idle = idle
	}
	c.mu.Unlock()
	if idle != nil {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-idle:
		case <-timer.C:
		}
	}
	close(c.stopped)
}
