package goredis

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/redis"
)

// Pin implements redis.Node. It takes no connection yet.
func (n *node) Pin(ctx context.Context, key string) (redis.Conn, error) {
	switch rdb := n.rdb.(type) {
	case *goredis.Client:
		return &conn{node: n, rdb: rdb.Conn()}, nil
	case *goredis.ClusterClient:
		master, err := rdb.MasterForKey(ctx, key)
		if err != nil {
			return nil, err
		}
		return &conn{node: n, rdb: master.Conn()}, nil
	}
	return nil, fmt.Errorf("%w: a %T has no connection of its own for a key", driver.ErrUnsupported, n.rdb)
}

// A conn is one connection, taken from the pool with the first command.
type conn struct {
	node     *node
	rdb      *goredis.Conn
	deserted <-chan struct{} // closed when the command ends that nobody waits for; nil if there is none
}

var errDeserted = errors.New("the connection waits for an answer that nobody wants")

// EvalSHA implements redis.Conn.
func (c *conn) EvalSHA(ctx context.Context, sha string, keys []string, args ...any) (any, error) {
	return c.eval(ctx, evalCommand(ctx, "evalsha", sha, keys, args))
}

// Eval implements redis.Conn.
func (c *conn) Eval(ctx context.Context, script string, keys []string, args ...any) (any, error) {
	return c.eval(ctx, evalCommand(ctx, "eval", script, keys, args))
}

func (c *conn) eval(ctx context.Context, cmd *goredis.Cmd) (any, error) {
	if err := c.do(ctx, func() error { return c.rdb.Process(ctx, once{cmd}) }); err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}

// Wait implements redis.Conn.
func (c *conn) Wait(ctx context.Context, replicas int, d time.Duration) (int, error) {
	// go-redis may repeat it, but not over another connection: this one is all it
	// has.
	var have int64
	err := c.do(ctx, func() (err error) {
		have, err = c.rdb.Wait(ctx, replicas, d).Result()
		return err
	})
	if err != nil {
		return 0, err // have may still be written
	}
	return int(have), nil
}

// WaitAOF implements redis.Conn.
func (c *conn) WaitAOF(ctx context.Context, replicas int, d time.Duration) (server bool, have int, err error) {
	var v []int64
	err = c.do(ctx, func() (err error) {
		v, err = c.rdb.WaitAOF(ctx, 1, replicas, d).Result()
		return err
	})
	if err != nil {
		return false, 0, err
	}
	if len(v) != 2 {
		return false, 0, fmt.Errorf("WAITAOF: the server's answer has %d numbers, want 2", len(v))
	}
	return v[0] >= 1, int(v[1]), nil
}

// Close implements redis.Conn. The connection goes back to the pool as soon as
// it has no answer to wait for.
func (c *conn) Close() error {
	if c.deserted == nil {
		return c.rdb.Close()
	}
	go func() {
		<-c.deserted
		c.rdb.Close()
	}()
	return nil
}

// do runs a command and returns at the deadline of ctx.
func (c *conn) do(ctx context.Context, command func() error) error {
	if c.deserted != nil {
		return errDeserted
	}
	if c.node.bounded || ctx.Done() == nil {
		return c.node.sent(command())
	}
	done, answer := make(chan struct{}), make(chan error, 1)
	go func() {
		answer <- c.node.sent(command())
		close(done)
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		c.deserted = done
		return context.Cause(ctx)
	}
}
