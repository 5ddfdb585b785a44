package file

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWatcherTellsOfChanges(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "watched"), filepath.Join(dir, "other")
	for _, p := range []string{path, other} {
		if err := os.WriteFile(p, []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var w watcher
	first, stop := w.watch(path)
	second, stopSecond := w.watch(path)
	defer stopSecond()
	elsewhere, stopElsewhere := w.watch(other)
	defer stopElsewhere()
	if first == nil || second == nil || elsewhere == nil {
		t.Skip("inotify can't be had")
	}
	told := func(what string, changed <-chan struct{}) {
		t.Helper()
		select {
		case <-changed:
		case <-time.After(time.Minute):
			t.Errorf("%s: not told", what)
		}
	}
	if err := os.WriteFile(path, []byte("after"), 0o600); err != nil {
		t.Fatal(err)
	}
	told("a write, the first to watch", first)
	told("a write, the second to watch", second)
	stop()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	told("a removal", second)
	select {
	case <-elsewhere:
		t.Error("who watches another file was told")
	default:
	}
	if err := w.close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if changed, _ := w.watch(other); changed != nil {
		t.Error("a closed watcher watches")
	}
}
