package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlock/pawl/internal/testserver"
)

// U13 and U15, V02 and V16: a holder that is cut off from the
// store has its command dead, and all that came of it, before another's begins.
// Both write to one log, which has to be all of the one and then the other.
func TestPartitionedHoldersCommandIsDeadBeforeAnothersBegins(t *testing.T) {
	t.Parallel()
	redis, url := startRedis(t)
	proxy := testserver.StartProxy(t, redis.Addr)
	log := filepath.Join(t.TempDir(), "log")
	const write = `trap "" TERM HUP INT; echo "$1 $$" >>"$2"; while :; do echo "$1 $$" >>"$2"; sleep 0.005; done`
	holder := startPawl(t, "redis://"+proxy.Addr, "run", "--ttl", "2", "k", "--", "sh", "-c",
		`setsid sh -c '`+write+`' sh "$1" "$2" & (setsid sh -c '`+write+`' sh "$1" "$2" &); `+write, "sh", "first", log)
	eventually(t, "three who write", func() bool { return len(writers(t, log, "first")) == 3 })
	waiter := startPawl(t, url, "run", "k", "--", "sh", "-c", `for i in 1 2 3 4 5 6 7 8 9; do echo "second $$" >>"$1"; sleep 0.02; done`, "sh", log)
	eventually(t, "the waiter", func() bool {
		_, out := ask(t, url, "show", "k")
		return strings.Contains(out, "waiting: 1")
	})
	cut := time.Now()
	proxy.Blackhole()
	if ws := waiter.wait(); ws.ExitStatus() != 0 {
		t.Errorf("got exit status %d of the waiter, want 0", ws.ExitStatus())
	}
	took := time.Since(cut)
	if ws := holder.wait(); ws.ExitStatus() != exitLost {
		t.Errorf("got exit status %d of the holder, want %d", ws.ExitStatus(), exitLost)
	}
	var runs []string // who wrote, in a row
	for line := range strings.Lines(read(t, log)) {
		if name, _, _ := strings.Cut(line, " "); len(runs) == 0 || runs[len(runs)-1] != name {
			runs = append(runs, name)
		}
	}
	if want := []string{"first", "second"}; !slices.Equal(runs, want) {
		t.Errorf("got %q in the log, want %q", runs, want)
	}
	for _, pid := range writers(t, log, "first") {
		if alive(pid) {
			t.Errorf("process %s is alive", pid)
		}
	}
	if took > 20*time.Second {
		t.Errorf("the waiter was done %v after the partition, want it soon after the TTL", took)
	}
}

// writers returns the numbers of the processes that have written to a log.
func writers(t *testing.T, log, name string) []string {
	t.Helper()
	var pids []string
	for line := range strings.Lines(read(t, log)) {
		if pid, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
			t.Cleanup(func() {
				if n, err := strconv.Atoi(pid); err == nil && alive(pid) {
					_ = syscall.Kill(n, syscall.SIGKILL)
				}
			})
		}
	}
	return pids
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

// U19: a release that the store does not confirm is told, with the time
// when the lock ends by itself, and is no failure of the command.
func TestReleaseThatFailsKeepsTheExitCode(t *testing.T) {
	t.Parallel()
	redis, _ := startRedis(t)
	proxy := testserver.StartProxy(t, redis.Addr)
	dir := t.TempDir()
	run := startPawl(t, "redis://"+proxy.Addr, "run", "k", "--", "sh", "-c", `touch "$1/ready"; while ! test -e "$1/go"; do sleep 0.01; done; exit 3`, "sh", dir)
	eventually(t, "the command", func() bool { _, err := os.Stat(filepath.Join(dir, "ready")); return err == nil })
	proxy.Blackhole()
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if ws := run.wait(); ws.ExitStatus() != 3 {
		t.Errorf("got exit status %d, want the command's 3", ws.ExitStatus())
	}
	if want := "; it ends by itself in "; !strings.Contains(run.stderr.String(), "could not release \"k\": ") || !strings.Contains(run.stderr.String(), want) {
		t.Errorf("got %q on standard error, want %q in it", run.stderr, want)
	}
}

// V65: --wait covers all of the waiting, for a server that never answers
// too.
func TestWaitBoundsTheWholeWaiting(t *testing.T) {
	t.Parallel()
	redis, url := startRedis(t)
	proxy := testserver.StartProxy(t, redis.Addr)
	proxy.Blackhole()
	began := time.Now()
	if code, _ := ask(t, "redis://"+proxy.Addr, "run", "--wait", "1", "k", "--", "true"); code != exitUnreachable {
		t.Errorf("got exit code %d, want %d", code, exitUnreachable)
	}
	if took := time.Since(began); took < time.Second || took > 5*time.Second {
		t.Errorf("it gave up after %v, want --wait 1", took)
	}
	// V14: it is not over too soon either.
	if code, _ := ask(t, url, "acquire", "k", "--ttl", "60"); code != 0 {
		t.Fatalf("got exit code %d of acquire, want 0", code)
	}
	began = time.Now()
	if code, _ := ask(t, url, "run", "--wait", "1.5", "k", "--", "true"); code != exitBusy {
		t.Errorf("got exit code %d, want %d", code, exitBusy)
	}
	if took := time.Since(began); took < 1500*time.Millisecond {
		t.Errorf("it gave up after %v, want --wait 1.5", took)
	}
}
