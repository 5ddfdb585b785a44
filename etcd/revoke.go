package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlock/pawl/driver"
)

// Revoke implements driver.Backend. The notice has a key and a lease of its own,
// so that it outlives the claim. A holder that another program wrote can only be
// ended by force, and is told by nobody.
func (b *backend) Revoke(ctx context.Context, key, id string, n driver.Notice) error {
	for {
		err := b.revokeOnce(ctx, key, id, n)
		if !errors.Is(err, errChanged) {
			return err
		}
	}
}

func (b *backend) revokeOnce(ctx context.Context, key, id string, n driver.Notice) error {
	l, err := b.read(ctx, key, id)
	if err != nil {
		return err
	}
	own := l.find(id)
	switch {
	case own == nil || !own.Held:
		return l.lost(id, driver.Expired)
	case own.foreign && !n.Force:
		return fmt.Errorf("%w: the holder is another program's, which can't be asked but only ended", driver.ErrUnsupported)
	case own.foreign:
		return b.remove(ctx, own)
	}
	old, err := b.client.Get(ctx, b.names.notices(key), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortDescend))
	if err != nil {
		return wrap(err)
	}
	lease, _, err := b.grant(ctx, clientv3.NoLease, seconds(max(driver.Linger, own.lasts())))
	if err != nil {
		return err
	}
	value, err := json.Marshal(notice{ID: id, Force: n.Force, By: n.By, Why: n.Why, At: time.Now().UnixMicro()})
	if err != nil {
		return err
	}
	mine := b.names.notice(key, id)
	left := clientv3.OpPut(mine, string(value), clientv3.WithLease(lease))
	if n.Force {
		err = b.remove(ctx, own, left)
	} else {
		err = b.leave(ctx, own, left)
	}
	if errors.Is(err, errChanged) {
		b.tidy(ctx, lease)
	}
	if err != nil {
		return err
	}
	kept := 1
	for _, kv := range old.Kvs {
		if kept++; string(kv.Key) == mine || kept > driver.MaxNotices {
			b.tidy(ctx, clientv3.LeaseID(kv.Lease)) // and the notice with it, unless it has just been replaced
		}
	}
	return nil
}

// leave writes something beside an entry as it was read.
func (b *backend) leave(ctx context.Context, own *entry, op clientv3.Op) error {
	resp, err := b.client.Txn(ctx).If(unmodified(own)).Then(op).Commit()
	if err != nil {
		return wrap(err)
	}
	if !resp.Succeeded {
		return errChanged
	}
	return nil
}
