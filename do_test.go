package pawl_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

var errWork = errors.New("the work failed")

// The error of the work comes first, and that of the release is never hidden
// behind it, nor does it hide it.
// Case P01.
func TestDoJoinsTheErrors(t *testing.T) {
	for _, work := range []error{nil, errWork} {
		for _, lose := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				store := new(memory.Store)
				c := newClient(t, memory.New(store), nil)
				defer c.Close()
				err := c.Mutex("k").Do(t.Context(), func(ctx context.Context, lease *pawl.Lease) error {
					if lose {
						if err := c.ForceRelease(ctx, "k", lease.Holder(), ""); err != nil {
							t.Error(err)
						}
						<-ctx.Done()
						if !errors.Is(context.Cause(ctx), pawl.ErrLost) {
							t.Errorf("cause: got %v, want ErrLost", context.Cause(ctx))
						}
					}
					return work
				})
				if got := errors.Is(err, errWork); got != (work != nil) {
					t.Errorf("work %v, lost %v: got %v", work, lose, err)
				}
				if got := errors.Is(err, pawl.ErrLost); got != lose {
					t.Errorf("work %v, lost %v: got %v", work, lose, err)
				}
				if work == nil && !lose && err != nil {
					t.Errorf("got %v, want nil", err)
				}
				if work != nil && !strings.HasPrefix(err.Error(), work.Error()) {
					t.Errorf("got %q, want the error of the work first", err)
				}
				synctest.Wait()
				wantFree(t, store, "k")
			})
		}
	}
}

// Case P02.
func TestDoWithoutTheLockDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(nil), nil)
		defer c.Close()
		lease := acquire(t, c.Mutex("k"))
		defer lease.Release(t.Context())
		called := false
		err := c.Mutex("k").Do(after(t, 2*time.Second), func(context.Context, *pawl.Lease) error {
			called = true
			return nil
		})
		if called {
			t.Error("the work was done without the lock")
		}
		if !errors.Is(err, pawl.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want held and the deadline", err)
		}
	})
}

// The work's context ends with the caller's or with the lease, whichever is
// first, and says which it was.
func TestDoEndsTheWorkWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		defer c.Close()
		errStop := errors.New("stop")
		type key struct{}
		parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "v"))
		time.AfterFunc(time.Minute, func() { cancel(errStop) })
		start := time.Now()
		err := c.Mutex("k").Do(parent, func(ctx context.Context, lease *pawl.Lease) error {
			if ctx.Value(key{}) != "v" {
				t.Error("the work's context has not the caller's values")
			}
			<-ctx.Done()
			if !lease.Valid() {
				t.Error("the lease ended with the caller's context")
			}
			return context.Cause(ctx)
		})
		if !errors.Is(err, errStop) || time.Since(start) != time.Minute {
			t.Errorf("got %v after %v, want the caller's cause after 1m", err, time.Since(start))
		}
		wantFree(t, store, "k")

		deadline, free := context.WithTimeout(t.Context(), time.Second)
		defer free()
		err = c.Mutex("k").Do(deadline, func(ctx context.Context, _ *pawl.Lease) error {
			got, ok := ctx.Deadline()
			if want, _ := deadline.Deadline(); !ok || !got.Equal(want) {
				t.Errorf("deadline of the work: got %v, want the caller's, %v", got, want)
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		wantFree(t, store, "k")
	})
}

func TestDoReleasesWhenTheWorkPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		defer c.Close()
		func() {
			defer func() {
				if got := recover(); got != "oh" {
					t.Errorf("recovered %v, want the panic of the work", got)
				}
			}()
			c.Mutex("k").Do(t.Context(), func(context.Context, *pawl.Lease) error { panic("oh") })
		}()
		wantFree(t, store, "k")
	})
}

// An acquire that would wait for its own caller is an error, and says so at
// once; whatever can be granted, or belongs to others, is not.
func TestAnAcquireThatWouldWaitForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(nil), nil)
		defer c.Close()
		lock := map[string]*pawl.Lock{
			"mutex": c.Mutex("k"), "writer": c.WriteLock("k"), "reader": c.ReadLock("k"),
			"share": c.Semaphore("k", 2), "other": c.Mutex("other"),
		}
		for _, tt := range []struct {
			outer, inner string
			deadlock     bool
		}{
			{"mutex", "mutex", true},
			{"mutex", "reader", true},
			{"writer", "reader", true},
			{"reader", "writer", true},
			{"share", "mutex", true},
			{"reader", "reader", false},
			{"share", "share", false},
			{"mutex", "other", false},
		} {
			outer := acquire(t, lock[tt.outer])
			between := acquireIn(t, c.Mutex("between"), outer.Context())
			inner, err := lock[tt.inner].Acquire(between.Context())
			if got := errors.Is(err, pawl.ErrDeadlock); got != tt.deadlock {
				t.Errorf("%s in %s: got %v, want a deadlock %v", tt.inner, tt.outer, err, tt.deadlock)
			}
			if err == nil {
				inner.Release(t.Context())
			} else {
				wantOneError(t, err, "acquire")
			}
			between.Release(t.Context())
			outer.Release(t.Context())
			if tt.outer != tt.inner {
				continue
			}
			again := acquireIn(t, lock[tt.inner], outer.Context()) // it is over: nothing to wait for
			again.Release(t.Context())
		}
	})
}

func acquireIn(t *testing.T, l *pawl.Lock, ctx context.Context) *pawl.Lease {
	t.Helper()
	lease, err := l.Acquire(context.WithoutCancel(ctx))
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// What the store says to any request is told as what it is.
func TestErrorsKeepTheirKind(t *testing.T) {
	for _, tt := range []struct {
		answer error
		kinds  []error // of which it is one
	}{
		{errDown, nil},
		{driver.ErrRefused, nil},
		{&driver.HeldError{}, []error{pawl.ErrHeld}},
		{driver.ErrUnsupported, []error{pawl.ErrUnsupported}},
		{&driver.FieldError{Field: "Key"}, []error{pawl.ErrInvalid}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := down()
			b.acquire = func(context.Context, driver.Claim) (driver.Grant, error) { return driver.Grant{}, tt.answer }
			c := newClient(t, b, nil)
			_, err := c.Mutex("k").TryAcquire(t.Context())
			for _, kind := range []error{pawl.ErrHeld, pawl.ErrLost, pawl.ErrUnsupported, pawl.ErrInvalid, pawl.ErrReleased, pawl.ErrClosed, pawl.ErrDeadlock} {
				want := len(tt.kinds) > 0 && tt.kinds[0] == kind
				if got := errors.Is(err, kind); got != want {
					t.Errorf("%v: is it %v? got %v, want %v", err, kind, got, want)
				}
			}
			var e *pawl.Error
			if !errors.As(err, &e) || e.Op != "acquire" || e.Key != "k" || e.Backend != "memory" || e.Err == nil {
				t.Errorf("got %#v, want an Error that says acquire, k and memory", err)
			}
			time.Sleep(time.Minute) // the claim is being withdrawn
			c.Close()
		})
	}
}
