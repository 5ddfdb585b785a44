package file_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/file"
)

func TestTokensAreOnDiskBeforeTheyAreToldAndNothingElseCostsAFlush(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	var flushed []string // what the record was at each flush
	file.OnFlush(b, func(f *os.File) error {
		text, err := os.ReadFile(f.Name())
		flushed = append(flushed, string(text))
		return err
	})
	has := func(what string, token uint64) {
		t.Helper()
		if len(flushed) != 1 || !strings.Contains(flushed[0], fmt.Sprintf(" last=%d ", token)) {
			t.Errorf("%s: got %d flushes, want one with the token %d in the header", what, len(flushed), token)
		}
		flushed = nil
	}
	c := mutex("k", "a")
	c.Grant = acquire(t, b, c)
	has("a grant", c.Grant.Token)
	acquire(t, b, c)
	has("the same grant again", c.Grant.Token)
	c.Floor = c.Grant.Token + 100
	if _, err := b.Renew(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	has("a renewal that raises the counter", c.Floor)
	if _, err := b.Renew(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := b.Release(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if len(flushed) != 0 {
		t.Errorf("a renewal and a release: got %d flushes, want none", len(flushed))
	}
}

func TestBodyGoesToDiskFirstWhereBootsHaveNoName(t *testing.T) {
	dir := t.TempDir()
	b := newMachine(file.UnknownBoot).open(t, dir)
	var seqs []string
	file.OnFlush(b, func(f *os.File) error {
		text, err := os.ReadFile(f.Name())
		seqs = append(seqs, strings.Fields(string(text))[2])
		return err
	})
	acquire(t, b, mutex("k", "a"))
	if got := fmt.Sprint(seqs); got != "[seq=0 seq=1]" {
		t.Errorf("headers at the flushes: got %s, want the old one, then the new one", got)
	}
}

func TestFailedFlushLeavesTheOutcomeUnknown(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	file.OnFlush(b, func(*os.File) error { return syscall.EIO })
	_, err := b.Acquire(t.Context(), mutex("k", "a"))
	if !errors.Is(err, syscall.EIO) || errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), filepath.Join(dir, file.RecordName("k"))) {
		t.Errorf("Acquire with a disk that fails: got %v, want EIO with the path and not ErrRefused", err)
	}
}
