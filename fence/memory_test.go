package fence_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pawlock/pawl/fence"
	"github.com/pawlock/pawl/fence/fencetest"
)

// A journal holds what was appended to resources. Like any memory, it keeps what
// a failed write has left.
type journal struct {
	mu      sync.Mutex
	entries map[string][]string
}

func (j *journal) Append(_ context.Context, resource, value string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.entries == nil {
		j.entries = make(map[string][]string)
	}
	j.entries[resource] = append(j.entries[resource], value)
	return nil
}

func (j *journal) Read(resource string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.entries[resource])
}

func TestConformance(t *testing.T) {
	fencetest.Run(t, fencetest.Harness{
		New: func(*testing.T) fencetest.Store {
			m, j := new(fence.Memory), new(journal)
			return fencetest.Store{Guard: func() fence.Guard { return m }, Append: j.Append, Read: j.Read}
		},
		Wrap: synctest.Test,
	})
}
