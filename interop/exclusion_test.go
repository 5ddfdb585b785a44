package interop_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/quorum"
	"github.com/pawlock/pawl/redis/goredis"
)

const patience = 60 * time.Second

func hostPort(t *testing.T, s *testserver.Redis) (host, port string) {
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

func newPawl(t *testing.T, s *testserver.Redis) *pawl.Client {
	b := goredis.New(dial(t, s))
	c, err := pawl.New(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		b.Close()
	})
	return c
}

// key is the lock of resource for everybody else.
const resource, key = "resource", "lock:resource"

func TestEachExcludesTheOther(t *testing.T) {
	for name, connect := range newPeers() {
		t.Run(name, func(t *testing.T) {
			s := testserver.StartRedis(t, testserver.RedisOptions{})
			theirs := connect(t, s)
			ours := newPawl(t, s)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			mutex := ours.Mutex(resource)

			// They hold it.
			if !theirs.acquire(t, key, 30*time.Second) {
				t.Fatal("they can't have a free key")
			}
			for kind, lock := range map[string]*pawl.Lock{"mutex": mutex, "reader": ours.ReadLock(resource), "semaphore": ours.Semaphore(resource, 3)} {
				_, err := lock.TryAcquire(ctx)
				var held *pawl.HeldError
				if !errors.As(err, &held) || !held.Holder.Foreign || held.Left <= 0 || held.Left > 30*time.Second {
					t.Errorf("TryAcquire of a %s that they hold: got %v, want a *HeldError of a foreign holder", kind, err)
				}
			}
			waited := make(chan *pawl.Lease, 1)
			go func() {
				lease, err := mutex.Acquire(ctx)
				if err != nil {
					t.Errorf("Acquire of what they hold: %v", err)
				}
				waited <- lease
			}()
			awaitWaiter(t, ours)
			if !theirs.release(t) {
				t.Error("they have lost their lock while we waited")
			}
			lease := <-waited
			if lease == nil {
				t.FailNow()
			}

			// We hold it.
			if theirs.acquire(t, key, 30*time.Second) {
				t.Error("they have what we hold")
			}
			if err := lease.Renew(ctx); err != nil {
				t.Errorf("Renew after they have tried: %v", err)
			}
			if err := lease.Release(ctx); err != nil {
				t.Errorf("Release: %v", err)
			}
			for kind, lock := range map[string]*pawl.Lock{"reader": ours.ReadLock(resource), "semaphore": ours.Semaphore(resource, 3)} {
				lease, err := lock.TryAcquire(ctx)
				if err != nil {
					t.Fatalf("TryAcquire of a free %s: %v", kind, err)
				}
				if theirs.acquire(t, key, 30*time.Second) {
					t.Errorf("they have what we hold as a %s", kind)
				}
				if err := lease.Release(ctx); err != nil {
					t.Errorf("Release of a %s: %v", kind, err)
				}
			}

			// Their time runs out while we wait, and then they let go of what is ours.
			if !theirs.acquire(t, key, time.Second) {
				t.Fatal("they can't have a key that we have released")
			}
			lease, err := mutex.Acquire(ctx)
			if err != nil {
				t.Fatalf("Acquire of what they forgot: %v", err)
			}
			if theirs.release(t) {
				t.Error("they have released what is ours")
			}
			if err := lease.Renew(ctx); err != nil {
				t.Errorf("Renew after they have released: %v", err)
			}
			if err := lease.Release(ctx); err != nil {
				t.Errorf("Release: %v", err)
			}
		})
	}
}

// awaitWaiter waits until somebody waits.
func awaitWaiter(t *testing.T, c *pawl.Client) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		state, err := c.Inspect(t.Context(), resource)
		if err == nil && state.Waiting > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nobody waits: %+v, %v", state, err)
		}
	}
}

// A majority of the same servers excludes another.
func TestQuorumsOnTheSameServersExcludeEachOther(t *testing.T) {
	var nodes []quorum.Node
	var pools []redsyncredis.Pool
	for range 3 {
		s := testserver.StartRedis(t, testserver.RedisOptions{})
		b := goredis.New(dial(t, s))
		t.Cleanup(func() { b.Close() })
		nodes = append(nodes, quorum.Node{Name: s.Addr, Backend: b})
		pools = append(pools, redsyncpool.NewPool(dial(t, s)))
	}
	b, err := quorum.New(nodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ours, err := pawl.New(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs := &redsyncPeer{locks: redsync.New(pools...)}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 3 {
		if !theirs.acquire(t, key, 30*time.Second) {
			t.Fatal("they can't have a free key")
		}
		if _, err := ours.Mutex(resource).TryAcquire(ctx); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("TryAcquire of what they hold: got %v, want ErrHeld", err)
		}
		if !theirs.release(t) {
			t.Error("they have lost their lock")
		}
		lease, err := ours.Mutex(resource).Acquire(ctx)
		if err != nil {
			t.Fatalf("Acquire of what they have released: %v", err)
		}
		if theirs.acquire(t, key, 30*time.Second) {
			t.Error("they have what we hold")
		}
		if err := lease.Release(ctx); err != nil {
			t.Errorf("Release: %v", err)
		}
	}
}

// All run into each other on one key. A file tells of two that are in there.
func TestNobodyMeetsAnybodyUnderContention(t *testing.T) {
	const sections = 40
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	interpreter := python(t)
	file := filepath.Join(t.TempDir(), "occupied")
	enter := func(who string) {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			t.Errorf("%s is not alone: %v", who, err)
			return
		}
		f.Close()
		if err := os.Remove(file); err != nil {
			t.Errorf("%s was not alone: %v", who, err)
		}
	}
	var all sync.WaitGroup
	for range 2 {
		ours := newPawl(t, s)
		all.Go(func() {
			last := uint64(0)
			for range sections {
				err := ours.Mutex(resource).Do(t.Context(), func(_ context.Context, lease *pawl.Lease) error {
					enter("pawl")
					if lease.Token() <= last {
						t.Errorf("token: got %d after %d", lease.Token(), last)
					}
					last = lease.Token()
					return nil
				})
				if err != nil {
					t.Errorf("pawl: %v", err)
				}
			}
		})
		for name, theirs := range map[string]peer{
			"redsync": newPeers()["Redsync"](t, s), "redislock": newPeers()["Redislock"](t, s), "the textbook": newPeers()["Textbook"](t, s),
		} {
			all.Go(func() {
				for range sections {
					for deadline := time.Now().Add(patience); !theirs.acquire(t, key, 30*time.Second); time.Sleep(2 * time.Millisecond) {
						if time.Now().After(deadline) {
							t.Errorf("%s had no turn for %v", name, patience)
							return
						}
					}
					enter(name)
					if !theirs.release(t) {
						t.Errorf("%s has lost its lock", name)
					}
				}
			})
		}
		host, port := hostPort(t, s)
		cmd := exec.Command(interpreter, "testdata/peer.py", host, port, key, strconv.Itoa(sections), file)
		all.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil || !bytes.Equal(out, []byte("done\n")) {
				t.Errorf("redis-py: %v: %s", err, out)
			}
		})
	}
	all.Wait()
}
