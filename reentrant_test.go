package pawl_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/memory"
)

// The inner lease is the outer hold: one claim, one token, and released when the
// outermost is.
func TestAReentrantAcquireIsTheSameHold(t *testing.T) { // R01
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		defer c.Close()
		lock := c.Mutex("k").Reentrant()
		outer := acquire(t, lock)
		between := acquireIn(t, c.Mutex("between"), outer.Context())
		for _, take := range []func(context.Context) (*pawl.Lease, error){lock.Acquire, lock.TryAcquire, c.ReadLock("k").Reentrant().Acquire} {
			inner, err := take(between.Context())
			if err != nil {
				t.Fatal(err)
			}
			if inner.Token() != outer.Token() || inner.Holder() != outer.Holder() || !inner.Deadline().Equal(outer.Deadline()) {
				t.Errorf("inner: got token %d of %s, want %d of %s", inner.Token(), inner.Holder(), outer.Token(), outer.Holder())
			}
			if got, ok := pawl.TokenFromContext(inner.Context()); !ok || got != pawl.TokenOf(outer) {
				t.Errorf("token in the inner context: got %v, want %v", got, pawl.TokenOf(outer))
			}
			if err := inner.Renew(t.Context()); err != nil {
				t.Errorf("renewal of the inner: %v", err)
			}
			st, err := c.Inspect(t.Context(), "k")
			if err != nil || len(st.Holders) != 1 || st.Waiting != 0 {
				t.Errorf("got %+v, %v, want one claim", st, err)
			}
			for range 2 {
				if err := inner.Release(t.Context()); err != nil {
					t.Errorf("release of the inner: %v", err)
				}
			}
			if inner.Valid() || !errors.Is(context.Cause(inner.Context()), pawl.ErrReleased) || !outer.Valid() {
				t.Errorf("after the inner release: inner valid %v, outer valid %v", inner.Valid(), outer.Valid())
			}
		}
		time.Sleep(time.Minute)
		inner := acquireIn(t, lock, outer.Context())
		if err := outer.Release(t.Context()); err != nil {
			t.Error(err)
		}
		<-inner.Context().Done()
		if inner.Valid() || inner.Release(t.Context()) != nil {
			t.Error("the inner outlives the outermost, or its release is an error")
		}
		between.Release(t.Context())
		wantFree(t, store, "k")
	})
}

// What ends the hold ends all within it, at once and with the reason.
func TestALossEndsAllWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(nil), nil)
		defer c.Close()
		lock := c.Mutex("k").Reentrant()
		err := lock.Do(t.Context(), func(ctx context.Context, outer *pawl.Lease) error {
			return lock.Do(ctx, func(ctx context.Context, inner *pawl.Lease) error {
				if err := c.ForceRelease(ctx, "k", outer.Holder(), "hangs"); err != nil {
					t.Error(err)
				}
				<-ctx.Done()
				if inner.Valid() || !errors.Is(context.Cause(ctx), pawl.ErrLost) {
					t.Errorf("inner: valid %v, cause %v, want lost", inner.Valid(), context.Cause(ctx))
				}
				for range 2 {
					err := inner.Release(ctx)
					if !errors.Is(err, pawl.ErrLost) {
						t.Errorf("release of the inner: got %v, want ErrLost", err)
					}
					wantOneError(t, err, "release")
				}
				return nil
			})
		})
		if !errors.Is(err, pawl.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
	})
}

// A request for the hold reaches whoever works in it.
func TestARequestReachesAllWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(nil), &pawl.Options{Label: "me"})
		defer c.Close()
		lock := c.Mutex("k").Reentrant()
		outer := acquire(t, lock)
		inner := acquireIn(t, lock, outer.Context())
		if err := c.AskRelease(t.Context(), "k", "please"); err != nil {
			t.Fatal(err)
		}
		<-inner.Revoked()
		if n := inner.Notice(); n == nil || n.Why != "please" {
			t.Errorf("got %+v, want the request", n)
		}
		inner.Release(t.Context())
		outer.Release(t.Context())
	})
}

// What is held has to be enough for what is wanted; the rest names the deadlock,
// or is a claim of its own.
func TestWhatIsHeldHasToBeEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		other := newClient(t, memory.New(store), nil)
		defer c.Close()
		defer other.Close()
		lock := map[string]*pawl.Lock{
			"mutex": c.Mutex("k"), "reader": c.ReadLock("k"), "writer": c.WriteLock("k"),
			"two": c.Weighted("k", 2, 4), "one": c.Weighted("k", 1, 4), "three": c.Weighted("k", 3, 4),
		}
		for _, tt := range []struct{ outer, inner, want string }{
			{"mutex", "mutex", "same"},
			{"mutex", "writer", "same"},
			{"writer", "reader", "same"},
			{"reader", "reader", "same"},
			{"two", "two", "same"},
			{"two", "one", "same"},
			{"one", "two", "own"},
			{"two", "three", "deadlock"}, // it can never be granted beside the outer
			{"reader", "writer", "deadlock"},
			{"reader", "mutex", "deadlock"},
		} {
			outer := acquire(t, lock[tt.outer])
			inner, err := lock[tt.inner].Reentrant().Acquire(outer.Context())
			got := "own"
			switch {
			case errors.Is(err, pawl.ErrDeadlock):
				got = "deadlock"
			case err != nil:
				got = err.Error()
			case inner.Holder() == outer.Holder():
				got = "same"
			}
			if got != tt.want {
				t.Errorf("%s in %s: got %s, want %s", tt.inner, tt.outer, got, tt.want)
			}
			if inner != nil {
				inner.Release(t.Context())
			}
			outer.Release(t.Context())
			synctest.Wait()
			wantFree(t, store, "k")
		}
		outer := acquire(t, lock["mutex"])
		if _, err := other.Mutex("k").Reentrant().TryAcquire(outer.Context()); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("another client within it: got %v, want ErrHeld", err)
		}
		if _, err := lock["mutex"].Reentrant().TryAcquire(t.Context()); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("without its context: got %v, want ErrHeld", err)
		}
		outer.Release(t.Context())
		again := acquireIn(t, lock["mutex"].Reentrant(), outer.Context()) // it is over: this is another hold
		if again.Token() <= outer.Token() {
			t.Errorf("after the end of the outer: got token %d, want more than %d", again.Token(), outer.Token())
		}
		again.Release(t.Context())
	})
}

// A share within a share is granted at once or not at all: whoever is ahead in
// line may wait for the outer.
func TestAShareWithinAShareNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		defer c.Close()
		outer := acquire(t, c.ReadLock("k"))
		writer := make(chan *pawl.Lease, 1)
		go func() { writer <- acquire(t, c.WriteLock("k")) }()
		synctest.Wait()
		began := time.Now()
		_, err := c.ReadLock("k").Acquire(outer.Context())
		if !errors.Is(err, pawl.ErrDeadlock) || !errors.Is(err, pawl.ErrHeld) || time.Since(began) != 0 {
			t.Errorf("behind a writer: got %v after %v, want ErrDeadlock at once", err, time.Since(began))
		}
		wantOneError(t, err, "acquire")
		inner := acquireIn(t, c.ReadLock("k").Reentrant(), outer.Context())
		inner.Release(t.Context())
		outer.Release(t.Context())
		(<-writer).Release(t.Context())
		synctest.Wait()
		wantFree(t, store, "k")
	})
}

func TestReentrancyHasABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(nil), nil)
		defer c.Close()
		lock := c.Mutex("k").Reentrant()
		depth := 0
		var dive func(ctx context.Context) error
		dive = func(ctx context.Context) error {
			return lock.Do(ctx, func(ctx context.Context, _ *pawl.Lease) error {
				depth++
				return dive(ctx)
			})
		}
		if err := dive(t.Context()); !errors.Is(err, pawl.ErrInvalid) || depth != 101 {
			t.Errorf("got %v at depth %d, want ErrInvalid after the outermost and 100 within it", err, depth)
		}
	})
}

// A hold is not made smaller under those who rely on it.
func TestNoDowngradeUnderThoseWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(nil), nil)
		defer c.Close()
		outer := acquire(t, c.WriteLock("k"))
		inner := acquireIn(t, c.WriteLock("k").Reentrant(), outer.Context())
		for name, l := range map[string]*pawl.Lease{"outer": outer, "inner": inner} {
			if err := l.Downgrade(t.Context(), c.ReadLock("k")); !errors.Is(err, pawl.ErrInvalid) {
				t.Errorf("%s: got %v, want ErrInvalid", name, err)
			}
		}
		inner.Release(t.Context())
		if err := outer.Downgrade(t.Context(), c.ReadLock("k")); err != nil {
			t.Errorf("when nobody is within: %v", err)
		}
		outer.Release(t.Context())
	})
}

// Of several locks those that are held already may be had again.
func TestAMultiWithinALease(t *testing.T) { // L05
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		defer c.Close()
		outer := acquire(t, c.Mutex("x"))
		if _, err := c.Multi(c.Mutex("x"), c.Mutex("y")).Acquire(outer.Context()); !errors.Is(err, pawl.ErrDeadlock) {
			t.Errorf("got %v, want ErrDeadlock", err)
		}
		lease, err := c.Multi(c.Mutex("x").Reentrant(), c.Mutex("y")).Acquire(outer.Context())
		if err != nil {
			t.Fatal(err)
		}
		if lease.Token("x") != outer.Token() {
			t.Errorf("token of x: got %d, want %d as outside", lease.Token("x"), outer.Token())
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		wantFree(t, store, "y")
		if !outer.Valid() {
			t.Error("the outer lease ended with the inner")
		}
		outer.Release(t.Context())
		wantFree(t, store, "x")
	})
}
