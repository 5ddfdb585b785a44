package fence

import (
	"context"
	"sync"

	"github.com/pawlock/pawl"
)

// A Memory guards resources of this process: maps, files that it alone writes,
// a device. Its zero value is ready for use. It forgets all when the process
// ends, which is as durable as a map; for what outlives the process use a guard
// that does.
//
// A write that fails leaves its token remembered. A resource takes some hundred
// bytes, and they are never given back: name as many as there are, not one per
// request.
type Memory struct {
	mu        sync.Mutex
	resources map[string]*guarded // guarded by mu
}

// guarded is one resource.
type guarded struct {
	turn chan struct{} // holds one value while a write is under way
	mark Mark          // of whoever has the turn
}

// Do implements [Guard]. Writes to one resource take turns, in no order.
func (m *Memory) Do(ctx context.Context, resource string, token pawl.Token, write func(ctx context.Context) error) error {
	inner, err := Enter(ctx, m, resource, token)
	if err != nil {
		return err
	}
	r := m.resource(resource)
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-r.turn }() // also if write panics
	if ctx.Err() != nil {       // the lease, maybe, while we waited
		return context.Cause(ctx)
	}
	mark, err := r.mark.Raise(resource, token)
	if err != nil {
		return err
	}
	r.mark = mark
	return write(inner)
}

func (m *Memory) resource(name string) *guarded {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.resources[name]
	if !ok {
		if m.resources == nil {
			m.resources = make(map[string]*guarded)
		}
		r = &guarded{turn: make(chan struct{}, 1)}
		m.resources[name] = r
	}
	return r
}
