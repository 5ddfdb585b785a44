package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/file"
)

func TestUnusedRecordsAreRemovedAndTheirTokensRemembered(t *testing.T) {
	dir := t.TempDir()
	m := newMachine("boot")
	b := m.open(t, dir)
	path := func(name string) string { return filepath.Join(dir, name) }
	released, held, recent := mutex("released", "a"), mutex("held", "b"), mutex("recent", "c")
	for _, c := range []driver.Claim{released, recent} {
		c.Grant = acquire(t, b, c)
		if err := b.Release(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	st, err := b.Inspect(t.Context(), released.Key, 0)
	if err != nil {
		t.Fatal(err)
	}
	acquire(t, b, held)
	for _, name := range []string{file.NewPrefix + "1", file.AlivePrefix + "1", "someone-elses"} {
		if err := os.WriteFile(path(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-file.Idle - time.Minute)
	for _, name := range []string{
		file.FloorName, file.RecordName(released.Key), file.RecordName(held.Key),
		file.NewPrefix + "1", file.AlivePrefix + "1", "someone-elses",
	} {
		if err := os.Chtimes(path(name), old, old); err != nil {
			t.Fatal(err)
		}
	}

	m.stepWall(-time.Hour)
	acquire(t, b, mutex("another", "a"))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{file.FloorName, file.RecordName("another"), file.RecordName(held.Key), file.RecordName(recent.Key), "someone-elses"}
	if !slices.Equal(names, want) {
		t.Errorf("files that are left: got %q, want %q", names, want)
	}
	if g := acquire(t, b, mutex(released.Key, "d")); g.Token <= st.Last {
		t.Errorf("token after the record was removed and the wall clock set back: got %d, want more than %d", g.Token, st.Last)
	}
}

// Those who wait for the lock of a record that is removed meanwhile must not
// write to what no longer has a name.
func TestRemovalOfRecordsLosesNoGrant(t *testing.T) {
	dir := inMemory(t)
	var (
		workers sync.WaitGroup
		inside  atomic.Int32
		done    = make(chan struct{})
		removed = make(chan int)
	)
	go func() {
		n := 0
		for b := open(t, dir); ; {
			select {
			case <-done:
				removed <- n
				return
			default:
				if file.Remove(b, "k") {
					n++
				}
			}
		}
	}()
	for range 4 {
		workers.Go(func() {
			b := open(t, dir)
			ids := driver.NewIdentity("worker")
			for range 300 {
				c := mutex("k", ids.Next())
				g, err := b.Acquire(t.Context(), c)
				if errors.Is(err, driver.ErrHeld) {
					continue
				}
				if err != nil {
					t.Errorf("Acquire: %v", err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("holders: got %d, want 1", n)
				}
				c.Grant = g
				if _, err := b.Renew(t.Context(), c); err != nil {
					t.Errorf("Renew right after the grant: %v", err)
				}
				inside.Add(-1)
				if err := b.Release(t.Context(), c); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	workers.Wait()
	close(done)
	if n := <-removed; n == 0 {
		t.Error("no record was ever removed: the test shows nothing")
	}
}
