package pawl

import (
	"sync/atomic"
	"time"
)

// A crew is the goroutines that talk to the store. Each request has one, since no
// backend is trusted to come back; but not each has to grow a stack to what a
// client library takes, which costs as much as a request: one that is done waits a
// moment for the next.
type crew struct {
	jobs    chan func() // taken by whoever is resting
	resting atomic.Int32
}

const (
	// maxResting is how many wait for the next job.
	maxResting = 64

	// restTime is how long they do. It also bounds how long they outlive a
	// client that nobody closed.
	restTime = time.Second
)

// start runs f on a goroutine. It ends after f when stopped is closed.
func (c *crew) start(stopped <-chan struct{}, f func()) {
	select {
	case c.jobs <- f:
	default:
		go c.work(stopped, f)
	}
}

func (c *crew) work(stopped <-chan struct{}, f func()) {
	rest := time.NewTimer(restTime)
	defer rest.Stop()
	for {
		f()
		if c.resting.Add(1) > maxResting {
			c.resting.Add(-1)
			return
		}
		rest.Reset(restTime)
		select {
		case f = <-c.jobs:
			c.resting.Add(-1)
		case <-rest.C:
			c.resting.Add(-1)
			return
		case <-stopped:
			c.resting.Add(-1)
			return
		}
	}
}
