package pawl_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

// The readers are there at the same instant, the writer behind them is not, and
// the lease goes on as that of a reader for as long as it is held.
// Case B10.
func TestDowngradeLetsReadersInAndNoWriter(t *testing.T) { // B10
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		defer c.Close()
		writer := acquire(t, c.WriteLock("k"))
		token := writer.Token()
		reader := make(chan *pawl.Lease, 1)
		go func() { reader <- acquire(t, c.ReadLock("k")) }()
		synctest.Wait()
		next := make(chan *pawl.Lease, 1)
		go func() { next <- acquire(t, c.WriteLock("k")) }()
		time.Sleep(time.Minute)

		began := time.Now()
		if err := writer.Downgrade(t.Context(), c.ReadLock("k")); err != nil {
			t.Fatal(err)
		}
		r := <-reader
		if took := time.Since(began); took != 0 {
			t.Errorf("the reader came after %v, want at once", took)
		}
		if writer.Token() != token {
			t.Errorf("token: got %d, want %d as before", writer.Token(), token)
		}
		if got, ok := pawl.TokenFromContext(writer.Context()); !ok || !got.Shared {
			t.Errorf("token in the context: got %v, want one that is shared", got)
		}
		r.Release(t.Context())
		select {
		case <-next:
			t.Fatal("a writer was let in beside who was one before")
		case <-time.After(time.Hour):
		}
		if err := writer.Check(0); err != nil {
			t.Errorf("after an hour: %v", err)
		}
		writer.Release(t.Context())
		(<-next).Release(t.Context())
		wantFree(t, store, "k")
	})
}

// What a lease can be downgraded to is smaller, of the same key and a share. All
// else is the caller's mistake, and nothing is sent.
func TestDowngradeOnlyToLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &faulty{Backend: memory.New(nil)}
		c, other := newClient(t, b, nil), newClient(t, b, nil)
		defer other.Close()
		defer c.Close()
		mutex, share := acquire(t, c.Mutex("m")), acquire(t, c.Weighted("s", 2, 4))
		b.acquire = func(context.Context, driver.Claim) (driver.Grant, error) {
			t.Error("an attempt was made")
			return driver.Grant{}, errDown
		}
		for name, tt := range map[string]struct {
			lease *pawl.Lease
			to    *pawl.Lock
		}{
			"mutex to reader":       {mutex, c.ReadLock("m")},
			"mutex to mutex":        {mutex, c.Mutex("m")},
			"another key":           {mutex, c.ReadLock("k")},
			"another client":        {share, other.Weighted("s", 1, 4)},
			"as much":               {share, c.Weighted("s", 2, 4)},
			"more":                  {share, c.Weighted("s", 3, 4)},
			"all there is":          {share, c.Mutex("s")},
			"nothing":               {share, c.Weighted("s", 0, 4)},
			"more than there is":    {share, c.Weighted("s", 1, 0)},
			"writer, from a reader": {share, c.WriteLock("s")},
		} {
			err := tt.lease.Downgrade(t.Context(), tt.to)
			if !errors.Is(err, pawl.ErrInvalid) {
				t.Errorf("%s: got %v, want ErrInvalid", name, err)
			}
			wantOneError(t, err, "downgrade")
		}
		b.acquire = nil
		mutex.Release(t.Context())
		share.Release(t.Context())
	})
}

// A store that has lost the claim takes the smaller one for new. Nothing revives
// a lease: what was granted is given back, and the lease is lost.
func TestDowngradeRevivesNothing(t *testing.T) {
	for _, held := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := new(memory.Store)
			b := memory.New(store)
			c := newClient(t, b, nil)
			defer c.Close()
			lease := acquire(t, c.WriteLock("k"))
			if err := b.Release(t.Context(), driver.Claim{Key: "k", ID: lease.Holder(), Grant: driver.Grant{Token: lease.Token()}}); err != nil {
				t.Fatal(err) // as a store does that loses it
			}
			other := acquire(t, c.Mutex("k"))
			if !held {
				other.Release(t.Context())
			}
			err := lease.Downgrade(t.Context(), c.ReadLock("k"))
			if !errors.Is(err, pawl.ErrLost) || lease.Valid() {
				t.Errorf("got %v and valid %v, want lost", err, lease.Valid())
			}
			if held {
				if err := other.Renew(t.Context()); err != nil {
					t.Errorf("the one who came after: %v", err)
				}
				other.Release(t.Context())
			}
			synctest.Wait()
			wantFree(t, store, "k")
		})
	}
}

// When the store fails the lease goes on, and the downgrade may be repeated,
// whether or not it was carried out the first time.
func TestDowngradeMayBeRepeated(t *testing.T) {
	for _, carried := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := new(memory.Store)
			b := &faulty{Backend: memory.New(store)}
			c := newClient(t, b, nil)
			defer c.Close()
			lease := acquire(t, c.WriteLock("k"))
			b.acquire = func(ctx context.Context, claim driver.Claim) (driver.Grant, error) {
				if carried {
					b.Backend.Acquire(ctx, claim)
				}
				return driver.Grant{}, errDown
			}
			err := lease.Downgrade(t.Context(), c.ReadLock("k"))
			if !errors.Is(err, errDown) || !lease.Valid() {
				t.Errorf("got %v and valid %v, want the store's error and a lease that goes on", err, lease.Valid())
			}
			wantOneError(t, err, "downgrade")
			b.acquire = nil
			if err := lease.Downgrade(t.Context(), c.ReadLock("k")); err != nil {
				t.Errorf("again: %v", err)
			}
			reader := acquire(t, c.ReadLock("k"))
			lease.Release(t.Context())
			reader.Release(t.Context())
			synctest.Wait()
			wantFree(t, store, "k")
		})
	}
}

// A request that is still on its way when the lease is released leaves nothing,
// whether or not its answer is ever heard.
func TestALateDowngradeLeavesNothing(t *testing.T) {
	for _, heard := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := new(memory.Store)
			b := &faulty{Backend: memory.New(store)}
			c := newClient(t, b, nil)
			lease := acquire(t, c.WriteLock("k"))
			arrived := make(chan error, 1)
			b.acquire = func(ctx context.Context, claim driver.Claim) (driver.Grant, error) {
				if claim.Exclusive() {
					return b.Backend.Acquire(ctx, claim)
				}
				later := func() (driver.Grant, error) {
					time.Sleep(time.Second)
					g, err := b.Backend.Acquire(ctx, claim)
					arrived <- err
					return g, err
				}
				if heard {
					return later()
				}
				deadline, _ := ctx.Deadline()
				outlives, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
				t.Cleanup(cancel)
				ctx = outlives
				go later()
				return driver.Grant{}, errDown
			}
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			time.AfterFunc(100*time.Millisecond, cancel)
			if err := lease.Downgrade(ctx, c.ReadLock("k")); err == nil {
				t.Error("got nil, want an error")
			}
			lease.Release(t.Context())
			between := acquire(t, c.Mutex("k")) // so that the store has forgotten the lease
			between.Release(t.Context())
			if err := <-arrived; err != nil {
				t.Fatalf("the late request: %v, want a grant that has to go", err)
			}
			c.Close()
			wantFree(t, store, "k")
		})
	}
}

// A cancelled caller is answered at once.
func TestDowngradeReturnsWhenItsCallerIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &faulty{Backend: memory.New(nil)}
		c := newClient(t, b, nil)
		lease := acquire(t, c.WriteLock("k"))
		b.acquire = func(ctx context.Context, claim driver.Claim) (driver.Grant, error) {
			time.Sleep(time.Second)
			return b.Backend.Acquire(ctx, claim)
		}
		began := time.Now()
		if err := lease.Downgrade(after(t, 30*time.Millisecond), c.ReadLock("k")); err == nil || time.Since(began) != 30*time.Millisecond {
			t.Errorf("got %v after %v, want an error after 30ms", err, time.Since(began))
		}
		lease.Release(t.Context())
		c.Close()
	})
}
