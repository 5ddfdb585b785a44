package chaos_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

// childEnv has the server's address in the process that is paused.
const childEnv = "PAWL_TEST_CHAOS_CHILD"

func TestMain(m *testing.M) {
	if addr := os.Getenv(childEnv); addr != "" {
		work(addr)
		return
	}
	os.Exit(m.Run())
}

// work holds the lock again and again until its input ends, and tells of it in
// lines: "held", "hold ID TOKEN SENT ANSWERED ENDED", "write TOKEN CALL", in
// nanoseconds.
func work(addr string) {
	rdb := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: true})
	defer rdb.Close()
	b := adapter.New(rdb)
	defer b.Close()
	client, err := pawl.New(b, &pawl.Options{TTL: ttl})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var holds atomic.Int64
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for ctx.Err() == nil {
		section(ctx, client, r, func(_, id string, token uint64, sent, answered time.Time) func(time.Time) {
			fmt.Println("held")
			return func(end time.Time) {
				fmt.Println("hold", id, token, sent.UnixNano(), answered.UnixNano(), end.UnixNano())
			}
		}, func(token uint64) { fmt.Println("write", token, time.Now().UnixNano()) }, &holds)
	}
}

// A child is a client in a process of its own.
type child struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  io.Reader
	held chan struct{}
	done chan struct{}
}

func startChild(t *testing.T, addr string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0], "-test.run=^$"), held: make(chan struct{}), done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childEnv+"="+addr)
	c.cmd.Stderr = os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if c.out, err = c.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.in.Close()
		c.cmd.Process.Kill()
		c.cmd.Wait()
	})
	return c
}

// serve records what the child tells, and is its resource: a write that the child
// sent before it was stopped may arrive after those of its successors.
func (c *child) serve(rec *recorder) {
	defer close(c.done)
	for lines := bufio.NewScanner(c.out); lines.Scan(); {
		var id string
		var token uint64
		var sent, answered, ended int64
		switch line := lines.Text(); {
		case line == "held":
			select {
			case c.held <- struct{}{}:
			default:
			}
		case scan(line, "hold %s %d %d %d %d", &id, &token, &sent, &answered, &ended):
			rec.granted("k", id, token, time.Unix(0, sent), time.Unix(0, answered))(time.Unix(0, ended))
		case scan(line, "write %d %d", &token, &sent):
			rec.write("k", token, time.Unix(0, sent))
		}
	}
}

func scan(line, format string, to ...any) bool {
	n, _ := fmt.Sscanf(line, format, to...)
	return n == len(to)
}

// awaitHold waits until the child has just been granted the lock.
func (c *child) awaitHold(t *testing.T) {
	t.Helper()
	select {
	case <-c.held:
	case <-time.After(patience):
		t.Fatal("the child got no lock")
	}
}

// stop lets the child end its last section.
func (c *child) stop() {
	c.in.Close()
	<-c.done
}
