// Package workers keeps goroutines that talk to stores, to be used again.
package workers

import (
	"sync/atomic"
	"time"
)

// Workers run functions, each on a goroutine of its own, since no backend is
// trusted to come back. But not each has to grow a stack to what a client library
// takes, which costs as much as a request: one that is done waits for the next.
type Workers struct {
	jobs    chan func() // taken by whoever is resting
	resting atomic.Int32
	rest    time.Duration
	stopped <-chan struct{}
}

// maxResting is how many wait for the next function.
const maxResting = 64

// New returns workers that wait for the next function until stopped is
// closed, and for no longer than rest unless that is 0: it bounds how long they
// outlive an owner who never stops them.
func New(stopped <-chan struct{}, rest time.Duration) *Workers {
	return &Workers{jobs: make(chan func()), rest: rest, stopped: stopped}
}

// Start runs f. Nobody waits for it to end, and workers that are stopped run it too.
func (w *Workers) Start(f func()) {
	select {
	case w.jobs <- f:
	default:
		go w.work(f)
	}
}

func (w *Workers) work(f func()) {
	var timer *time.Timer
	var over <-chan time.Time // never, without a bound
	if w.rest > 0 {
		timer = time.NewTimer(w.rest)
		defer timer.Stop()
		over = timer.C
	}
	for {
		f()
		if w.resting.Add(1) > maxResting {
			w.resting.Add(-1)
			return
		}
		if timer != nil {
			timer.Reset(w.rest)
		}
		select {
		case f = <-w.jobs:
			w.resting.Add(-1)
		case <-over:
			w.resting.Add(-1)
			return
		case <-w.stopped:
			w.resting.Add(-1)
			return
		}
	}
}
