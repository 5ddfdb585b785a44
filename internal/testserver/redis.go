// Package testserver starts real servers for tests. A server listens on the
// loopback interface, keeps its files in the test's directory, and is gone when
// the test has ended.
package testserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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
	tls  *tls.Config // nil: without

	mu  sync.Mutex
	cmd *exec.Cmd // guarded by mu
	log *output
}

// RedisOptions say how a server is started. The zero value is a server without
// persistence.
type RedisOptions struct {
	Args   []string      // added to the command line, one word each
	Socket bool          // listen on a Unix socket too
	TLS    *Certificates // on Addr, in place of plain connections; clients need a certificate

	// AnyClient lets clients without a certificate in, where TLS is on.
	AnyClient bool
}

// patience is how long a server may take to start or to stop.
const patience = 20 * time.Second

// Program returns the server that is tested: redis-server, or what the environment
// variable PAWL_REDIS_SERVER names, valkey-server say.
func Program() string {
	if p := os.Getenv("PAWL_REDIS_SERVER"); p != "" {
		return p
	}
	return "redis-server"
}

// StartRedis starts a server and waits until it answers. It skips the test if
// the server is not installed, and fails it if PAWL_REQUIRE names redis. The
// server's log is shown if the test fails.
func StartRedis(t testing.TB, o RedisOptions) *Redis {
	t.Helper()
	Require(t, "redis", Program())
	r := newRedis(t, freeAddrs(t, 1)[0], o)
	r.Start()
	return r
}

// newRedis readies a server for its Start. It ends with the test.
func newRedis(t testing.TB, addr string, o RedisOptions) *Redis {
	t.Helper()
	dir := tempDir(t)
	r := &Redis{Addr: addr, t: t, log: new(output)}
	_, port, _ := net.SplitHostPort(r.Addr)
	r.args = []string{"--bind", "127.0.0.1", "--dir", dir, "--daemonize", "no",
		"--save", "", "--appendonly", "no", "--enable-debug-command", "local"}
	if o.TLS == nil {
		r.args = append(r.args, "--port", port)
	} else {
		r.tls = o.TLS.Client()
		r.args = append(append(r.args, "--port", "0", "--tls-port", port), o.TLS.args()...)
		if o.AnyClient {
			r.args = append(r.args, "--tls-auth-clients", "no")
		}
	}
	if o.Socket {
		r.Socket = filepath.Join(dir, "redis.sock")
		r.args = append(r.args, "--unixsocket", r.Socket, "--unixsocketperm", "700")
	}
	r.args = append(r.args, o.Args...)
	r.cleanUp()
	return r
}

// tempDir is not TempDir: the path of a socket is at most 107 bytes long.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pawl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (r *Redis) cleanUp() {
	r.t.Cleanup(func() {
		r.Kill()
		if r.t.Failed() {
			r.t.Logf("log of the server on %s:\n%s", r.Addr, r.log)
		}
	})
}

// Require skips the test unless all programs are installed. Where the
// environment variable PAWL_REQUIRE, a list with commas, has name, it fails the
// test instead.
func Require(t testing.TB, name string, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			Miss(t, name, p+" is not installed")
		}
	}
}

// Miss skips the test for lack of what name names, or fails it where PAWL_REQUIRE
// has name.
func Miss(t testing.TB, name, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("PAWL_REQUIRE"), ","), name) {
		t.Fatalf("%s is required, but %s", name, why)
	}
	t.Skipf("needs %s: %s", name, why)
}

// Start starts the server again after Kill.
func (r *Redis) Start() {
	r.t.Helper()
	r.launch()
	r.await()
}

// launch starts the process.
func (r *Redis) launch() {
	r.t.Helper()
	cmd := exec.Command(Program(), r.args...)
	cmd.Stdout, cmd.Stderr = r.log, r.log
	if err := cmd.Start(); err != nil {
		r.t.Fatalf("start %s: %v", Program(), err)
	}
	r.mu.Lock()
	r.cmd = cmd
	r.mu.Unlock()
}

// await waits until the server answers. One that asks for a password does.
func (r *Redis) await() {
	r.t.Helper()
	poll(r.t, "the server on "+r.Addr+" answers", func() error {
		_, err := r.Try("PING")
		if err != nil && strings.HasPrefix(err.Error(), "NOAUTH") {
			return nil
		}
		return err
	})
}

// poll calls done until it returns nil.
func poll(t testing.TB, what string, done func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if err = done(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not after %v: %v", what, patience, err)
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
	c, err := r.dial(ctx)
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
	c, err := r.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(ctx, args...)
}

func (r *Redis) dial(ctx context.Context) (*Client, error) {
	if r.tls != nil {
		return DialTLS(ctx, r.Addr, r.tls)
	}
	return Dial(ctx, r.Addr)
}

// freeAddrs returns n loopback addresses that were free. All are held at the
// same time, so that no two are the same. Their ports are below those that the
// system gives to outgoing connections, which could take them before the server
// does.
func freeAddrs(t testing.TB, n int) []string {
	t.Helper()
	var addrs []string
	for tries := 0; len(addrs) < n; tries++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(10000+rand.IntN(22000))))
		if err != nil {
			if tries > 1000 {
				t.Fatal(err)
			}
			continue
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
