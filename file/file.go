// Package file keeps locks in a directory of one machine. Processes that use
// the same directory exclude each other, without a server.
//
// # What it promises
//
//   - Exclusion, order of arrival and rising fencing tokens among all
//     processes under one kernel that use the directory, containers included.
//   - A kill -9 at any instant leaves a record as it was before or after the
//     operation. A token is on disk before the grant that carries it returns;
//     tokens go on rising after a crash of the machine, also if its wall clock
//     comes back wrong.
//   - Claims expire on the boot clock, which no one can set and which counts
//     the time that the machine sleeps. A reboot ends all claims, because it
//     has ended all their holders.
//   - A waiting process that is killed loses its place at once. A holder that
//     is killed keeps its claim until the TTL ends, because children that it
//     started may still be at work.
//   - A damaged record is an error that names the file, never a free lock.
//
// # What it does not
//
//   - It is for local file systems. Whether two machines, or a machine and its
//     guest, exclude each other on a shared one can't be known: those that are
//     recognised (NFS, SMB, 9P, FUSE and others) are refused. The file system
//     must have hard links.
//   - Deleting the directory, or a record in it, frees locks that are in use,
//     and their holders learn it only when they renew. New tokens are then
//     above the old ones as long as the wall clock is right.
//   - A process that is stopped (SIGSTOP, a debugger) in the middle of an
//     operation keeps the others from that key until it goes on or dies. They
//     get no answer, and are told so; nobody is given the lock.
//   - The directory is created for its owner alone (0700, files 0600). All who
//     may write there can take, break and damage every lock.
//   - Durability ends where the disk lies about a flush, and at a disk that
//     tears a sector of 512 bytes in two: the record is then damaged.
//
// Each key has a record of 4 KiB or more. Records that nobody has used for a
// day are removed as new ones come; their tokens are remembered. On Windows
// they stay.
//
// # When a record is damaged
//
// Every operation on its key returns a [*DamageError] until the file is moved
// away. The claims it had are then forgotten: first stop the programs that use
// the key, or let the longest of their TTLs go by.
package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
	"unicode/utf8"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/flock"
)

type backend struct {
	dir   string
	clock clock
	alive presence
	flush func(*os.File) error // brings a file's data to disk

	watcher watcher
	watch   func(path string) (changed <-chan struct{}, stop func()) // the watcher's
}

// New returns a backend on dir, which it creates, with its parents, if it does
// not exist. It fails if dir is no directory or can't be read, or lies on a
// file system where locks reach further than this machine or are not kept.
func New(dir string) (driver.Backend, error) {
	c, err := newClock()
	if err != nil {
		return nil, fmt.Errorf("file: %w", err)
	}
	return open(dir, c)
}

func open(dir string, c clock) (driver.Backend, error) {
	dir, err := makeDir(dir)
	if err != nil {
		return nil, fmt.Errorf("file: %w", err)
	}
	b := &backend{dir: dir, clock: c, alive: presence{dir: dir}, flush: flock.SyncData}
	b.watch = b.watcher.watch
	return b, nil
}

// Traits implements driver.Backend.
func (*backend) Traits() driver.Traits {
	return driver.Traits{
		Name:     "file",
		Fencing:  true,
		Durable:  true,
		Fair:     true,
		Counting: true,
		Blocks:   true,
		MinTTL:   10 * time.Millisecond,
		MaxTTL:   365 * 24 * time.Hour,
	}
}

// Close implements driver.Backend. Claims in line stay there until their TTL
// ends, as granted ones do.
func (b *backend) Close() error { return errors.Join(b.alive.leave(), b.watcher.close()) }

// Acquire implements driver.Backend.
func (b *backend) Acquire(ctx context.Context, c driver.Claim) (g driver.Grant, err error) {
	if err := c.Validate(b.Traits()); err != nil {
		return driver.Grant{}, err
	}
	if !utf8.ValidString(c.ID) {
		return driver.Grant{}, &driver.FieldError{Field: "ID", Why: fmt.Sprintf("%q is not UTF-8", c.ID)}
	}
	_, failed := b.update(ctx, c.Key, true, func(l *line, now driver.Instant) bool {
		if err = late(ctx); err != nil {
			return false
		}
		b.dropDead(l)
		g, err = l.Acquire(c, now)
		if c.Queue && errors.Is(err, driver.ErrHeld) {
			l.presence[c.ID] = b.alive.name()
		}
		return err == nil
	})
	if failed != nil {
		return driver.Grant{}, failed
	}
	return g, err
}

// Renew implements driver.Backend.
func (b *backend) Renew(ctx context.Context, c driver.Claim) (g driver.Grant, err error) {
	if err := driver.ValidateTTL("TTL", c.TTL, b.Traits()); err != nil {
		return driver.Grant{}, err
	}
	err = b.change(ctx, c.Key, func(l *line, now driver.Instant) error {
		var lost error
		g, lost = l.Renew(c, now)
		return lost
	})
	return g, err
}

// Release implements driver.Backend.
func (b *backend) Release(ctx context.Context, c driver.Claim) error {
	return b.change(ctx, c.Key, func(l *line, now driver.Instant) error { return l.Release(c, now) })
}

// Revoke implements driver.Backend.
func (b *backend) Revoke(ctx context.Context, key, id string, n driver.Notice) error {
	return b.change(ctx, key, func(l *line, now driver.Instant) error { return l.Revoke(id, n, now) })
}

// change applies op to the line of key, and says of a claim whose record is
// gone that it was deleted, which the line itself can't know.
func (b *backend) change(ctx context.Context, key string, op func(*line, driver.Instant) error) error {
	if err := driver.ValidateKey(key); err != nil {
		return err
	}
	var err error
	found, failed := b.update(ctx, key, false, func(l *line, now driver.Instant) bool {
		err = op(l, now)
		return false
	})
	if failed != nil {
		return failed
	}
	if !found && errors.Is(err, driver.ErrLost) {
		return &driver.LostError{Reason: driver.Deleted}
	}
	return err
}

// late reports a request whose sender has given up.
func late(ctx context.Context) error {
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		return fmt.Errorf("%w: it came after its sender's deadline", driver.ErrRefused)
	}
	if ctx.Err() != nil {
		return refused(context.Cause(ctx))
	}
	return nil
}

// refused says of err that it came before anything was changed.
func refused(err error) error { return fmt.Errorf("%w: %w", driver.ErrRefused, err) }
