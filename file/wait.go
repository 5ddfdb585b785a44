package file

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/pawlock/pawl/driver"
)

// Those who wait look at the record at growing intervals. Where the kernel
// tells of changes the looks are there for what it does not tell: the death of
// a process ahead in line, and events that some file systems swallow.
const (
	firstLook   = 2 * time.Millisecond
	lastLook    = 50 * time.Millisecond
	watchedLook = 250 * time.Millisecond
)

// unwatched is watch where no changes are told: only looking helps.
func unwatched(string) (changed <-chan struct{}, stop func()) { return nil, func() {} }

// Wait implements driver.Backend. It reads the record before it sleeps, and
// hears of changes from before that, so no wake-up is lost.
func (b *backend) Wait(ctx context.Context, c driver.Claim, _ *driver.HeldError) error {
	path := filepath.Join(b.dir, recordName(c.Key))
	changed, stop := b.watch(path)
	defer stop()
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		ready, left, err := b.ready(ctx, path, c)
		if ready || err != nil {
			return err
		}
		look := pause
		if changed != nil {
			look = watchedLook
		}
		timer := time.NewTimer(min(look, left))
		select {
		case <-changed:
			timer.Stop()
			pause = firstLook
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// ready reports whether an Acquire of c may succeed, and if not, how long it
// is until the next claim ends unless renewed.
func (b *backend) ready(ctx context.Context, path string, c driver.Claim) (bool, time.Duration, error) {
	l, now, err := b.peek(ctx, path, c.Key)
	if errors.Is(err, fs.ErrNotExist) {
		return true, 0, nil
	}
	if err != nil {
		return false, 0, err
	}
	b.dropDead(l)
	if l.Ready(c, now) {
		return true, 0, nil
	}
	left := watchedLook
	if next, ok := l.NextExpiry(); ok {
		left = next - now.Clock
	}
	return false, left, nil
}
