package etcd

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlock/pawl/driver"
)

// Release implements driver.Backend. It deletes the key of the claim, which no
// other claim ever has, and then ends the lease. Where only a lease is there that
// is ended all the same: a request of the claim that is still on its way then
// fails, since what it would put hangs on that lease.
func (b *backend) Release(ctx context.Context, c driver.Claim) error {
	again := b.over.add(leaseID(c.Key, c.ID))
	for {
		l, err := b.read(ctx, c.Key, c.ID)
		if err != nil {
			return err
		}
		own := l.find(c.ID)
		switch {
		case own == nil:
			if err := b.revoke(ctx, leaseID(c.Key, c.ID)); err != nil {
				return err
			}
			if c.Grant.Token == 0 || again && (l.notice == nil || !l.notice.Force) {
				return nil // never granted, or released before and that answer was lost
			}
			return l.lost(c.ID, driver.Expired)
		case own.Kept:
			return nil
		case own.Held && c.Keep > 0:
			rec := own.record
			rec.Kept = true
			_, _, err = b.move(ctx, own, rec, seconds(c.Keep))
		default:
			err = b.remove(ctx, own)
		}
		if !errors.Is(err, errChanged) {
			return err
		}
		again = again || errors.Is(err, errSilent)
	}
}

// remove deletes an entry as it was read, with other changes at the same time,
// and ends its lease.
func (b *backend) remove(ctx context.Context, own *entry, more ...clientv3.Op) error {
	_, err := b.write(ctx, []clientv3.Cmp{unmodified(own)}, append(more, clientv3.OpDelete(own.key))...)
	if err != nil {
		return err
	}
	if !own.foreign { // theirs may bear more than this key
		b.tidy(ctx, own.lease)
	}
	return nil
}
