package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/file"
)

// A machine is one whose clocks the test sets.
type machine struct {
	boot  string
	since atomic.Int64
	wall  atomic.Int64
}

func newMachine(boot string) *machine {
	m := &machine{boot: boot}
	m.since.Store(int64(time.Hour))
	m.wall.Store(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	return m
}

func (m *machine) sleep(d time.Duration) {
	m.since.Add(int64(d))
	m.wall.Add(int64(d))
}

func (m *machine) stepWall(d time.Duration) { m.wall.Add(int64(d)) }

func (m *machine) open(t *testing.T, dir string) driver.Backend {
	t.Helper()
	b, err := file.NewAt(dir, m.boot,
		func() time.Duration { return time.Duration(m.since.Load()) },
		func() time.Time { return time.Unix(0, m.wall.Load()) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func open(t testing.TB, dir string) driver.Backend {
	t.Helper()
	b, err := file.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// mutex returns a claim for all of key.
func mutex(key, id string) driver.Claim {
	return driver.Claim{Key: key, ID: id, Weight: 1, Capacity: 1, TTL: 10 * time.Second}
}

func acquire(t *testing.T, b driver.Backend, c driver.Claim) driver.Grant {
	t.Helper()
	g, err := b.Acquire(t.Context(), c)
	if err != nil {
		t.Fatalf("Acquire(%q, %s): %v", c.Key, c.ID, err)
	}
	return g
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestDeletedRecordIsALossAndNotAnOutage(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	c := mutex("k", "a")
	c.Grant = acquire(t, b, c)
	if err := os.Remove(filepath.Join(dir, file.RecordName("k"))); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"Renew":   second(b.Renew(t.Context(), c)),
		"Release": b.Release(t.Context(), c),
	} {
		var lost *driver.LostError
		if !errors.As(err, &lost) || lost.Reason != driver.Deleted {
			t.Errorf("%s: got %v, want a LostError with the reason %s", what, err, driver.Deleted)
		}
	}
	if g := acquire(t, b, mutex("k", "b")); g.Token <= c.Grant.Token {
		t.Errorf("token after the record was deleted: got %d, want more than %d", g.Token, c.Grant.Token)
	}
}

func second(_ driver.Grant, err error) error { return err }

func TestIDThatARecordCantKeepIsInvalid(t *testing.T) {
	_, err := open(t, t.TempDir()).Acquire(t.Context(), mutex("k", "a\xff"))
	var field *driver.FieldError
	if !errors.As(err, &field) || field.Field != "ID" {
		t.Errorf("Acquire with an ID that is not UTF-8: got %v, want a FieldError for ID", err)
	}
}
