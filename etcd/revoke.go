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
	mine := notice{ID: id, Force: n.Force, By: n.By, Why: n.Why, At: time.Now().UnixMicro()}
	for {
		err := b.revokeOnce(ctx, key, mine)
		if !errors.Is(err, errChanged) {
			return err
		}
	}
}

func (b *backend) revokeOnce(ctx context.Context, key string, n notice) error {
	l, err := b.read(ctx, key, n.ID)
	if err != nil {
		return err
	}
	own := l.find(n.ID)
	switch {
	case own == nil && n.Force && l.notice != nil && *l.notice == *n.told():
		return nil // it was our request that got no answer
	case own == nil || !own.Held:
		return l.lost(n.ID, driver.Expired)
	case own.foreign && !n.Force:
		return fmt.Errorf("%w: the holder is another program's, which can't be asked but only ended", driver.ErrUnsupported)
	case own.foreign:
		return b.remove(ctx, own)
	}
	old, err := ask(ctx, b, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return b.client.Get(ctx, b.names.notices(key), clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortDescend))
	})
	if err != nil {
		return err
	}
	lease, _, err := b.grant(ctx, clientv3.NoLease, seconds(max(driver.Linger, own.lasts())))
	if err != nil {
		return err
	}
	value, err := json.Marshal(n)
	if err != nil {
		return err
	}
	mine := b.names.notice(key, n.ID)
	left := clientv3.OpPut(mine, string(value), clientv3.WithLease(lease))
	if n.Force {
		err = b.remove(ctx, own, left)
	} else {
		_, err = b.write(ctx, []clientv3.Cmp{unmodified(own)}, left)
	}
	if errors.Is(err, errChanged) && !errors.Is(err, errSilent) {
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
