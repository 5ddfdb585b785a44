package file_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/file"
	"github.com/pawlock/pawl/internal/flock"
)

// behind returns a backend on dir and a claim that waits for holder.
func behind(t *testing.T, dir string) (b driver.Backend, holder, waiting driver.Claim) {
	t.Helper()
	b = open(t, dir)
	holder, waiting = mutex("k", "holder"), mutex("k", "waiting")
	holder.TTL, waiting.TTL, waiting.Queue = time.Hour, time.Hour, true
	holder.Grant = acquire(t, b, holder)
	_, err := b.Acquire(t.Context(), waiting)
	wantErr(t, "a second claim", err, driver.ErrHeld)
	return b, holder, waiting
}

// waitFor waits for c, and returns what Wait does.
func waitFor(t *testing.T, b driver.Backend, c driver.Claim) <-chan error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- b.Wait(ctx, c, nil) }()
	return done
}

func TestWaitEndsWhen(t *testing.T) {
	for name, happens := range map[string]func(b driver.Backend, holder driver.Claim, path string) error{
		"the_holder_releases": func(b driver.Backend, holder driver.Claim, path string) error {
			return b.Release(context.Background(), holder)
		},
		"the_holder_is_forced_out": func(b driver.Backend, holder driver.Claim, path string) error {
			return b.Revoke(context.Background(), holder.Key, holder.ID, driver.Notice{Force: true})
		},
		"the_record_is_deleted": func(_ driver.Backend, _ driver.Claim, path string) error {
			return os.Remove(path)
		},
		"the_record_is_replaced": func(_ driver.Backend, holder driver.Claim, path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			b, err := file.New(filepath.Dir(path))
			if err != nil {
				return err
			}
			defer b.Close()
			holder.ID = "other"
			holder.Grant, err = b.Acquire(context.Background(), holder)
			if err != nil {
				return err
			}
			return b.Release(context.Background(), holder)
		},
	} {
		for how, unwatched := range map[string]bool{"": false, "_unwatched": true} {
			t.Run(name+how, func(t *testing.T) {
				dir := t.TempDir()
				b, holder, waiting := behind(t, dir)
				if unwatched {
					file.Unwatch(b)
				}
				done := waitFor(t, b, waiting)
				select {
				case err := <-done:
					t.Fatalf("Wait before anything happened: got %v, want it to wait", err)
				case <-time.After(20 * time.Millisecond):
				}
				if err := happens(open(t, dir), holder, filepath.Join(dir, file.RecordName("k"))); err != nil {
					t.Fatal(err)
				}
				if err := <-done; err != nil {
					t.Errorf("Wait: %v", err)
				}
			})
		}
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	b, _, waiting := behind(t, t.TempDir())
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(5*time.Millisecond, func() { cancel(errors.New("enough")) })
	if err := b.Wait(ctx, waiting, nil); err == nil || err.Error() != "enough" {
		t.Errorf("Wait: got %v, want the cause of its context", err)
	}
}

func TestPlaceInLineOutlivesItsBackend(t *testing.T) {
	dir := t.TempDir()
	b, holder, waiting := behind(t, dir)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = open(t, dir)
	if err := b.Release(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	_, err := b.Acquire(t.Context(), mutex("k", "next"))
	wantErr(t, "a claim behind one whose backend was closed", err, driver.ErrHeld)
	acquire(t, b, waiting)
}

func TestStoppedProcessWithALockBlocksNobodyForLong(t *testing.T) {
	dir := t.TempDir()
	b, holder, _ := behind(t, dir)
	f, err := os.OpenFile(filepath.Join(dir, file.RecordName("k")), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if ok, err := flock.Try(f, true); !ok || err != nil {
		t.Fatalf("Try: got %t, %v", ok, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = b.Renew(ctx, holder)
	wantErr(t, "Renew of a busy record", err, driver.ErrRefused)
	wantErr(t, "Renew of a busy record", err, context.DeadlineExceeded)
	st, err := b.Inspect(t.Context(), "k", 1)
	if err != nil || len(st.Holders) != 1 || st.Waiting != 1 {
		t.Errorf("Inspect of a busy record: got %+v, %v, want a holder and a waiter", st, err)
	}
}
