package quorum

import (
	"sync"
	"sync/atomic"
	"time"
)

// A crew is the goroutines of a backend.
type crew struct {
	mu      sync.Mutex
	working int           // guarded by mu
	idle    chan struct{} // guarded by mu: closed when working is 0, if somebody waits for that
	stopped chan struct{} // closed when Close has waited long enough
	closing atomic.Bool
}

// start runs f on a goroutine.
func (c *crew) start(f func()) {
	c.mu.Lock()
	c.working++
	c.mu.Unlock()
	go func() {
		defer c.done()
		f()
	}()
}

func (c *crew) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.working--; c.working == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// close waits for the goroutines, but not for longer than d.
func (c *crew) close(d time.Duration) {
	if c.closing.Swap(true) {
		return
	}
	c.mu.Lock()
	idle := c.idle
	if c.working > 0 && idle == nil {
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
