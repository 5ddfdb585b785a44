package zookeeper_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
)

// A peer is another program with a lock of its own library.
type peer struct {
	name string
	in   io.Writer
	out  *bufio.Scanner
}

func startPeer(t *testing.T, name string, args ...string) *peer {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
		cmd.Wait()
	})
	return &peer{name, in, bufio.NewScanner(out)}
}

// startCurator starts a program with Curator, which it compiles.
func startCurator(t *testing.T, addr string) *peer {
	testserver.Require(t, "curator", "java", "javac")
	var path []string
	for _, jar := range []string{"curator-recipes", "curator-framework", "curator-client", "guava", "zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-nop", "netty-all"} {
		jar = "/usr/share/java/" + jar + ".jar"
		if _, err := os.Stat(jar); err != nil {
			testserver.Miss(t, "curator", err.Error())
		}
		path = append(path, jar)
	}
	dir := t.TempDir()
	classes := strings.Join(append(path, dir), ":")
	if out, err := exec.Command("javac", "-d", dir, "-cp", classes, filepath.Join("testdata", "Peer.java")).CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	return startPeer(t, "Curator", "java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classes, "Peer", addr)
}

// startKazoo starts a program with kazoo. Debian's module is for Debian's
// interpreter, which need not come first.
func startKazoo(t *testing.T, addr string) *peer {
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-Ic", "import kazoo").Run() == nil {
			return startPeer(t, "kazoo", python, "-I", filepath.Join("testdata", "peer.py"), addr)
		}
	}
	testserver.Miss(t, "python3-kazoo", "no python3 has the module kazoo")
	return nil
}

func (p *peer) send(t *testing.T, format string, args ...any) {
	t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
}

func (p *peer) answer(t *testing.T) bool {
	t.Helper()
	if !p.out.Scan() {
		t.Fatalf("%s ended: %v", p.name, p.out.Err())
	}
	return p.out.Text() == "yes"
}

// acquire reports whether p has the lock, for which it waits for d.
func (p *peer) acquire(t *testing.T, path string, d time.Duration) bool {
	t.Helper()
	p.send(t, "acquire %s %d", path, d.Milliseconds())
	return p.answer(t)
}

func (p *peer) release(t *testing.T) {
	t.Helper()
	p.send(t, "release")
	if !p.answer(t) {
		t.Errorf("%s had lost its lock", p.name)
	}
}

// The locks of others on the node of a key exclude ours, and are excluded by
// them, in one line.
func TestOthersShareTheLine(t *testing.T) {
	server := testserver.StartZooKeeper(t, 1)[0]
	for name, start := range map[string]func(*testing.T, string) *peer{"Curator": startCurator, "kazoo": startKazoo} {
		t.Run(name, func(t *testing.T) {
			theirs := start(t, server.Addr)
			ours := newUser(t, server.Addr)
			key := "shared/" + name
			path := "/pawl/shared%2F" + name
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			share := func() driver.Claim {
				c := ours.mutex(key, 20*time.Second)
				c.Capacity = driver.Unlimited
				return c
			}

			// They hold it, and we wait.
			if !theirs.acquire(t, path, 20*time.Second) {
				t.Fatal("they can't have a free key")
			}
			for _, c := range []driver.Claim{ours.mutex(key, 20*time.Second), share()} {
				c.Queue = false
				if held := ours.refuse(c); !held.Holder.Foreign || !held.Holder.Held || held.Left >= 0 {
					t.Errorf("holder: got %+v, want a foreign one", held)
				}
			}
			st, err := ours.Inspect(ctx, key, 10)
			if err != nil || len(st.Holders) != 1 || !st.Holders[0].Foreign || !st.Holders[0].Held {
				t.Errorf("Inspect: got %+v, %v, want a foreign holder", st, err)
			}
			if err := ours.Revoke(ctx, key, st.Holders[0].ID, driver.Notice{By: "me"}); !errors.Is(err, driver.ErrUnsupported) {
				t.Errorf("Revoke that asks a foreign holder: got %v, want ErrUnsupported", err)
			}
			next := ours.mutex(key, 20*time.Second)
			ours.refuse(next)
			theirs.release(t)
			next = ours.await(ctx, next)

			// We hold it, as one and as several.
			if theirs.acquire(t, path, 300*time.Millisecond) {
				t.Error("they have what we hold")
			}
			if _, err := ours.Renew(ctx, next); err != nil {
				t.Errorf("Renew after they have tried: %v", err)
			}
			if err := ours.Release(ctx, next); err != nil {
				t.Error(err)
			}
			one, two := ours.take(share()), ours.take(share())
			ours.Release(ctx, one)
			if theirs.acquire(t, path, 300*time.Millisecond) {
				t.Error("they have what a reader of ours holds")
			}

			// They wait, one of ours behind them, and all are served in order. What
			// moves to another session keeps its place for them too.
			theirs.send(t, "acquire %s 30000", path)
			await(t, "they are in line", func() error {
				if st, err := ours.Inspect(ctx, key, 1); err != nil || st.Waiting != 1 {
					return fmt.Errorf("%d wait, %v", st.Waiting, err)
				}
				return nil
			})
			behind := ours.mutex(key, 20*time.Second)
			ours.refuse(behind)
			other := newUser(t, server.Addr)
			if _, err := other.Renew(ctx, two); err != nil {
				t.Errorf("Renew by another process: %v", err)
			}
			ours.refuse(behind)
			if st, err := ours.Inspect(ctx, key, 1); err != nil || st.Waiting != 2 || st.Holders[0].ID != two.ID {
				t.Errorf("Inspect: got %+v, %v, want our reader as the holder and two waiting", st, err)
			}
			if err := other.Release(ctx, two); err != nil {
				t.Error(err)
			}
			if !theirs.answer(t) {
				t.Fatal("they were next in line, and got nothing")
			}
			ours.refuse(behind)
			theirs.release(t)
			behind = ours.await(ctx, behind)

			// By force their node goes; and theirs is deleted without a word.
			if err := ours.Release(ctx, behind); err != nil {
				t.Error(err)
			}
			if !theirs.acquire(t, path, 20*time.Second) {
				t.Fatal("they can't have a key that we have released")
			}
			if st, err = ours.Inspect(ctx, key, 1); err != nil || len(st.Holders) != 1 {
				t.Fatalf("Inspect: got %+v, %v", st, err)
			}
			if err := ours.Revoke(ctx, key, st.Holders[0].ID, driver.Notice{Force: true}); err != nil {
				t.Errorf("Revoke by force: %v", err)
			}
			ours.take(ours.mutex(key, 20*time.Second))
		})
	}
}
