package interop_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/internal/testserver"
)

// A peer is a lock of somebody else. Each has a client of its own, and holds one
// lock at most.
type peer interface {
	// acquire makes one attempt, and reports whether it has the lock.
	acquire(t *testing.T, key string, ttl time.Duration) bool

	// release reports whether the lock that was acquired last was still held.
	release(t *testing.T) bool
}

// newPeers are all peers by name. A program that is not there skips its test.
func newPeers() map[string]func(*testing.T, *testserver.Redis) peer {
	return map[string]func(*testing.T, *testserver.Redis) peer{
		"Textbook":        func(t *testing.T, s *testserver.Redis) peer { return &textbook{c: s.Client()} },
		"RedisPy":         startPython,
		"NodeRedlock":     func(t *testing.T, s *testserver.Redis) peer { return startNode(t, s, "redlock") },
		"NodeIORedisLock": func(t *testing.T, s *testserver.Redis) peer { return startNode(t, s, "ioredis-lock") },
		"Redsync": func(t *testing.T, s *testserver.Redis) peer {
			return &redsyncPeer{locks: redsync.New(redsyncpool.NewPool(dial(t, s)))}
		},
		"Redislock": func(t *testing.T, s *testserver.Redis) peer { return &redislockPeer{client: redislock.New(dial(t, s))} },
	}
}

func dial(t *testing.T, s *testserver.Redis) *goredis.Client {
	rdb := goredis.NewClient(&goredis.Options{Addr: s.Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// textbook is what stands in the documentation of Redis, word for word.
type textbook struct {
	c          *testserver.Client
	key, token string
}

const compareAndDelete = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

func (p *textbook) acquire(t *testing.T, key string, ttl time.Duration) bool {
	token := rand.Text()
	v, err := p.c.Do(t.Context(), "SET", key, token, "NX", "EX", max(1, int(ttl/time.Second)))
	if err != nil {
		t.Fatal(err)
	}
	if v == "OK" {
		p.key, p.token = key, token
	}
	return v == "OK"
}

func (p *textbook) release(t *testing.T) bool {
	v, err := p.c.Do(t.Context(), "EVAL", compareAndDelete, 1, p.key, p.token)
	if err != nil {
		t.Fatal(err)
	}
	return v == int64(1)
}

type redsyncPeer struct {
	locks *redsync.Redsync
	held  *redsync.Mutex
}

func (p *redsyncPeer) acquire(t *testing.T, key string, ttl time.Duration) bool {
	m := p.locks.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(1))
	err := m.LockContext(t.Context())
	if err == nil {
		p.held = m
	}
	return err == nil
}

func (p *redsyncPeer) release(t *testing.T) bool {
	ok, err := p.held.UnlockContext(t.Context())
	return ok && err == nil
}

type redislockPeer struct {
	client *redislock.Client
	held   *redislock.Lock
}

func (p *redislockPeer) acquire(t *testing.T, key string, ttl time.Duration) bool {
	l, err := p.client.Obtain(t.Context(), key, ttl, nil)
	if err == nil {
		p.held = l
	}
	return err == nil
}

func (p *redislockPeer) release(t *testing.T) bool {
	return p.held.Release(context.WithoutCancel(t.Context())) == nil
}

// A process is a peer in another language, which does what it is told.
type process struct {
	in  io.Writer
	out *bufio.Reader
}

func start(t *testing.T, cmd *exec.Cmd) *process {
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &process{in, bufio.NewReader(out)}
}

func (p *process) do(t *testing.T, command string) bool {
	if _, err := fmt.Fprintln(p.in, command); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	line, err := p.out.ReadString('\n')
	if err != nil || line != "true\n" && line != "false\n" {
		t.Fatalf("%s: got %q, %v, want true or false", command, line, err)
	}
	return line == "true\n"
}

func (p *process) acquire(t *testing.T, key string, ttl time.Duration) bool {
	return p.do(t, fmt.Sprintf("acquire %s %d", key, ttl.Milliseconds()))
}

func (p *process) release(t *testing.T) bool { return p.do(t, "release") }

// python returns an interpreter that has redis-py: Debian's has it from the
// package python3-redis, and need not be the first in the path.
func python(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(p, "-Ic", "import redis").Run() == nil {
			return p
		}
	}
	testserver.Miss(t, "python3-redis", "no python3 has the module redis")
	return ""
}

func startPython(t *testing.T, s *testserver.Redis) peer {
	host, port := hostPort(t, s)
	return start(t, exec.Command(python(t), "testdata/peer.py", host, port))
}

// startNode starts a peer from npm, which is got for the test: where that fails
// the test skips.
func startNode(t *testing.T, s *testserver.Redis, kind string) peer {
	if testing.Short() {
		t.Skip("asks npm for packages")
	}
	testserver.Require(t, "npm", "npm", "node")
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "npm", "install", "--prefix", dir, "--no-audit", "--no-fund", "--ignore-scripts", "--legacy-peer-deps",
		"--prefer-offline", "--fetch-retries=0", "redlock@4.2.0", "ioredis@5", "ioredis-lock@4.0.0")
	install.WaitDelay = time.Second
	if out, err := install.CombinedOutput(); err != nil {
		testserver.Miss(t, "npm", fmt.Sprintf("npm can't get the packages: %v\n%s", err, out))
	}
	host, port := hostPort(t, s)
	cmd := exec.Command("node", "testdata/peer.js", kind, host, port)
	cmd.Env = append(cmd.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"))
	return start(t, cmd)
}
