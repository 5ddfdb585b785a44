package memory_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
	"github.com/pawlock/pawl/memory"
)

func TestConformance(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		New: func(t *testing.T) drivertest.Store {
			s := new(memory.Store)
			return drivertest.Store{
				Connect: func() driver.Backend { return &slow{Backend: memory.New(s)} },
				Stall:   stall,
			}
		},
		Wrap:   synctest.Test,
		TTL:    time.Second,
		Prompt: time.Nanosecond,
	})
}

// A slow backend holds up an Acquire for a while and delivers it then, also if
// its sender has gone: what a paused server does to what it finds in its
// socket.
type slow struct {
	driver.Backend
	mu    sync.Mutex
	until time.Time // guarded by mu
}

func stall(b driver.Backend, d time.Duration) {
	s := b.(*slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(d)
}

// Acquire implements driver.Backend.
func (s *slow) Acquire(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	s.mu.Lock()
	delay := time.Until(s.until)
	s.mu.Unlock()
	if delay <= 0 {
		return s.Backend.Acquire(ctx, c)
	}
	type answer struct {
		driver.Grant
		error
	}
	arrived := make(chan answer, 1)
	go func() {
		time.Sleep(delay)
		g, err := s.Backend.Acquire(ctx, c)
		arrived <- answer{g, err}
	}()
	select {
	case a := <-arrived:
		return a.Grant, a.error
	case <-ctx.Done():
		return driver.Grant{}, ctx.Err()
	}
}
