package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// grant makes sure that there is the lease id, its time begun anew, and returns
// how long it lasts: whole seconds, and no less than the server's minimum. A lease
// that an attempt with a lost answer has made is found again. With NoLease the
// server draws the ID, and one whose answer is lost ends by itself.
func (b *backend) grant(ctx context.Context, id clientv3.LeaseID, seconds int64) (clientv3.LeaseID, time.Duration, error) {
	resp, err := ask(ctx, b, func(ctx context.Context) (*pb.LeaseGrantResponse, error) {
		resp, err := b.leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: int64(id), TTL: seconds})
		return resp, rpctypes.Error(err)
	})
	if errors.Is(err, rpctypes.ErrLeaseExist) {
		ttl, err := b.keepAlive(ctx, id)
		return id, ttl, err
	}
	if err != nil {
		return 0, 0, err
	}
	return clientv3.LeaseID(resp.ID), time.Duration(resp.TTL) * time.Second, nil
}

// keepAlive begins the time of a lease anew. The client's KeepAliveOnce won't do:
// it asks on and on without a pause while no server answers.
func (b *backend) keepAlive(ctx context.Context, id clientv3.LeaseID) (time.Duration, error) {
	return ask(ctx, b, func(ctx context.Context) (time.Duration, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // ends the stream
		stream, err := b.leases.LeaseKeepAlive(clientv3.WithRequireLeader(ctx))
		if err != nil {
			return 0, rpctypes.Error(err)
		}
		if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
			return 0, rpctypes.Error(err)
		}
		resp, err := stream.Recv()
		switch {
		case err != nil:
			return 0, rpctypes.Error(err)
		case resp.TTL <= 0:
			return 0, rpctypes.ErrLeaseNotFound
		}
		return time.Duration(resp.TTL) * time.Second, nil
	})
}

// revoke ends a lease and what hangs on it. It says nothing of a lease that has
// ended.
func (b *backend) revoke(ctx context.Context, id clientv3.LeaseID) error {
	_, err := ask(ctx, b, func(ctx context.Context) (*clientv3.LeaseRevokeResponse, error) { return b.client.Revoke(ctx, id) })
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return err
}

// tidyTime bounds what is cleaned up after the caller's context may have ended.
const tidyTime = 2 * time.Second

// tidy ends a lease that nobody needs. If it can't the lease ends by itself, with
// nothing on it that is in anyone's way.
func (b *backend) tidy(ctx context.Context, id clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
	defer cancel()
	_ = b.revoke(ctx, id)
}

// A ref is what a grant remembers: the lease of the claim, and the TTL that it
// was made for.
type ref struct {
	lease   clientv3.LeaseID
	seconds int64
}

func (r ref) String() string { return fmt.Sprintf("%x/%d", int64(r.lease), r.seconds) }

// parseRef returns the zero value for what it can't read.
func parseRef(s string) ref {
	lease, seconds, _ := strings.Cut(s, "/")
	id, err := strconv.ParseInt(lease, 16, 64)
	if err != nil {
		return ref{}
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return ref{}
	}
	return ref{clientv3.LeaseID(id), n}
}

// ended remembers the claims that were released here last. An attempt that is
// under way while its claim is released must not bring it back, and a release
// whose answer was lost is no loss when it is repeated.
type ended struct {
	mu   sync.Mutex
	set  map[clientv3.LeaseID]struct{} // guarded by mu
	ring []clientv3.LeaseID            // guarded by mu
	next int                           // guarded by mu
}

const endedSize = 4096

func newEnded() *ended { return &ended{set: make(map[clientv3.LeaseID]struct{})} }

// add remembers id, and reports whether it was known.
func (e *ended) add(id clientv3.LeaseID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.set[id]; ok {
		return true
	}
	if len(e.ring) < endedSize {
		e.ring = append(e.ring, id)
	} else {
		delete(e.set, e.ring[e.next])
		e.ring[e.next] = id
		e.next = (e.next + 1) % endedSize
	}
	e.set[id] = struct{}{}
	return false
}

func (e *ended) has(id clientv3.LeaseID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.set[id]
	return ok
}
