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
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/flock"
)

// A recordFile is an open record.
type recordFile struct {
	f      *os.File
	path   string
	flush  func(*os.File) error
	header header
	body   []byte
}

// update applies op to the line of key and writes the outcome back, under the
// lock of the record. Without a record it makes one if create is set; else op
// has an empty line, nothing is written, and found is false. What op returns
// says whether the outcome must be on disk before update returns.
//
// An error for which errors.Is(err, driver.ErrRefused) does not hold leaves
// open whether the outcome was written.
func (b *backend) update(ctx context.Context, key string, create bool, op func(*line, driver.Instant) bool) (found bool, err error) {
	path := filepath.Join(b.dir, recordName(key))
	for {
		r, err := b.open(ctx, path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && create:
			if err := b.create(ctx, path, key); err != nil {
				return false, refused(err)
			}
			continue
		case errors.Is(err, fs.ErrNotExist):
			now, _, err := b.clock.at(header{})
			if err != nil {
				return false, refused(err)
			}
			op(newLine(), now)
			return false, nil
		case err != nil:
			return false, refused(err)
		}
		err = b.apply(r, key, op)
		gone := r.gone() // it was removed before we had the lock, or by someone who needs none
		r.close()
		if !gone {
			return true, err
		}
	}
}

// apply does the work of update on r, which is locked.
func (b *backend) apply(r *recordFile, key string, op func(*line, driver.Instant) bool) error {
	if err := r.read(); err != nil {
		return refused(err)
	}
	l, now, err := b.line(r, key)
	if err != nil {
		return refused(err)
	}
	sync := op(l, now)
	text, err := encodeBody(key, l)
	if err != nil {
		return refused(err)
	}
	h := header{last: l.Last, boot: b.clock.boot, clock: now.Clock}
	return r.commit(h, text, sync || l.Last > r.header.last)
}

// line returns the state in r as it is now.
func (b *backend) line(r *recordFile, key string) (*line, driver.Instant, error) {
	now, same, err := b.clock.at(r.header)
	if err != nil {
		return nil, now, err
	}
	stored, l, err := parseBody(r.header, r.body)
	switch {
	case err != nil && same:
		return nil, now, &DamageError{Path: r.path, Why: err.Error()}
	case err != nil:
		l = newLine() // the power went, see commit
		l.Last = r.header.last
	case key != "" && stored != key:
		return nil, now, &DamageError{Path: r.path, Why: fmt.Sprintf("it belongs to the key %q", stored)}
	case !same:
		l.Entries, l.Notices = nil, nil // all who were in line have ended
	}
	return l, now, nil
}

// open returns the record at path, locked. Its name may have gone to another
// file while we waited for the lock.
func (b *backend) open(ctx context.Context, path string) (*recordFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := flock.Lock(ctx, f, true); err != nil {
		f.Close()
		return nil, err
	}
	return &recordFile{f: f, path: path, flush: b.flush}, nil
}

// gone reports whether another file, or none, has r's name.
func (r *recordFile) gone() bool {
	mine, err := r.f.Stat()
	if err != nil {
		return false // the next operation on the file will tell
	}
	there, err := os.Stat(r.path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return !os.SameFile(mine, there)
}

func (r *recordFile) close() {
	flock.Unlock(r.f) // not left to Close: a child that is between fork and exec has the file, too
	r.f.Close()
}

// read reads the header and the body. Whether they match is for parseBody.
func (r *recordFile) read() error {
	block := make([]byte, blockSize)
	n, err := r.f.ReadAt(block, 0)
	if err != nil && err != io.EOF {
		return err
	}
	block = block[:n]
	h, err := parseHeader(block)
	if err != nil {
		return &DamageError{Path: r.path, Why: err.Error()}
	}
	r.header = h
	if h.at+h.size <= int64(n) {
		r.body = block[h.at : h.at+h.size]
		return nil
	}
	info, err := r.f.Stat()
	if err != nil {
		return err
	}
	r.body = make([]byte, max(0, min(h.size, info.Size()-h.at)))
	n, err = r.f.ReadAt(r.body, h.at)
	r.body = r.body[:n]
	if err != nil && err != io.EOF {
		return err
	}
	return nil
}

// commit makes text the body of r, with sync on disk before it returns.
//
// A process that is killed leaves the old body, or the new one: what it wrote
// is in the kernel's cache in the order of writing. Power that fails may keep
// the header and lose the body. The header then has another boot's name, all
// claims have ended anyway, and the counter, the one thing that must outlive
// the boot, is in the header. Where boots have no names the body goes to disk
// first. Every token that was returned was on disk in some header before, and
// later headers only raise it; so most changes need no sync.
func (r *recordFile) commit(h header, text []byte, sync bool) error {
	if bytes.Equal(text, r.body) && h.last == r.header.last {
		if sync { // the one who wrote it may have been killed before it was on disk
			return r.sync()
		}
		return nil
	}
	h.seq, h.rooted = r.header.seq+1, r.header.rooted
	h.size, h.sum = int64(len(text)), checksum(text)
	h.at = r.room(h.size)
	if _, err := r.f.WriteAt(text, h.at); err != nil {
		return refused(err)
	}
	if err := r.reserve(h); err != nil && h.size > r.header.size {
		return refused(err)
	}
	if h.boot == unknownBoot {
		if err := r.toDisk(); err != nil {
			return refused(err)
		}
	}
	if sync && !h.rooted {
		if err := flock.SyncDir(filepath.Dir(r.path)); err != nil {
			return refused(err)
		}
		h.rooted = true
	}
	if n, err := r.f.WriteAt(h.encode(), 0); err != nil {
		if n == 0 {
			return refused(err)
		}
		return err
	}
	r.header, r.body = h, text
	if sync {
		return r.toDisk()
	}
	return nil
}

// sync brings to disk what is written already.
func (r *recordFile) sync() error {
	if !r.header.rooted {
		if err := flock.SyncDir(filepath.Dir(r.path)); err != nil {
			return err
		}
	}
	return r.toDisk()
}

func (r *recordFile) toDisk() error {
	if err := r.flush(r.f); err != nil {
		return fmt.Errorf("flush %s: %w", r.path, err)
	}
	return nil
}

// room returns where a body of so many bytes can be written without touching
// the one in use: before it or behind it.
func (r *recordFile) room(size int64) int64 {
	if headerSize+size <= r.header.at {
		return headerSize
	}
	return r.header.at + r.header.size
}

// reserve sees to it that the next body can be written after the one of h: who
// renews or leaves must not need room that a full disk does not have.
func (r *recordFile) reserve(h header) error {
	size := h.size + 64 // numbers grow
	if h.at-headerSize >= size {
		return nil
	}
	info, err := r.f.Stat()
	if err != nil {
		return err
	}
	end := h.at + h.size + size
	if info.Size() >= end {
		return nil
	}
	end += blockSize - end%blockSize
	_, err = r.f.WriteAt(bytes.Repeat([]byte{'\n'}, int(end-info.Size())), info.Size())
	return err
}

// peek returns the record at path without its lock, so that it disturbs nobody
// and needs no permission to write. It returns fs.ErrNotExist if there is none.
func (b *backend) peek(ctx context.Context, path, key string) (*line, driver.Instant, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, driver.Instant{}, err
	}
	defer f.Close()
	r := &recordFile{f: f, path: path}
	for try := 0; ; try++ {
		err := r.read()
		if err == nil {
			l, now, lineErr := b.line(r, key)
			if lineErr == nil {
				return l, now, nil
			}
			err = lineErr
		}
		var damage *DamageError
		if !errors.As(err, &damage) || try > 4 {
			return nil, driver.Instant{}, err
		}
		// It may be a write in flight, which the lock keeps out.
		if try == 4 {
			if err := flock.Lock(ctx, f, false); err != nil {
				return nil, driver.Instant{}, err
			}
			defer flock.Unlock(f)
			continue
		}
		time.Sleep(50 * time.Microsecond)
	}
}
