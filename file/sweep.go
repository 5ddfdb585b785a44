package file

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/flock"
)

// A record that nobody has changed for idle is removed if it has no claims. A
// directory is searched for such records when one is created, at most every
// sweepEvery, by the clock of the file system: wrong, it costs time or room.
const (
	idle       = 24 * time.Hour
	sweepEvery = time.Hour
)

// sweep removes what nobody needs any more, if it is time to. The floor is
// locked, so that no record begins to count below what is removed here. Errors
// leave a file to the next sweep.
func (b *backend) sweep(ctx context.Context, floor *recordFile) {
	info, err := floor.f.Stat()
	if err != nil || time.Since(info.ModTime()).Abs() < sweepEvery {
		return
	}
	now := time.Now()
	if os.Chtimes(floor.path, now, now) != nil {
		return
	}
	names, err := b.names()
	if err != nil {
		return
	}
	var (
		old  []string
		last = floor.header.last
	)
	for _, name := range names {
		path := filepath.Join(b.dir, name)
		info, err := os.Lstat(path)
		if err != nil || now.Sub(info.ModTime()) < idle || ctx.Err() != nil {
			continue
		}
		switch key, isRecord := keyOf(name); {
		case isRecord:
			if l, at, err := b.peek(ctx, path, key); err == nil && unused(l, at) {
				old, last = append(old, path), max(last, l.Last)
			}
		case strings.HasPrefix(name, newPrefix), strings.HasPrefix(name, alivePrefix) && b.dead(name):
			os.Remove(path)
		}
	}
	if len(old) == 0 {
		return
	}
	// The floor is on disk before the first record that it stands for goes.
	h := header{last: last, boot: b.clock.boot, clock: floor.header.clock}
	if floor.commit(h, floor.body, true) != nil {
		return
	}
	for _, path := range old {
		b.remove(path, last)
	}
}

// remove removes the record at path if it still has no claims and its counter
// is not above floor, and reports whether it did. Those who wait for its lock
// will see that it is gone.
func (b *backend) remove(path string, floor uint64) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	r := &recordFile{f: f, path: path}
	defer r.close()
	if ok, err := flock.Try(f, true); !ok || err != nil || r.gone() || r.read() != nil {
		return false
	}
	key, _ := keyOf(filepath.Base(path))
	l, now, err := b.line(r, key)
	return err == nil && l.Last <= floor && unused(l, now) && os.Remove(path) == nil
}

// unused reports whether l has nothing to remember but its counter.
func unused(l *line, now driver.Instant) bool {
	l.Expire(now)
	return len(l.Entries) == 0 && len(l.Notices) == 0
}
