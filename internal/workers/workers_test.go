package workers_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl/internal/workers"
)

// A bubble that is left with goroutines in it fails: these have ended by themselves,
// a rest after their last function.
func TestWorkersEndAfterTheirRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workers.New(make(chan struct{}), time.Second)
		for range 3 {
			done := 0
			for range 100 { // more than may rest
				w.Start(func() { done++; time.Sleep(time.Millisecond) })
				synctest.Wait()
			}
			time.Sleep(500 * time.Millisecond)
			if done != 100 {
				t.Errorf("got %d functions run, want 100", done)
			}
		}
		time.Sleep(time.Second)
	})
}

// Without a bound they rest until they are stopped, and whatever is started after
// that runs all the same.
func TestStoppedWorkersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := make(chan struct{})
		w := workers.New(stopped, 0)
		ran := make(chan bool, 2)
		w.Start(func() { ran <- true })
		time.Sleep(time.Hour)
		close(stopped)
		w.Start(func() { ran <- true })
		synctest.Wait()
		if len(ran) != 2 {
			t.Errorf("got %d functions run, want 2", len(ran))
		}
	})
}
