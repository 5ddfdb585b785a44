package etcd

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlock/pawl/driver"
)

// Renew implements driver.Backend. It hangs the claim on a new lease rather than
// to begin the time of the old one anew. A leader that was frozen, and was
// succeeded meanwhile, ends when it wakes the leases that it knows and takes for
// expired, of which none may bear what is held. That also makes a renewal a
// transaction: it is not made if somebody has deleted the key.
func (b *backend) Renew(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	if err := driver.ValidateTTL("TTL", c.TTL, b.Traits()); err != nil {
		return driver.Grant{}, err
	}
	for {
		l, err := b.read(ctx, c.Key, c.ID)
		if err != nil {
			return driver.Grant{}, err
		}
		own := l.find(c.ID)
		if own == nil || !own.Held || own.Kept || own.token() != c.Grant.Token {
			reason := driver.Expired
			if old := (entry{lease: parseRef(c.Grant.Ref).lease}); own == nil && b.left(ctx, &old) > time.Second {
				reason = driver.Deleted // its lease lives
			}
			return driver.Grant{}, l.lost(c.ID, reason)
		}
		err = b.raise(ctx, l, own, c.Floor)
		if err == nil {
			rec := own.record
			var lease clientv3.LeaseID
			var ttl time.Duration
			if lease, ttl, err = b.move(ctx, own, rec, seconds(c.TTL)); err == nil {
				rec.TTL = seconds(c.TTL)
				return grantOf(rec, own.token(), lease, ttl, l.notice), nil
			}
		}
		if !errors.Is(err, errChanged) {
			return driver.Grant{}, err
		}
	}
}

// move hangs an entry on a new lease.
func (b *backend) move(ctx context.Context, own *entry, rec record, seconds int64) (clientv3.LeaseID, time.Duration, error) {
	lease, ttl, err := b.grant(ctx, clientv3.NoLease, seconds)
	if err != nil {
		return 0, 0, err
	}
	rec.TTL = seconds
	err = b.rewrite(ctx, own, rec, lease)
	b.replaced(ctx, own, lease, err)
	return lease, ttl, err
}

// raise makes the tokens of a lock begin above floor from now on. Nothing is
// written while the revision of the store is above it anyway.
func (b *backend) raise(ctx context.Context, l *line, own *entry, floor uint64) error {
	if floor == 0 || floor < max(l.floor, uint64(l.revision)+1) {
		return nil
	}
	_, err := b.write(ctx, []clientv3.Cmp{
		unmodified(own),
		clientv3.Compare(clientv3.ModRevision(b.names.floor(l.lock)), "=", l.floorMod),
	}, b.putFloor(l.lock, floor+1))
	return err
}
