package open

import (
	"context"
	"iter"
	"sync"

	"github.com/pawlock/pawl/driver"
)

// A lazy backend connects when it is first needed, for a client library that would
// do so when it is made and fail while the servers are down.
type lazy struct {
	traits  driver.Traits
	connect func() (driver.Backend, error)

	mu      sync.Mutex
	backend driver.Backend // guarded by mu: nil until connect has succeeded
}

func (l *lazy) get() (driver.Backend, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.backend != nil {
		return l.backend, nil
	}
	b, err := l.connect()
	if err == nil {
		l.backend = b
	}
	return b, err
}

// Acquire implements driver.Backend.
func (l *lazy) Acquire(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	b, err := l.get()
	if err != nil {
		return driver.Grant{}, err
	}
	return b.Acquire(ctx, c)
}

// Wait implements driver.Backend.
func (l *lazy) Wait(ctx context.Context, c driver.Claim, h *driver.HeldError) error {
	b, err := l.get()
	if err != nil {
		return err
	}
	return b.Wait(ctx, c, h)
}

// Renew implements driver.Backend.
func (l *lazy) Renew(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	b, err := l.get()
	if err != nil {
		return driver.Grant{}, err
	}
	return b.Renew(ctx, c)
}

// Release implements driver.Backend.
func (l *lazy) Release(ctx context.Context, c driver.Claim) error {
	b, err := l.get()
	if err != nil {
		return err
	}
	return b.Release(ctx, c)
}

// Revoke implements driver.Backend.
func (l *lazy) Revoke(ctx context.Context, key, id string, n driver.Notice) error {
	b, err := l.get()
	if err != nil {
		return err
	}
	return b.Revoke(ctx, key, id, n)
}

// Inspect implements driver.Backend.
func (l *lazy) Inspect(ctx context.Context, key string, limit int) (driver.State, error) {
	b, err := l.get()
	if err != nil {
		return driver.State{}, err
	}
	return b.Inspect(ctx, key, limit)
}

// List implements driver.Backend.
func (l *lazy) List(ctx context.Context, prefix string) iter.Seq2[driver.Holder, error] {
	b, err := l.get()
	if err != nil {
		return func(yield func(driver.Holder, error) bool) { yield(driver.Holder{}, err) }
	}
	return b.List(ctx, prefix)
}

// Traits implements driver.Backend.
func (l *lazy) Traits() driver.Traits { return l.traits }

// Close implements driver.Backend.
func (l *lazy) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.backend == nil {
		return nil
	}
	return l.backend.Close()
}
