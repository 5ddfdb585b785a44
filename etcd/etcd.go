// Package etcd keeps locks in etcd. What etcd has acknowledged survives the loss
// of a minority of its members, and a token is a revision, so that it rises with
// every grant whatever the clocks do.
//
// It speaks to the servers in transactions of its own. The layout of the keys is
// that of etcd's concurrency package, and so a lock of that package or of
// "etcdctl lock" and an exclusive lock of pawl with the same name exclude each
// other. docs/protocol.md has the details.
//
// The servers ought to be 3.4.38, 3.5.23, 3.6.5 or newer: those before can
// confirm a lease that has been revoked, or revoke one that has been renewed,
// when their leader changes.
package etcd

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlock/pawl/driver"
)

// Options say where the locks are. A nil *Options is that of the zero value.
type Options struct {
	// Prefix begins every key that is used, as it stands: "locks/", say. All
	// clients of a lock have to agree on it. Default "", which shares the names
	// with "etcdctl lock".
	Prefix string
}

type backend struct {
	client *clientv3.Client
	leases pb.LeaseClient // as the client has it, with an ID of our choice
	names  names
	over   *ended
}

// New returns a backend on the servers of client, whose Close it leaves to the
// caller. The client should list all members, since each request goes to another
// one, and ask its connections for a sign of life (DialKeepAliveTime of its
// Config), or it takes long to leave a member that is silent. It may be
// authenticated: its user needs to read and write the keys that begin with the
// prefix.
func New(client *clientv3.Client, o *Options) driver.Backend {
	if o == nil {
		o = new(Options)
	}
	return &backend{
		client: client,
		leases: clientv3.RetryLeaseClient(client),
		names:  names{o.Prefix},
		over:   newEnded(),
	}
}

// Traits implements driver.Backend.
func (*backend) Traits() driver.Traits { return Traits() }

// Traits returns what the backend promises, of which nothing depends on the
// servers.
func Traits() driver.Traits {
	return driver.Traits{
		Name:     "etcd",
		Fencing:  true,
		Durable:  true,
		Fair:     true,
		Counting: true,
		MinTTL:   2 * time.Second, // what servers with the default election timeout raise a lease to
		MaxTTL:   365 * 24 * time.Hour,
	}
}

// Close implements driver.Backend. There is nothing to free.
func (*backend) Close() error { return nil }

// late reports a request whose sender has given up.
func late(ctx context.Context) error {
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		return fmt.Errorf("%w: its deadline had passed before it was sent", driver.ErrRefused)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", driver.ErrRefused, context.Cause(ctx))
	}
	return nil
}
