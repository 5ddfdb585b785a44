package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlock/pawl/internal/testserver"
)

// A pawlRun is a running pawl, without a terminal.
type pawlRun struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr *buffer
	ended  chan struct{}
}

func startPawl(t *testing.T, url string, args ...string) *pawlRun {
	t.Helper()
	r := &pawlRun{t: t, cmd: exec.Command("pawl", args...), stderr: new(buffer), ended: make(chan struct{})}
	r.cmd.Env = append(os.Environ(), "PAWL_URL="+url)
	r.cmd.Stderr = r.stderr
	r.cmd.WaitDelay = time.Second // what outlives it may hold its standard error
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait()
		close(r.ended)
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.ended
		if t.Failed() {
			t.Logf("standard error of pawl %q:\n%s", args, r.stderr)
		}
	})
	return r
}

// wait waits for the end, and returns how it came.
func (r *pawlRun) wait() syscall.WaitStatus {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(30 * time.Second):
		r.t.Fatalf("pawl %q did not end", r.cmd.Args)
	}
	return r.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// ask runs pawl to its end and returns its exit code and output.
func ask(t *testing.T, url string, args ...string) (int, string) {
	t.Helper()
	cmd := exec.Command("pawl", args...)
	cmd.Env = append(os.Environ(), "PAWL_URL="+url)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func isHeld(t *testing.T, url, key string) bool {
	t.Helper()
	code, _ := ask(t, url, "show", "-q", key)
	return code == 0
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("never came: %s", what)
		}
	}
}

// words returns the words in a file, none if there is no file yet.
func words(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Fields(string(b))
}

func alive(pid string) bool {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// startTree runs the command tree under the lock k and returns the numbers of
// its processes.
func startTree(t *testing.T, url string, args ...string) (*pawlRun, []string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pids")
	r := startPawl(t, url, append(append([]string{"run"}, args...), "k", "--", "tree", name)...)
	eventually(t, "5 processes", func() bool { return len(words(t, name)) == 5 })
	pids := words(t, name)
	t.Cleanup(func() {
		for _, pid := range pids {
			if n, err := strconv.Atoi(pid); err == nil && alive(pid) {
				_ = syscall.Kill(n, syscall.SIGKILL)
			}
		}
	})
	return r, pids
}

func startRedis(t *testing.T) (*testserver.Redis, string) {
	t.Helper()
	r := testserver.StartRedis(t, testserver.RedisOptions{})
	return r, "redis://" + r.Addr
}

func fileURL(t *testing.T) string { return "file://" + t.TempDir() }

// An operator deletes the key. Someone else may have it from now on, and so the
// command has until --kill-after.
// Cases A07, T10, U13, U16, V01.
func TestDeletedKeyStopsAllProcesses(t *testing.T) {
	t.Parallel()
	stopsAll(t, "k")
}

// Of several locks the loss of one is enough, and the other is not given back
// before all processes are dead.
func TestLossOfOneOfSeveralStopsAllProcesses(t *testing.T) {
	t.Parallel()
	stopsAll(t, "j", "--also", "j")
}

// stopsAll deletes the key of a run.
func stopsAll(t *testing.T, key string, args ...string) {
	r, url := startRedis(t)
	run, pids := startTree(t, url, append([]string{"--ttl", "2", "--kill-after", "0.3"}, args...)...)
	waiter := startPawl(t, url, append([]string{"run", "k", "--", "sh", "-c", `for pid; do ! kill -0 "$pid" || exit 1; done`, "sh"}, pids...)...)
	r.Do("DEL", "lock:"+key)
	deleted := time.Now()
	if ws := run.wait(); ws.ExitStatus() != exitLost {
		t.Errorf("got exit status %d, want %d", ws.ExitStatus(), exitLost)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %s is alive after the wrapper has ended", pid)
		}
	}
	// A renewal, due every third of the TTL, tells; then --kill-after.
	if took, bound := time.Since(deleted), 4*time.Second; took > bound {
		t.Errorf("all were stopped %v after the deletion, want at most %v", took, bound)
	}
	if want := fmt.Sprintf("LOCK LOST %q", key); !strings.Contains(run.stderr.String(), want) {
		t.Errorf("got %q on standard error, want %q in it", run.stderr, want)
	}
	if ws := waiter.wait(); key != "k" && ws.ExitStatus() != 0 {
		t.Errorf("got exit status %d of who waited for the other lock, want 0: all processes dead by then", ws.ExitStatus())
	}
}

// A store that does not answer can't tell who holds. All processes are dead
// before it could give the lock to another, the ones that ignore TERM included.
// Cases A01, U15, V53.
func TestPartitionedHolderIsStoppedBeforeItsLeaseEnds(t *testing.T) {
	t.Parallel()
	r, url := startRedis(t)
	run, pids := startTree(t, url, "--ttl", "6")

	// Cut it off right after a renewal: the end of the claim is then known.
	var end time.Time
	var last int64
	eventually(t, "a renewal", func() bool {
		now := time.Now()
		left := r.Do("PTTL", "lock:k").(int64)
		renewed := last > 0 && left > last
		last, end = left, now.Add(time.Duration(left)*time.Millisecond)
		return renewed
	})
	r.Stop()
	for _, pid := range pids {
		for alive(pid) {
			if time.Now().After(end) {
				t.Fatalf("process %s is alive at the end of the lease", pid)
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
	t.Logf("all were dead %v before the store could give the lock to another", time.Until(end))
	r.Continue()
	if ws := run.wait(); ws.ExitStatus() != exitLost {
		t.Errorf("got exit status %d, want %d", ws.ExitStatus(), exitLost)
	}
	for _, want := range []string{"could not renew \"k\"", "LOCK LOST \"k\"", "it was stopped before the lease ended"} {
		if !strings.Contains(run.stderr.String(), want) {
			t.Errorf("got %q on standard error, want %q in it", run.stderr, want)
		}
	}
}

// Cases D11, Q04, V26.
func TestKilledHolderIsSucceededWithinItsTTL(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	_, redis := startRedis(t)
	for _, url := range []string{redis, fileURL(t)} {
		holder := startPawl(t, url, "run", "--ttl", "2", "k", "--", "sleep", "60")
		eventually(t, "the holder", func() bool { return isHeld(t, url, "k") })
		started := filepath.Join(t.TempDir(), "started")
		waiter := startPawl(t, url, "run", "k", "--", "touch", started)
		eventually(t, "the waiter", func() bool {
			_, out := ask(t, url, "show", "k")
			return strings.Contains(out, "waiting: 1")
		})
		killed := time.Now()
		if err := holder.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if ws := waiter.wait(); ws.ExitStatus() != 0 {
			t.Errorf("%s: got exit status %d of the waiter, want 0", url, ws.ExitStatus())
		}
		info, err := os.Stat(started)
		if err != nil {
			t.Fatal(err)
		}
		if took := info.ModTime().Sub(killed); took > ttl+time.Second {
			t.Errorf("%s: the waiter got the lock %v after the holder was killed, want at most %v", url, took, ttl+time.Second)
		}
	}
}

// The kernel ends the command of a wrapper that was killed.
// Cases U22 and V40.
func TestKilledWrapperTakesItsCommandAlong(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "pid")
	run := startPawl(t, fileURL(t), "run", "k", "--", "sh", "-c", `echo $$ >"$1"; while :; do sleep 1; done`, "sh", name)
	eventually(t, "the command", func() bool { return len(words(t, name)) == 1 })
	if err := run.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the command", func() bool { return !alive(words(t, name)[0]) })
}

// The command gets the signal, has its time, and is gone before the lock is.
// Cases U18, U20, V04, V32 and V47.
// Case Q04.
func TestStopSignalsReachTheCommandFirst(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		signal syscall.Signal
		name   string
		died   bool // the wrapper, too, dies of it
	}{
		{syscall.SIGTERM, "TERM", true},
		{syscall.SIGINT, "INT", true},
		{syscall.SIGHUP, "HUP", true},
		{syscall.SIGQUIT, "QUIT", false},
	} {
		url, dir := fileURL(t), t.TempDir()
		script := `trap 'sleep 0.3; pawl show -q k && echo held >"$1/out"; trap - ` + test.name + `; ulimit -c 0; kill -` + test.name + ` $$' ` + test.name + `
			touch "$1/ready"; while :; do sleep 0.01; done`
		run := startPawl(t, url, "run", "k", "--", "sh", "-c", script, "sh", dir)
		eventually(t, "the command", func() bool { _, err := os.Stat(filepath.Join(dir, "ready")); return err == nil })
		_ = run.cmd.Process.Signal(test.signal)
		ws := run.wait()
		if test.died && !(ws.Signaled() && ws.Signal() == test.signal) || !test.died && ws.ExitStatus() != 128+int(test.signal) {
			t.Errorf("%s: got wait status %#x, want the command's end passed on", test.name, ws)
		}
		if got := words(t, filepath.Join(dir, "out")); !slices.Equal(got, []string{"held"}) {
			t.Errorf("%s: got %q from the command, want the lock still held while it cleaned up", test.name, got)
		}
		if isHeld(t, url, "k") {
			t.Errorf("%s: the lock is held after the wrapper has ended", test.name)
		}
	}
}

// What the command leaves behind when it was told to stop is stopped with it.
// Case U21.
func TestStopSignalEndsTheWholeTree(t *testing.T) {
	t.Parallel()
	url, name := fileURL(t), filepath.Join(t.TempDir(), "pids")
	run := startPawl(t, url, "run", "--ttl", "4", "-k", "0.5", "k", "--", "sh", "-c",
		`setsid sh -c 'trap "" TERM; echo $$ >>"$1"; while :; do sleep 1; done' sh "$1" & echo $$ >>"$1"; while :; do sleep 1; done`, "sh", name)
	eventually(t, "2 processes", func() bool { return len(words(t, name)) == 2 })
	_ = run.cmd.Process.Signal(syscall.SIGTERM)
	if ws := run.wait(); ws.Signal() != syscall.SIGTERM {
		t.Errorf("got wait status %#x, want death by TERM", ws)
	}
	for _, pid := range words(t, name) {
		if alive(pid) {
			t.Errorf("process %s is alive", pid)
		}
	}
	if isHeld(t, url, "k") {
		t.Error("the lock is held after the wrapper has ended")
	}
}

// A waiter that is told to stop does not start its command, and leaves no place
// in line.
// Case U06.
func TestStopSignalEndsTheWaiting(t *testing.T) {
	t.Parallel()
	_, redis := startRedis(t)
	for _, url := range []string{redis, fileURL(t)} {
		if code, _ := ask(t, url, "acquire", "k", "--ttl", "60"); code != 0 {
			t.Fatalf("%s: got exit code %d of acquire, want 0", url, code)
		}
		name := filepath.Join(t.TempDir(), "started")
		waiter := startPawl(t, url, "run", "k", "--", "touch", name)
		eventually(t, "the waiter", func() bool {
			_, out := ask(t, url, "show", "k")
			return strings.Contains(out, "waiting: 1")
		})
		_ = waiter.cmd.Process.Signal(syscall.SIGUSR1) // is nothing to a waiter
		_ = waiter.cmd.Process.Signal(syscall.SIGTERM)
		if ws := waiter.wait(); ws.Signal() != syscall.SIGTERM {
			t.Errorf("%s: got wait status %#x, want death by TERM", url, ws)
		}
		if _, out := ask(t, url, "show", "k"); strings.Contains(out, "waiting") {
			t.Errorf("%s: got %q, want nobody waiting", url, out)
		}
		if _, err := os.Stat(name); err == nil {
			t.Errorf("%s: the command was started", url)
		}
	}
}

// nohup is not undone: neither by the wrapper nor for its command.
// Case U08.
func TestIgnoredHangupStaysIgnored(t *testing.T) {
	t.Parallel()
	url, dir := fileURL(t), t.TempDir()
	cmd := exec.Command("sh", "-c", `trap "" HUP; exec pawl run k -- sh -c 'kill -HUP $$; touch "$1/ready"; while ! test -e "$1/go"; do sleep 0.01; done; exit 7' sh "$1"`, "sh", dir)
	cmd.Env = append(os.Environ(), "PAWL_URL="+url)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	eventually(t, "the command", func() bool { _, err := os.Stat(filepath.Join(dir, "ready")); return err == nil })
	_ = cmd.Process.Signal(syscall.SIGHUP)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("got exit code %d, want the command's 7", got)
	}
}

// Eight processes and one lock: never two inside, fences rise.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	_, redis := startRedis(t)
	for _, url := range []string{redis, fileURL(t)} {
		dir := t.TempDir()
		const script = `mkdir "$1/inside" || { echo two >>"$1/errors"; exit 1; }
			echo "$PAWL_FENCE" >>"$1/fences"; sleep 0.01; rmdir "$1/inside"`
		var runs []*pawlRun
		for range 8 {
			runs = append(runs, startPawl(t, url, "run", "k", "--", "sh", "-c", script, "sh", dir))
		}
		for _, run := range runs {
			if ws := run.wait(); ws.ExitStatus() != 0 {
				t.Errorf("%s: got exit status %d, want 0", url, ws.ExitStatus())
			}
		}
		fences := words(t, filepath.Join(dir, "fences"))
		if len(fences) != 8 || !slices.IsSorted(fences) || len(slices.Compact(slices.Clone(fences))) != 8 {
			t.Errorf("%s: got fences %q, want 8 that rise", url, fences)
		}
	}
}
