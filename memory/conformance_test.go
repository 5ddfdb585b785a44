package memory_test

import (
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
			return drivertest.Store{Connect: func() driver.Backend { return memory.New(s) }}
		},
		Wrap:   synctest.Test,
		TTL:    time.Second,
		Prompt: time.Nanosecond,
	})
}
