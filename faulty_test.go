package pawl_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

// A faulty backend answers as told, and is otherwise the one inside it.
type faulty struct {
	driver.Backend
	acquire func(context.Context, driver.Claim) (driver.Grant, error)
	wait    func(context.Context, driver.Claim, *driver.HeldError) error
	renew   func(context.Context, driver.Claim) (driver.Grant, error)
	release func(context.Context, driver.Claim) error
}

func (f *faulty) Acquire(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	if f.acquire != nil {
		return f.acquire(ctx, c)
	}
	return f.Backend.Acquire(ctx, c)
}

func (f *faulty) Wait(ctx context.Context, c driver.Claim, h *driver.HeldError) error {
	if f.wait != nil {
		return f.wait(ctx, c, h)
	}
	return f.Backend.Wait(ctx, c, h)
}

func (f *faulty) Renew(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	if f.renew != nil {
		return f.renew(ctx, c)
	}
	return f.Backend.Renew(ctx, c)
}

func (f *faulty) Release(ctx context.Context, c driver.Claim) error {
	if f.release != nil {
		return f.release(ctx, c)
	}
	return f.Backend.Release(ctx, c)
}

var errDown = errors.New("connection reset")

// down is a store that is reached by nothing.
func down() *faulty {
	return &faulty{
		Backend: memory.New(nil),
		acquire: func(context.Context, driver.Claim) (driver.Grant, error) { return driver.Grant{}, errDown },
		renew:   func(context.Context, driver.Claim) (driver.Grant, error) { return driver.Grant{}, errDown },
		release: func(context.Context, driver.Claim) error { return errDown },
	}
}

func newClient(t *testing.T, b driver.Backend, opts *pawl.Options) *pawl.Client {
	t.Helper()
	c, err := pawl.New(b, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func acquire(t *testing.T, l *pawl.Lock) *pawl.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// wantFree checks that store has nothing on key: neither held nor waited for.
func wantFree(t *testing.T, store *memory.Store, key string) {
	t.Helper()
	st, err := memory.New(store).Inspect(t.Context(), key, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Holders) > 0 {
		t.Errorf("%q: got %d claims left in the store, want none: first %+v", key, len(st.Holders), st.Holders[0])
	}
}

// wantOneError checks that err is wrapped by exactly one *pawl.Error, of op.
func wantOneError(t *testing.T, err error, op string) {
	t.Helper()
	var e *pawl.Error
	if !errors.As(err, &e) || e.Op != op {
		t.Errorf("got %v, want a *pawl.Error of %s", err, op)
		return
	}
	if inner := new(pawl.Error); errors.As(e.Err, &inner) {
		t.Errorf("got %v, which is wrapped twice", err)
	}
}

// after returns a context that is cancelled d from now.
func after(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
