package file

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawlock/pawl/driver"
)

// Inspect implements driver.Backend. It needs no permission to write.
func (b *backend) Inspect(ctx context.Context, key string, limit int) (driver.State, error) {
	if err := driver.ValidateKey(key); err != nil {
		return driver.State{}, err
	}
	l, now, err := b.peek(ctx, filepath.Join(b.dir, recordName(key)), key)
	if errors.Is(err, fs.ErrNotExist) {
		return driver.State{}, nil
	}
	if err != nil {
		return driver.State{}, refused(err)
	}
	b.dropDead(l)
	return l.Inspect(limit, now), nil
}

// List implements driver.Backend. It reads the directory.
func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[driver.Holder, error] {
	return func(yield func(driver.Holder, error) bool) {
		names, err := b.names()
		if err != nil {
			yield(driver.Holder{}, refused(err))
			return
		}
		for _, name := range names {
			if ctx.Err() != nil {
				yield(driver.Holder{}, context.Cause(ctx))
				return
			}
			key, ok := keyOf(name)
			if !ok || key != "" && !strings.HasPrefix(key, prefix) {
				continue
			}
			l, now, err := b.peek(ctx, filepath.Join(b.dir, name), key)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				yield(driver.Holder{}, refused(err))
				return
			}
			for _, h := range l.Inspect(driver.Unlimited, now).Holders {
				if h.Held && strings.HasPrefix(h.Key, prefix) && !yield(h, nil) {
					return
				}
			}
		}
	}
}

// names returns the names of all files in the directory.
func (b *backend) names() ([]string, error) {
	d, err := os.Open(b.dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}
