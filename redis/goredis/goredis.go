// Package goredis lets pawl keep its locks through a client of go-redis, v9:
//
//	client, err := pawl.New(goredis.New(rdb), nil)
//
// The client stays the user's: its pool, its hooks and its options are used as
// they are, and it is never closed.
package goredis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/redis"
)

// New returns a backend on the server of rdb, with the default options. It does
// no I/O: a server that can't be reached, or is too old, is an error of the
// first call. A nil rdb panics.
func New(rdb goredis.UniversalClient) driver.Backend {
	b, err := redis.New(NewNode(rdb), nil)
	if err != nil {
		panic(err) // the defaults are valid
	}
	return b
}

// NewNode returns the server of rdb for [redis.New], which takes options:
//
//	backend, err := redis.New(goredis.NewNode(rdb), &redis.Options{Prefix: "app:"})
//
// A nil rdb panics.
func NewNode(rdb goredis.UniversalClient) redis.Node {
	if rdb == nil {
		panic("goredis: the client is nil")
	}
	n := &node{rdb: rdb}
	switch rdb := rdb.(type) {
	case *goredis.Client:
		n.bounded = rdb.Options().ContextTimeoutEnabled
	case *goredis.ClusterClient:
		n.bounded = rdb.Options().ContextTimeoutEnabled
		n.cluster = rdb
	case *goredis.Ring:
		n.bounded = rdb.Options().ContextTimeoutEnabled
	}
	return n
}

type node struct {
	rdb     goredis.UniversalClient
	cluster *goredis.ClusterClient // rdb if it is one
	bounded bool                   // rdb returns at the deadline of a context
}

// once is a command that go-redis sends once. It would repeat one whose answer
// was lost, and behind the back of a caller who has to know.
type once struct{ *goredis.Cmd }

// NoRetry implements goredis.Cmder.
func (once) NoRetry() bool { return true }

// EvalSHA implements redis.Node.
func (n *node) EvalSHA(ctx context.Context, sha string, keys []string, args ...any) (any, error) {
	return n.eval(ctx, "evalsha", sha, keys, args)
}

// Eval implements redis.Node.
func (n *node) Eval(ctx context.Context, script string, keys []string, args ...any) (any, error) {
	return n.eval(ctx, "eval", script, keys, args)
}

func (n *node) eval(ctx context.Context, verb, script string, keys []string, args []any) (any, error) {
	cmd := evalCommand(ctx, verb, script, keys, args)
	if n.bounded || ctx.Done() == nil {
		return n.process(ctx, cmd)
	}
	// Without ContextTimeoutEnabled go-redis waits for its own time-out. The
	// caller does not: the command ends by itself, and its answer is dropped.
	type answer struct {
		v   any
		err error
	}
	done := make(chan answer, 1)
	go func() {
		v, err := n.process(ctx, cmd)
		done <- answer{v, err}
	}()
	select {
	case a := <-done:
		return a.v, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func evalCommand(ctx context.Context, verb, script string, keys []string, args []any) *goredis.Cmd {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, verb, script, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	return goredis.NewCmd(ctx, append(all, args...)...)
}

func (n *node) process(ctx context.Context, cmd *goredis.Cmd) (any, error) {
	if err := n.sent(n.rdb.Process(ctx, once{cmd})); err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}

// sent says more of the error of a command.
func (n *node) sent(err error) error {
	n.doubt(err)
	var untrusted *tls.CertificateVerificationError
	if errors.Is(err, goredis.ErrPoolTimeout) || errors.Is(err, goredis.ErrPoolExhausted) || errors.Is(err, goredis.ErrClosed) || errors.As(err, &untrusted) {
		return fmt.Errorf("%w: %w", driver.ErrRefused, err) // nothing was sent
	}
	return err
}

// Scan implements redis.Node.
func (n *node) Scan(ctx context.Context, pattern string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		servers, err := n.servers(ctx)
		if err != nil {
			yield("", err)
			return
		}
		for _, server := range servers {
			for cursor, first := uint64(0), true; first || cursor != 0; first = false {
				names, next, err := server.ScanType(ctx, cursor, pattern, 256, "string").Result()
				if err != nil {
					yield("", err)
					return
				}
				for _, name := range names {
					if !yield(name, nil) {
						return
					}
				}
				cursor = next
			}
		}
	}
}

// servers returns a client for each server that has keys of its own.
func (n *node) servers(ctx context.Context) ([]goredis.Cmdable, error) {
	var (
		mu      sync.Mutex
		servers []goredis.Cmdable
	)
	add := func(_ context.Context, c *goredis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		servers = append(servers, c)
		return nil
	}
	switch rdb := n.rdb.(type) {
	case *goredis.ClusterClient:
		return servers, rdb.ForEachMaster(ctx, add)
	case *goredis.Ring:
		return servers, rdb.ForEachShard(ctx, add)
	}
	return []goredis.Cmdable{n.rdb}, nil
}
