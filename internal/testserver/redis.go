// Package testserver starts real servers for tests. A server listens on the
// loopback interface, keeps its files in the test's directory, and is gone when
// the test has ended.
package testserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Redis is a redis-server process.
type Redis struct {
	Addr   string // host:port on the loopback interface
	Socket string // path of the Unix socket, "" unless asked for

	t    testing.TB
	args []string

	mu  sync.Mutex
	cmd *exec.Cmd // guarded by mu
	log *output
}

// RedisOptions say how a server is started. The zero value is a server without
// persistence.
type RedisOptions struct {
	Args   []string // added to the command line, one word each
	Socket bool     // listen on a Unix socket too
}

// patience is how long a server may take to start or to stop.
const patience = 20 * time.Second

// StartRedis starts a server and waits until it answers. It skips the test if
// redis-server is not installed, and fails it if PAWL_REQUIRE names redis. The
// server's log is shown if the test fails.
func StartRedis(t testing.TB, o RedisOptions) *Redis {
	t.Helper()
	Require(t, "redis", "redis-server")
	dir, err := os.MkdirTemp("", "pawl") // not TempDir: the path of a socket is at most 107 bytes long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &Redis{Addr: freeAddrs(t, 1)[0], t: t, log: new(output)}
	_, port, _ := net.SplitHostPort(r.Addr)
	r.args = []string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--daemonize", "no",
		"--save", "", "--appendonly", "no", "--enable-debug-command", "local"}
	if o.Socket {
		r.Socket = filepath.Join(dir, "redis.sock")
		r.args = append(r.args, "--unixsocket", r.Socket, "--unixsocketperm", "700")
	}
	r.args = append(r.args, o.Args...)
	t.Cleanup(func() {
		r.Kill()
		if t.Failed() {
			t.Logf("log of redis-server on %s:\n%s", r.Addr, r.log)
		}
	})
	r.Start()
	return r
}

// Require skips the test unless all programs are installed. Where the
// environment variable PAWL_REQUIRE, a list with commas, has name, it fails the
// test instead.
func Require(t testing.TB, name string, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		if slices.Contains(strings.Split(os.Getenv("PAWL_REQUIRE"), ","), name) {
			t.Fatalf("%s is required, but %s is not installed", name, p)
		}
		t.Skipf("needs %s: %s is not installed", name, p)
	}
}

// Start starts the server again after Kill.
func (r *Redis) Start() {
	r.t.Helper()
	cmd := exec.Command("redis-server", r.args...)
	cmd.Stdout, cmd.Stderr = r.log, r.log
	if err := cmd.Start(); err != nil {
		r.t.Fatalf("start redis-server: %v", err)
	}
	r.mu.Lock()
	r.cmd = cmd
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	for ctx.Err() == nil {
		if err = ping(ctx, r.Addr); err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.t.Fatalf("redis-server on %s does not answer: %v", r.Addr, err)
}

// ping reports whether the server at addr is ready. One that asks for a
// password is.
func ping(ctx context.Context, addr string) error {
	c, err := Dial(ctx, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Do(ctx, "PING")
	if err != nil && strings.HasPrefix(err.Error(), "NOAUTH") {
		return nil
	}
	return err
}

// Kill ends the server at once, as a crash would, and waits for its end.
func (r *Redis) Kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		return
	}
	r.cmd.Process.Kill()
	r.cmd.Wait() // the error is that it was killed
	r.cmd = nil
}

// Client returns a connection that ends with the test.
func (r *Redis) Client() *Client {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := Dial(ctx, r.Addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// Do runs one command on a connection of its own, and fails the test if that
// is an error.
func (r *Redis) Do(args ...any) any {
	r.t.Helper()
	v, err := r.Try(args...)
	if err != nil {
		r.t.Fatalf("%v: %v", args, err)
	}
	return v
}

// Try runs one command on a connection of its own.
func (r *Redis) Try(args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := Dial(ctx, r.Addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(ctx, args...)
}

// freeAddrs returns n loopback addresses that were free. All are held at the
// same time, so that no two are the same.
func freeAddrs(t testing.TB, n int) []string {
	t.Helper()
	var addrs []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs
}

// output is what a server has printed.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

var errProtocol = errors.New("testserver: the answer is not RESP2")

func protocolError(line string) error { return fmt.Errorf("%w: %q", errProtocol, line) }
