// Package fenceredis guards what is in Redis: one script checks the token, remembers
// it, and runs the commands that write.
//
//	guard := fenceredis.New(goredis.NewNode(rdb))
//	...
//	err = fence.Do(ctx, guard, "invoice:42", func(ctx context.Context) error {
//		fenceredis.Queue(ctx, []string{"invoice:42"}, "HSET", "invoice:42", "paid", 1)
//		return nil
//	})
//
// The server may be that of the locks, or another.
package fenceredis

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/fence"
)

//go:embed write.lua
var script string

// sha is that of the script. Nothing changes it.
var sha = func() string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}()

// An Evaluator runs scripts on a Redis server: what goredis.NewNode returns, or
// whatever else does as the interface of the same name in package redis says.
type Evaluator interface {
	EvalSHA(ctx context.Context, sha string, keys []string, args ...any) (any, error)
	Eval(ctx context.Context, script string, keys []string, args ...any) (any, error)
}

// A Guard guards what is on one Redis server, or in one cluster. Its marks are
// there too, without an expiry, and are as durable as the data: replicated with
// it, lost with it. They must not be evicted: the server needs the policy
// noeviction, or one that evicts keys with an expiry alone.
type Guard struct{ on Evaluator }

// New returns a guard of what is on the server of e. It does no I/O. A nil e
// panics.
func New(e Evaluator) *Guard {
	if e == nil {
		panic("fenceredis: the evaluator is nil")
	}
	return &Guard{on: e}
}

// Do implements [fence.Guard]. It calls write, which says with [Queue] what is to be
// written; nothing has been sent until then. If write returns nil the check and the
// commands go to the server in one request, and no other request comes in between.
// If write fails, or panics, nothing is sent.
//
// As in a MULTI, a command that fails undoes none of those before it: the error is
// that of the command, and its token is remembered. An error of the connection
// leaves open whether the commands were run.
//
// In a cluster the mark has to be in the slot of the keys: name the resource like
// the key that is written, which must not have a } unless that ends a hash tag, or
// give them a hash tag in common.
func (g *Guard) Do(ctx context.Context, resource string, token pawl.Token, write func(ctx context.Context) error) error {
	inner, err := fence.Enter(ctx, g, resource, token)
	if err != nil {
		return err
	}
	q := new(queue)
	if err := write(context.WithValue(inner, queueKey{}, q)); err != nil {
		return err
	}
	keys, args, err := q.close(resource, token)
	if err != nil {
		return err
	}
	if ctx.Err() != nil { // the lease, maybe, during write
		return context.Cause(ctx)
	}
	answer, err := g.on.EvalSHA(ctx, sha, keys, args...)
	if err != nil && unknown(err) {
		answer, err = g.on.Eval(ctx, script, keys, args...)
	}
	if err != nil {
		return fmt.Errorf("fenceredis: write to %q: %w", resource, err)
	}
	return q.answered(answer, resource, token)
}

// unknown reports whether the server said that it does not know the script: after a
// restart, a failover, or SCRIPT FLUSH.
func unknown(err error) bool {
	var sent interface {
		error
		RedisError()
	}
	return errors.As(err, &sent) && strings.HasPrefix(sent.Error(), "NOSCRIPT")
}

// mark returns the name of the key that has the mark of resource. It is in the slot
// of the key that has the name of the resource, unless that has a } and no hash tag.
func mark(resource string) string {
	switch {
	case hasTag(resource):
		return "pawl.mark.tag:" + resource
	case strings.Contains(resource, "}"):
		return "pawl.mark.whole:" + resource
	}
	return "pawl.mark:{" + resource + "}"
}

// hasTag reports whether name has a hash tag, by the rules of Redis Cluster.
func hasTag(name string) bool {
	_, after, found := strings.Cut(name, "{")
	return found && strings.IndexByte(after, '}') > 0
}
