package file_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/file"
)

// unprivileged runs f as someone whom permissions bind.
func unprivileged(t *testing.T, f func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		defer close(done)      // also if f ends the test
		runtime.LockOSThread() // and never unlock it: the thread dies with the goroutine
		if os.Getuid() == 0 {
			const nobody = 65534
			syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0)
			if now, _, _ := syscall.RawSyscall(syscall.SYS_SETFSUID, ^uintptr(0), 0, 0); now != nobody {
				done <- fmt.Errorf("setfsuid: got uid %d, want %d", now, nobody)
				return
			}
		}
		f()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "locks")
	b := open(t, dir)
	acquire(t, b, mutex("k", "a"))
	c := mutex("k", "b")
	c.Queue = true
	_, err := b.Acquire(t.Context(), c)
	wantErr(t, "a second claim", err, driver.ErrHeld)
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if info, err := os.Stat(d); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: got %v, %v, want 0700", d, info.Mode().Perm(), err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 3 { // record, floor, presence
		t.Fatalf("files: got %v, %v, want 3", files, err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got %v, %v, want 0600", f.Name(), info.Mode().Perm(), err)
		}
	}
}

// passable returns a new directory that everyone can reach.
func passable(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestReadOnlyDirectoryCanBeInspected(t *testing.T) {
	dir := passable(t)
	c := mutex("k", "a")
	c.Grant = acquire(t, open(t, dir), c)
	if err := os.Chmod(filepath.Join(dir, file.RecordName("k")), 0o444); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o700) })
	unprivileged(t, func() {
		b := open(t, dir)
		for what, err := range map[string]error{
			"Acquire":            second(b.Acquire(t.Context(), mutex("k", "b"))),
			"Acquire of another": second(b.Acquire(t.Context(), mutex("new", "b"))),
			"Renew":              second(b.Renew(t.Context(), c)),
			"Release":            b.Release(t.Context(), c),
		} {
			if !errors.Is(err, driver.ErrRefused) || !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s: got %v, want ErrRefused and ErrPermission with the path", what, err)
			}
		}
		st, err := b.Inspect(t.Context(), "k", 1)
		if err != nil || len(st.Holders) != 1 || st.Holders[0].ID != "a" {
			t.Errorf("Inspect: got %+v, %v, want the holder a", st, err)
		}
		for h, err := range b.List(t.Context(), "") {
			if err != nil || h.ID != "a" {
				t.Errorf("List: got %+v, %v, want the holder a", h, err)
			}
		}
	})
}

func TestUnusableDirectoriesAreRefusedAtOnce(t *testing.T) {
	parent := passable(t)
	plain := filepath.Join(parent, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(parent, "secret")
	if err := os.Mkdir(secret, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(parent, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(parent, 0o700) })
	if os.Getuid() != 0 { // then the secret has to be kept from its owner
		os.Chmod(secret, 0)
	}
	unprivileged(t, func() {
		for _, c := range []struct {
			dir  string
			want error
		}{
			{"", driver.ErrInvalid},
			{plain, syscall.ENOTDIR},
			{filepath.Join(plain, "sub"), syscall.ENOTDIR},
			{secret, fs.ErrPermission},
			{filepath.Join(parent, "new"), fs.ErrPermission},
		} {
			_, err := file.New(c.dir)
			wantErr(t, fmt.Sprintf("New(%q)", c.dir), err, c.want)
			if err != nil && !strings.HasPrefix(err.Error(), "file: ") {
				t.Errorf("New(%q): got %q, want an error that begins with the package", c.dir, err)
			}
		}
	})
}

func TestFullDiskRefusesAndKeepsWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Skipf("no file system to fill: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	b := open(t, dir)
	c := mutex("k", "a")
	c.Grant = acquire(t, b, c)
	if err := os.WriteFile(filepath.Join(dir, "filling"), make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk: got %v, want ENOSPC", err)
	}
	_, err := b.Acquire(t.Context(), mutex("another", "b"))
	if !errors.Is(err, driver.ErrRefused) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a new key on a full disk: got %v, want ErrRefused and ENOSPC", err)
	}
	var last error
	for i := range 200 { // until the line does not fit into what the file has
		w := mutex("k", fmt.Sprintf("w%d", i))
		w.Queue = true
		if _, last = b.Acquire(t.Context(), w); !errors.Is(last, driver.ErrHeld) {
			break
		}
	}
	if !errors.Is(last, driver.ErrRefused) || !errors.Is(last, syscall.ENOSPC) {
		t.Errorf("a long line on a full disk: got %v, want ErrRefused and ENOSPC", last)
	}
	for range 5 {
		if _, err := b.Renew(t.Context(), c); err != nil {
			t.Errorf("Renew on a full disk: %v", err)
		}
	}
	if err := b.Release(t.Context(), c); err != nil {
		t.Errorf("Release on a full disk: %v", err)
	}
}

// Case Q02.
func TestDescriptorsAreNotInherited(t *testing.T) {
	b := open(t, t.TempDir())
	acquire(t, b, mutex("k", "a"))
	c := mutex("k", "b")
	c.Queue, c.TTL = true, time.Minute
	_, err := b.Acquire(t.Context(), c)
	wantErr(t, "a second claim", err, driver.ErrHeld)
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, link := range links {
		if to, err := os.Readlink(link); err != nil || !strings.Contains(to, file.AlivePrefix) {
			continue
		}
		seen++
		info, err := os.ReadFile(strings.Replace(link, "/fd/", "/fdinfo/", 1))
		if err != nil {
			t.Fatal(err)
		}
		var flags int
		for line := range strings.Lines(string(info)) {
			fmt.Sscanf(line, "flags: %o", &flags)
		}
		if flags&syscall.O_CLOEXEC == 0 {
			t.Errorf("the presence is open with the flags %o, without O_CLOEXEC", flags)
		}
	}
	if seen == 0 {
		t.Error("the presence is not open")
	}
}
