package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlock/pawl/driver"
)

// Renew implements driver.Backend. It begins the time of the lease anew, and then
// reads whether the claim is still there: an answer about the lease alone does
// not tell that somebody has deleted the key.
func (b *backend) Renew(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	if err := driver.ValidateTTL("TTL", c.TTL, b.Traits()); err != nil {
		return driver.Grant{}, err
	}
	r, want := parseRef(c.Grant.Ref), seconds(c.TTL)
	for {
		var ttl time.Duration
		reason := driver.Deleted
		if r.lease != clientv3.NoLease && r.seconds == want {
			var err error
			if ttl, err = b.keepAlive(ctx, r.lease); errors.Is(err, rpctypes.ErrLeaseNotFound) {
				reason = driver.Expired
			} else if err != nil {
				return driver.Grant{}, err
			}
		}
		l, err := b.read(ctx, c.Key, c.ID)
		if err != nil {
			return driver.Grant{}, err
		}
		own := l.find(c.ID)
		switch {
		case own == nil || !own.Held || own.Kept || own.token() != c.Grant.Token:
			return driver.Grant{}, l.lost(c.ID, reason)
		case own.TTL != want:
			if r, err = b.move(ctx, own, own.record, want); err != nil && !errors.Is(err, errChanged) {
				return driver.Grant{}, err
			}
			continue
		case own.lease != r.lease:
			r = ref{own.lease, want} // one that we did not know of
			continue
		case ttl == 0:
			return driver.Grant{}, errStale
		}
		if err := b.raise(ctx, l, own, c.Floor); errors.Is(err, errChanged) {
			continue
		} else if err != nil {
			return driver.Grant{}, err
		}
		return grantOf(own.record, own.token(), own.lease, ttl, l.notice), nil
	}
}

// errStale: one server says that the lease has ended, and the others that what
// hangs on it has not.
var errStale = errors.New("etcd: a server does not know the lease of a key that is there: it may have been cut off from the others")

// move hangs an entry on a new lease, for another TTL: that of a lease never
// changes.
func (b *backend) move(ctx context.Context, own *entry, rec record, seconds int64) (ref, error) {
	lease, _, err := b.grant(ctx, clientv3.NoLease, seconds)
	if err != nil {
		return ref{}, err
	}
	rec.TTL = seconds
	err = b.rewrite(ctx, own, rec, lease)
	b.replaced(ctx, own, lease, err)
	if err != nil {
		return ref{}, err
	}
	return ref{lease, seconds}, nil
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
