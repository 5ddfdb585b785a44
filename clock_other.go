//go:build !linux

package pawl

import (
	"sync"
	"time"
)

// A sleepMeter measures for how long the machine has been suspended. Without a
// clock that counts suspensions it takes a wall clock that runs ahead of the
// monotonic one by more than a second for a suspension. A clock that was set
// forward looks the same: a lease may then end early, and never late.
type sleepMeter struct {
	mu    sync.Mutex
	last  time.Time     // guarded by mu
	total time.Duration // guarded by mu
}

const wallJump = time.Second

func newSleepMeter() *sleepMeter { return &sleepMeter{last: time.Now()} }

func (m *sleepMeter) slept() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	wall := now.Round(0).Sub(m.last.Round(0))
	ahead := wall - now.Sub(m.last)
	if ahead > wallJump {
		m.total += ahead
	}
	m.last = now
	return m.total
}
