package fence_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/fence"
	"github.com/pawlock/pawl/memory"
)

// Case Q01: a holder that was paused past its lease, and writes before any timer
// has told it.
// Case Q01.
func TestALateWriteOfALostLeaseIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, guard, j := new(memory.Store), new(fence.Memory), new(journal)
		paused, other := client(t, store), client(t, store)
		lease, err := paused.Mutex("db").Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		write := func(ctx context.Context, value string) error {
			return fence.Do(ctx, guard, "db", func(ctx context.Context) error { return j.Append(ctx, "db", value) })
		}
		if err := write(lease.Context(), "first"); err != nil {
			t.Fatal(err)
		}
		// What a pause hides from the holder: someone has ended its lease.
		if err := other.ForceRelease(t.Context(), "db", lease.Holder(), "a pause"); err != nil {
			t.Fatal(err)
		}
		err = other.Mutex("db").Do(t.Context(), func(ctx context.Context, _ *pawl.Lease) error { return write(ctx, "second") })
		if err != nil {
			t.Fatal(err)
		}
		if lease.Context().Err() != nil {
			t.Fatal("the holder has noticed: the test shows nothing")
		}
		err = write(lease.Context(), "late")
		if !errors.Is(err, fence.ErrStale) {
			t.Errorf("the late write: got %v, want ErrStale", err)
		}
		if got, want := j.Read("db"), []string{"first", "second"}; !slices.Equal(got, want) {
			t.Errorf("the resource holds %q, want %q", got, want)
		}
	})
}

// Case R01: one token for the whole hold, however often it writes.
// Case R01.
func TestAHolderWritesAsOftenAsItLikes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, guard, j := client(t, new(memory.Store)), new(fence.Memory), new(journal)
		err := c.Mutex("db").Do(t.Context(), func(ctx context.Context, lease *pawl.Lease) error {
			for i := range 3 {
				if err := fence.Do(ctx, guard, "db", func(ctx context.Context) error { return j.Append(ctx, "db", fmt.Sprint(i)) }); err != nil {
					return err
				}
				if err := lease.Renew(ctx); err != nil {
					return err
				}
			}
			return nil
		})
		if got, want := j.Read("db"), []string{"0", "1", "2"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	})
}

// Case R05: readers hold together, and a writer's hold lies between.
// Case R05.
func TestReadersDoNotFenceEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, guard, j := client(t, new(memory.Store)), new(fence.Memory), new(journal)
		read := func() *pawl.Lease {
			lease, err := c.ReadLock("cache").Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return lease
		}
		write := func(lease *pawl.Lease) error {
			return fence.Do(lease.Context(), guard, "cache", func(ctx context.Context) error { return j.Append(ctx, "cache", "x") })
		}
		first, second := read(), read()
		if err := errors.Join(write(second), write(first), write(second)); err != nil {
			t.Errorf("readers that hold together: %v", err)
		}
		first.Release(t.Context())
		second.Release(t.Context())
		if err := c.WriteLock("cache").Do(t.Context(), func(_ context.Context, lease *pawl.Lease) error { return write(lease) }); err != nil {
			t.Errorf("a writer after them: %v", err)
		}
		err := guard.Do(t.Context(), "cache", pawl.TokenOf(second), func(ctx context.Context) error { return j.Append(ctx, "cache", "late") })
		if !errors.Is(err, fence.ErrStale) {
			t.Errorf("a reader of before: got %v, want ErrStale", err)
		}
	})
}

func TestAContextWithoutATokenIsNoHold(t *testing.T) {
	err := fence.Do(t.Context(), new(fence.Memory), "db", func(context.Context) error {
		t.Error("the write was called")
		return nil
	})
	if !errors.Is(err, fence.ErrNoToken) {
		t.Errorf("got %v, want ErrNoToken", err)
	}
}

// What waits for its turn must not write when its lease has ended meanwhile.
func TestAWaitForTheTurnEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := new(fence.Memory)
		long := make(chan struct{})
		go guard.Do(t.Context(), "db", pawl.Token{Key: "k", Number: 1}, func(context.Context) error { <-long; return nil })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := guard.Do(ctx, "db", pawl.Token{Key: "k", Number: 2}, func(context.Context) error {
			t.Error("the write was called")
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want DeadlineExceeded", err)
		}
		close(long)
	})
}

func TestAWriteToAnotherResourceMayBeNested(t *testing.T) {
	guard, j := new(fence.Memory), new(journal)
	token := pawl.Token{Key: "k", Number: 1}
	err := guard.Do(t.Context(), "a", token, func(ctx context.Context) error {
		return guard.Do(ctx, "b", token, func(ctx context.Context) error { return j.Append(ctx, "b", "x") })
	})
	if err != nil || len(j.Read("b")) != 1 {
		t.Errorf("got %v, and %q in b, want the write", err, j.Read("b"))
	}
}

func client(t *testing.T, store *memory.Store) *pawl.Client {
	t.Helper()
	c, err := pawl.New(memory.New(store), &pawl.Options{TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
