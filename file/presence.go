package file

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/pawlock/pawl/internal/flock"
)

// A presence shows others that this process lives: a file that stays locked as
// long as it does. Its name stands in the record of each claim that waits, so
// that the place of a killed process is free at once.
//
// Every doubt is for life: no file, no permission, a lock inherited by a child.
// A backend that nobody refers to any more is as good as dead.
// Claims that hold are not ended so, since the holder's children may go on
// with the work.
type presence struct {
	dir string

	mu   sync.Mutex
	file *os.File // guarded by mu
	left bool     // guarded by mu
}

// name returns the name of the file, which it makes when first asked, and ""
// if that fails: then only the TTL ends a place in line.
func (p *presence) name() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left {
		return ""
	}
	if p.file == nil {
		var id [16]byte
		rand.Read(id[:]) // never fails: crypto/rand ends the program first
		path := filepath.Join(p.dir, alivePrefix+hex.EncodeToString(id[:]))
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return ""
		}
		if ok, err := flock.Try(f, true); !ok || err != nil { // before anyone has heard of it
			f.Close()
			os.Remove(path)
			return ""
		}
		p.file = f
	}
	return filepath.Base(p.file.Name())
}

// leave ends the presence without showing death: it removes the file first.
func (p *presence) leave() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = true
	if p.file == nil {
		return nil
	}
	err := os.Remove(p.file.Name())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	err = errors.Join(err, p.file.Close())
	p.file = nil
	return err
}

// dropDead takes the claims out of l that wait at its head and whose process
// has died.
func (b *backend) dropDead(l *line) {
	for {
		i := firstWaiting(l)
		if i < 0 || !b.dead(l.presence[l.Entries[i].Claim.ID]) {
			return
		}
		l.Entries = append(l.Entries[:i], l.Entries[i+1:]...)
	}
}

func firstWaiting(l *line) int {
	for i := range l.Entries {
		if !l.Entries[i].Held {
			return i
		}
	}
	return -1
}

// dead reports whether the process whose presence has that name has died.
func (b *backend) dead(name string) bool {
	if name == "" || name != filepath.Base(name) {
		return false
	}
	f, err := os.Open(filepath.Join(b.dir, name))
	if err != nil {
		return false
	}
	defer f.Close()
	ok, err := flock.Try(f, false)
	return ok && err == nil
}
