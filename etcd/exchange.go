package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/pawlock/pawl/driver"
)

// errChanged: what a request was based on is not so any more. The line has to be
// read again, also after errSilent, where it may have been changed by ourselves.
var (
	errChanged = errors.New("etcd: the line has changed")
	errSilent  = fmt.Errorf("%w, or a server did not answer", errChanged)
)

// ask makes one exchange, and makes it again while there is time and no answer has
// come: the client takes another member for each, and one that is silent must not
// cost more than its share of the time. What is asked must bear being done twice.
func ask[T any](ctx context.Context, b *backend, f func(context.Context) (T, error)) (T, error) {
	for n := 0; ; n++ {
		bounded, cancel := context.WithTimeout(ctx, share(ctx, n))
		v, err := f(bounded)
		silent := err != nil && bounded.Err() != nil
		cancel()
		if !silent {
			return v, wrap(err)
		}
		if why := unreachable(ctx, b); why != nil {
			return v, why
		}
		if ctx.Err() != nil {
			return v, err
		}
	}
}

// unreachable returns why there is no connection to any member, nil if there is
// one, or may be one soon. The client itself waits for a connection until the
// context ends, and then says only that it has ended.
func unreachable(ctx context.Context, b *backend) error {
	conn := b.client.ActiveConnection()
	if conn.GetState() != connectivity.TransientFailure {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 50*time.Millisecond)
	defer cancel()
	// Without the client's options this fails at once, with the reason.
	_, err := pb.NewMaintenanceClient(conn).Status(ctx, new(pb.StatusRequest))
	if errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded {
		return nil
	}
	return err
}

// share returns how long to wait for the answer after n were waited for in vain: a
// fifth of what is left of ctx at first, then more and more of it.
func share(ctx context.Context, n int) time.Duration {
	wait := time.Second << min(n, 6)
	if d, ok := ctx.Deadline(); ok {
		wait = min(wait, max(time.Until(d)/time.Duration(max(2, 5-n)), 20*time.Millisecond))
	}
	return wait
}

// write makes one transaction. If its conditions don't hold that is errChanged. If
// no answer comes in its share of the time it is sent again, to the member that is
// next: one that was made after all has changed what it was conditional on, and so is
// not made twice. Whether it was is then open, and that is errSilent.
func (b *backend) write(ctx context.Context, still []clientv3.Cmp, then ...clientv3.Op) (*clientv3.TxnResponse, error) {
	changed := errChanged
	for n := 1; ; n++ {
		bounded, cancel := context.WithTimeout(ctx, share(ctx, n))
		resp, err := b.client.Txn(bounded).If(still...).Then(then...).Commit()
		silent := err != nil && bounded.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case silent:
			changed = errSilent
		case err != nil && changed == errSilent && ctx.Err() == nil, errors.Is(err, rpctypes.ErrLeaseNotFound):
			return nil, changed
		case err != nil:
			return nil, wrap(err)
		case !resp.Succeeded:
			return nil, changed
		default:
			return resp, nil
		}
	}
}

// query makes a transaction that only reads, at one revision.
func (b *backend) query(ctx context.Context, gets ...clientv3.Op) (*clientv3.TxnResponse, error) {
	return ask(ctx, b, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return b.client.Txn(ctx).Then(gets...).Commit()
	})
}

// wrap says of an error that etcd has done nothing if that is certain.
func wrap(err error) error {
	for _, definite := range []error{
		rpctypes.ErrNoSpace, rpctypes.ErrTooManyRequests, rpctypes.ErrRequestTooLarge, rpctypes.ErrNotCapable,
		rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision,
		rpctypes.ErrAuthFailed, rpctypes.ErrLeaseNotFound, rpctypes.ErrLeaseTTLTooLarge, rpctypes.ErrCorrupt,
	} {
		if errors.Is(err, definite) {
			return fmt.Errorf("%w: %w", driver.ErrRefused, err)
		}
	}
	return err
}
