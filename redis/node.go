package redis

import (
	"context"
	"errors"
	"iter"
	"time"
)

// A Node is a Redis server, or whatever looks like one: what the backend needs
// of a client library. All methods may be called concurrently.
//
// Errors that the server sent have a method RedisError(), as those of go-redis
// do. Errors that prove that nothing was sent wrap [driver.ErrRefused], or are
// those of a failed dial as package net makes them; all others mean that the
// outcome is unknown. No call is repeated by the library itself.
type Node interface {
	Evaluator

	// Pin returns one connection to the server that has key, for requests that
	// have to come over the same one. It is ErrUnsupported for a library that
	// has no such thing.
	Pin(ctx context.Context, key string) (Conn, error)

	// Sharded reports whether it is a cluster, which keeps a channel with the
	// keys of the same hash tag. It always reports the same.
	Sharded() bool

	// Home names the server of a cluster that has name, a key or a channel, as
	// far as the library knows: it asks the cluster only if it knows nothing.
	// It is "" without a cluster.
	Home(ctx context.Context, name string) (string, error)

	// Subscribe opens a connection that listens to channel, in a cluster at
	// home. It is an error if the channel has moved from there.
	Subscribe(ctx context.Context, home, channel string) (Subscription, error)

	// Scan yields the names of all strings that match pattern, with the
	// SCAN command. Names may come twice.
	Scan(ctx context.Context, pattern string) iter.Seq2[string, error]
}

// An Evaluator runs scripts: a [Node], or one connection of it.
type Evaluator interface {
	// EvalSHA runs the script with the SHA-1 sum sha. Args are strings,
	// ints, int64s and uint64s. The answer is made of int64, string and
	// []any. It returns at the deadline of ctx.
	EvalSHA(ctx context.Context, sha string, keys []string, args ...any) (any, error)

	// Eval runs a script that the server does not know yet.
	Eval(ctx context.Context, script string, keys []string, args ...any) (any, error)
}

// A Conn is one connection of a [Node]. It is for one goroutine. After an error
// that the server did not send it is of no more use.
type Conn interface {
	Evaluator

	// Wait waits, with the WAIT command, for up to d until so many replicas have
	// acknowledged what this connection has written, and returns how many have.
	Wait(ctx context.Context, replicas int, d time.Duration) (int, error)

	// WaitAOF waits, with WAITAOF, until it is in the append-only file of the
	// server and of so many replicas, and returns where it is.
	WaitAOF(ctx context.Context, replicas int, d time.Duration) (server bool, have int, err error)

	// Close gives the connection back.
	Close() error
}

// A Subscription is one connection that listens.
type Subscription interface {
	// Subscribe asks for one more channel. Receive brings the confirmation.
	Subscribe(ctx context.Context, channel string) error

	// Unsubscribe asks for one channel less. Receive brings the confirmation.
	Unsubscribe(ctx context.Context, channel string) error

	// Receive returns what the server sends next. It notices within seconds
	// that the server is gone: an error ends the subscription, which never
	// reconnects by itself. Close interrupts it.
	Receive(ctx context.Context) (Message, error)

	Close() error
}

// A Message is what a [Subscription] receives: a payload, the confirmation that
// it listens to Channel from now on, or the word that it does no more, because
// it asked for that or because a cluster has moved the channel.
type Message struct {
	Channel, Payload string
	Confirmed, Ended bool
}

// run runs s on the node.
func (b *backend) run(ctx context.Context, s *script, k keys, args ...any) (*reply, error) {
	return runOn(ctx, b.node, s, k, args...)
}

// runOn runs s, sending its source if the server has forgotten it: after a
// restart, a failover, or SCRIPT FLUSH.
func runOn(ctx context.Context, on Evaluator, s *script, k keys, args ...any) (*reply, error) {
	keys := k.slice()
	answer, err := on.EvalSHA(ctx, s.sha, keys, args...)
	if err != nil && code(err) == "NOSCRIPT" {
		answer, err = on.Eval(ctx, s.source, keys, args...)
	}
	if err != nil {
		return nil, explain(err, s, k)
	}
	values, ok := answer.([]any)
	if !ok {
		return nil, errors.New(s.name + ": the server's answer is not an array")
	}
	return &reply{script: s, values: values}, nil
}
