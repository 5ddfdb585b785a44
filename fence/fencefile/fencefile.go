// Package fencefile guards resources of one machine, among processes: what
// scripts write, say. It keeps its marks in a file.
//
//	guard, err := fencefile.New("/var/lib/invoices/fence")
//	...
//	err = fence.Do(ctx, guard, "invoices", func(ctx context.Context) error {
//		return exec.CommandContext(ctx, "rsync", "-a", "new/", "/srv/invoices").Run()
//	})
//
// pawl fence check does the same for a shell.
package fencefile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/fence"
	"github.com/pawlock/pawl/internal/flock"
)

// A Guard keeps its marks in a file. Any number of processes, and of goroutines,
// may use the same one.
type Guard struct{ path string }

// New returns a guard with its marks in the file path, which is made by the first
// write; its directory must exist. Beside it lies path.lock, which is locked
// while a write is under way and must not be removed. The directory has to be on
// a local disk: elsewhere other machines may not see the lock, which is
// [pawl.ErrUnsupported].
func New(path string) (*Guard, error) {
	if path == "" {
		return nil, &pawl.FieldError{Field: "path", Why: "is empty: name the file of the marks"}
	}
	path, err := filepath.Abs(path) // a later chdir must not lead elsewhere
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: errors.New("is no directory")}
	}
	if name, local := flock.Local(dir); !local {
		return nil, fmt.Errorf("%w: %s is on %s, where other machines may not see its lock: use a directory on a local disk",
			pawl.ErrUnsupported, dir, name)
	}
	return &Guard{path}, nil
}

// Do implements [fence.Guard]. All writes under one file take turns, whatever the
// resource; where that is too few give each resource a file of its own. The token
// is on disk before write begins, and stays there if write fails.
//
// A process that is killed gives its turn away at once. What it has started may
// go on writing: hand it the file of [LockFromContext], and it keeps the turn.
func (g *Guard) Do(ctx context.Context, resource string, token pawl.Token, write func(ctx context.Context) error) error {
	inner, err := fence.Enter(ctx, g, resource, token)
	if err != nil {
		return err
	}
	if ctx.Value(turnKey{g.path}) != nil {
		return fmt.Errorf("%w: the marks of %q are in %s too", fence.ErrNested, resource, g.path)
	}
	turn, err := os.OpenFile(g.path+".lock", os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer turn.Close() // gives it back, unless a child has it
	if err := flock.Lock(ctx, turn, true); err != nil {
		return err
	}
	if ctx.Err() != nil { // the lease, maybe, while we waited
		return context.Cause(ctx)
	}
	if err := g.raise(resource, token); err != nil {
		return err
	}
	inner = context.WithValue(inner, turnKey{g.path}, turn)
	return write(context.WithValue(inner, lockKey{}, turn))
}

// raise checks token, and brings it to disk if it is new.
func (g *Guard) raise(resource string, token pawl.Token) error {
	f, err := os.Open(g.path)
	var marks table
	switch {
	case errors.Is(err, fs.ErrNotExist):
		marks = table{}
	case err != nil:
		return err
	default:
		text, err := io.ReadAll(f)
		f.Close()
		if err != nil {
			return err
		}
		if marks, err = parse(text); err != nil {
			return fmt.Errorf("%s is no file of marks, or is damaged: %w: restore it, or remove it when nobody can hold the lock", g.path, err)
		}
	}
	before := marks[resource]
	after, err := before.Raise(resource, token)
	if err != nil || after == before {
		return err
	}
	marks[resource] = after
	return g.replace(marks.encode())
}

// replace makes text the content of the file: all of it or nothing, on disk
// before it returns.
func (g *Guard) replace(text []byte) error {
	mode := fs.FileMode(0o666)
	if info, err := os.Stat(g.path + ".lock"); err == nil {
		mode = info.Mode().Perm() // what the umask of the first left of it
	}
	next := g.path + ".new" // one name: only who has the turn writes it
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(next, g.path)
	}
	if err != nil {
		_ = os.Remove(next) // the next writer truncates it anyway
		return err
	}
	return flock.SyncDir(filepath.Dir(g.path))
}

type (
	turnKey struct{ path string }
	lockKey struct{}
)

// LockFromContext returns the locked file of the innermost Do that ctx is inside
// of. It is locked until all processes that have it open have ended or closed it:
// a command that gets it, as one of exec.Cmd's ExtraFiles, keeps the turn even if
// this process is killed. The caller must not close it.
func LockFromContext(ctx context.Context) (*os.File, bool) {
	f, ok := ctx.Value(lockKey{}).(*os.File)
	return f, ok
}
