package etcd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/etcd"
	"github.com/pawlock/pawl/internal/testserver"
)

// A peer is a process of "etcdctl lock NAME", which holds until it is interrupted.
type peer struct {
	cmd *exec.Cmd
	key chan string // what it prints once it holds
}

func startPeer(t *testing.T, etcdctl, addr string, args ...string) *peer {
	t.Helper()
	p := &peer{cmd: exec.Command(etcdctl, append([]string{"--endpoints", addr, "lock", "--ttl", "60"}, args...)...), key: make(chan string, 1)}
	p.cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.key <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-read
		p.cmd.Wait()
	})
	return p
}

// holds waits until the process has printed the key that it holds with.
func (p *peer) holds(t *testing.T) string {
	t.Helper()
	select {
	case key := <-p.key:
		return key
	case <-time.After(30 * time.Second):
		t.Fatal("etcdctl does not hold after 30 s")
		return ""
	}
}

func (p *peer) release(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
}

// "etcdctl lock x" and our locks on x stand in one line, and exclude each other
// in both directions.
func TestEtcdctlAndPawlExcludeEachOther(t *testing.T) {
	releases(t, func(t *testing.T, current bool) {
		etcdctl := testserver.EtcdProgram(t, "etcdctl", current)
		server := testserver.StartEtcd(t, testserver.EtcdOptions{Current: current})[0]
		store := connect(t, server.Addr)
		client := newClient(t, etcd.New(store, nil), 10*time.Second)
		ctx := t.Context()

		theirs := startPeer(t, etcdctl, server.Addr, "x")
		key := theirs.holds(t)
		if lock, id, _ := strings.Cut(key, "/"); lock != "x" {
			t.Fatalf("etcdctl holds %s, want a key below x/", key)
		} else {
			st, err := client.Inspect(ctx, "x")
			if err != nil || len(st.Holders) != 1 || st.Holders[0].ID != id || !st.Holders[0].Foreign || !st.Holders[0].Held {
				t.Errorf("Inspect while etcdctl holds: got %+v, %v, want the foreign holder %s", st.Holders, err, id)
			}
		}
		for what, lock := range map[string]*pawl.Lock{"mutex": client.Mutex("x"), "reader": client.ReadLock("x"), "semaphore": client.Semaphore("x", 5)} {
			if _, err := lock.TryAcquire(ctx); !errors.Is(err, pawl.ErrHeld) {
				t.Errorf("%s while etcdctl holds: got %v, want ErrHeld", what, err)
			}
		}

		ours := acquireLater(t, client.Mutex("x"))
		waitFor(t, "a claim of ours in line", func() bool {
			st, err := client.Inspect(ctx, "x")
			return err == nil && st.Waiting == 1
		})
		next := startPeer(t, etcdctl, server.Addr, "x")
		waitFor(t, "etcdctl in line behind it", func() bool {
			st, err := client.Inspect(ctx, "x")
			return err == nil && st.Waiting == 2
		})
		theirs.release(t)
		lease := <-ours
		select {
		case key := <-next.key:
			t.Fatalf("etcdctl holds %s while we do", key)
		case <-time.After(300 * time.Millisecond): // long enough for one that does not wait
		}
		if err := lease.Release(ctx); err != nil {
			t.Fatal(err)
		}
		next.holds(t)

		// By force: etcdctl is not told, but the key is free.
		st, err := client.Inspect(ctx, "x")
		if err != nil || len(st.Holders) != 1 {
			t.Fatalf("got %+v, %v, want one holder", st.Holders, err)
		}
		if err := client.ForceRelease(ctx, "x", st.Holders[0].ID, "maintenance"); err != nil {
			t.Fatal(err)
		}
		lease, err = client.Mutex("x").TryAcquire(ctx)
		if err != nil {
			t.Fatalf("after the force: %v", err)
		}
		if err := lease.Release(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// Readers of ours keep etcdctl out, and it waits for the last.
func TestEtcdctlWaitsForReaders(t *testing.T) {
	releases(t, func(t *testing.T, current bool) {
		etcdctl := testserver.EtcdProgram(t, "etcdctl", current)
		server := testserver.StartEtcd(t, testserver.EtcdOptions{Current: current})[0]
		client := newClient(t, etcd.New(connect(t, server.Addr), nil), 10*time.Second)
		first, second := mustTry(t, client.ReadLock("r/1")), mustTry(t, client.ReadLock("r/1"))
		theirs := startPeer(t, etcdctl, server.Addr, "r%2F1") // how the protocol writes the name
		waitFor(t, "etcdctl in line", func() bool {
			st, err := client.Inspect(t.Context(), "r/1")
			return err == nil && st.Waiting == 1
		})
		for _, lease := range []*pawl.Lease{first, second} {
			select {
			case key := <-theirs.key:
				t.Fatalf("etcdctl holds %s while a reader does", key)
			case <-time.After(200 * time.Millisecond):
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		theirs.holds(t)
	})
}

// Both take turns at a folder that only one at a time can have.
func TestEtcdctlAndPawlContend(t *testing.T) {
	releases(t, func(t *testing.T, current bool) {
		etcdctl := testserver.EtcdProgram(t, "etcdctl", current)
		server := testserver.StartEtcd(t, testserver.EtcdOptions{Current: current})[0]
		client := newClient(t, etcd.New(connect(t, server.Addr), nil), 10*time.Second)
		dir := filepath.Join(t.TempDir(), "alone")
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				for range 8 {
					out, err := run(etcdctl, "--endpoints", server.Addr, "lock", "x", "sh", "--", "-c", `mkdir "$0" && echo turn >>"$0.log" && sleep 0.01 && rmdir "$0"`, dir)
					if err != nil {
						t.Errorf("etcdctl: %v: %s", err, out)
					}
				}
			})
			all.Go(func() {
				for range 30 {
					err := client.Mutex("x").Do(t.Context(), func(context.Context, *pawl.Lease) error {
						if err := os.Mkdir(dir, 0o700); err != nil {
							return fmt.Errorf("not alone: %w", err)
						}
						time.Sleep(time.Millisecond)
						return os.Remove(dir)
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		log, err := os.ReadFile(dir + ".log")
		if got := strings.Count(string(log), "turn"); err != nil || got != 16 {
			t.Errorf("turns of etcdctl: got %d, %v, want 16", got, err)
		}
	})
}

// run runs etcdctl, and returns all that it prints.
func run(etcdctl string, args ...string) (string, error) {
	cmd := exec.Command(etcdctl, args...)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
