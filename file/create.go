package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/flock"
)

// makeDir creates dir for its owner alone unless it exists, and returns its
// absolute name: a later chdir must not lead to other locks.
func makeDir(dir string) (string, error) {
	if dir == "" {
		return "", &driver.FieldError{Field: "dir", Why: "is empty: name the directory of the locks"}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	_, missing := os.Stat(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil { // also if dir is a file
		return "", err
	}
	if missing != nil {
		if err := flock.SyncDir(filepath.Dir(dir)); err != nil {
			return "", err
		}
	}
	// Reading it tells a file, and a directory of someone else, at once.
	d, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	defer d.Close()
	if _, err := d.Readdirnames(1); err != nil && err != io.EOF {
		return "", err
	}
	if name, local := flock.Local(dir); !local {
		return "", fmt.Errorf("%w: %s is on %s, where other machines may not see its locks: use a directory on a local disk",
			driver.ErrUnsupported, dir, name)
	}
	return dir, nil
}

// create makes an empty record of key at path unless there is one. Its counter
// begins where those of removed records have ended. The file appears whole, by
// a link, and no half-made one is ever seen.
func (b *backend) create(ctx context.Context, path, key string) error {
	floor, err := b.lockFloor(ctx)
	if err != nil {
		return err
	}
	defer floor.close() // until the record has its name, no removal may raise the floor above it
	b.sweep(ctx, floor)
	return b.place(path, key, floor.header.last)
}

// place puts a new record at path, its counter at last.
func (b *backend) place(path, key string, last uint64) error {
	text, err := encodeBody(key, newLine())
	if err != nil {
		return err
	}
	h := header{at: headerSize, size: int64(len(text)), sum: checksum(text), last: last, boot: b.clock.boot}
	image := append(h.encode(), text...)
	if n := len(image) % blockSize; n > 0 {
		image = append(image, bytes.Repeat([]byte{'\n'}, blockSize-n)...)
	}
	f, err := os.CreateTemp(b.dir, newPrefix)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(image)
	if err == nil {
		err = f.Sync() // before it has its name: an empty record would be a damaged one
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	err = os.Link(f.Name(), path)
	if errors.Is(err, fs.ErrExist) {
		return inTheWay(path)
	}
	return err
}

// inTheWay returns an error if what has the name of a record, and is not found
// under it, will not go by itself: another process's record would be found next.
func inTheWay(path string) error {
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return &DamageError{Path: path, Why: "it is a symbolic link to nothing"}
		}
	}
	return nil // found, or removed since: whoever asked looks again
}

// lockFloor returns the record of the directory itself, locked. Its counter is
// at least that of any record that was ever removed.
func (b *backend) lockFloor(ctx context.Context) (*recordFile, error) {
	path := filepath.Join(b.dir, floorName)
	for {
		r, err := b.open(ctx, path)
		if errors.Is(err, fs.ErrNotExist) {
			if err := b.place(path, "", 0); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if r.gone() {
			r.close()
			continue
		}
		if err := r.read(); err != nil {
			r.close()
			return nil, err
		}
		return r, nil
	}
}
