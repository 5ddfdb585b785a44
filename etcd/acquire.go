package etcd

import (
	"context"
	"errors"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlock/pawl/driver"
)

// An attempt is one call of Acquire.
type attempt struct {
	*backend
	claim  driver.Claim
	id     clientv3.LeaseID // of its first lease, and the end of its key
	key    string
	leased bool // there may be a lease without a key
	beaten bool // others changed the line under our hands
	known  bool // it was granted before
}

// Acquire implements driver.Backend. It reads the line and then asks for one
// change to it, on the condition that the line still says the same.
func (b *backend) Acquire(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	if err := c.Validate(b.Traits()); err != nil {
		return driver.Grant{}, err
	}
	if err := late(ctx); err != nil {
		return driver.Grant{}, err
	}
	a := &attempt{
		backend: b, claim: c,
		id: leaseID(c.Key, c.ID), key: b.names.claim(c.Key, c.ID),
		known: c.Grant.Token != 0,
	}
	for {
		g, err := a.once(ctx)
		switch {
		case errors.Is(err, errChanged):
			a.beaten = true
			continue
		case err == nil && b.over.has(a.id):
			// It was released while this was under way, and the release came first.
			b.tidy(ctx, parseRef(g.Ref).lease)
			return driver.Grant{}, &driver.LostError{Reason: driver.Expired}
		case a.leased && (errors.Is(err, driver.ErrHeld) && !c.Queue || errors.Is(err, driver.ErrRefused)):
			b.tidy(ctx, a.id)
		}
		return g, err
	}
}

// once reads the line and does the one thing that it leaves to do.
func (a *attempt) once(ctx context.Context) (driver.Grant, error) {
	l, err := a.read(ctx, a.claim.Key, a.claim.ID)
	if err != nil {
		return driver.Grant{}, err
	}
	own := l.find(a.claim.ID)
	switch {
	case a.over.has(a.id), l.notice != nil && l.notice.Force, own == nil && a.known, own != nil && own.Kept:
		return driver.Grant{}, l.lost(a.claim.ID, driver.Expired)
	case own != nil && own.Held:
		a.known = true
		return a.again(ctx, l, own)
	}
	switch err := l.room(a.claim); {
	case errors.Is(err, driver.ErrHeld) && own != nil:
		return driver.Grant{}, a.stay(ctx, l, own, err)
	case errors.Is(err, driver.ErrHeld) && a.claim.Queue:
		return a.queue(ctx, l)
	case err != nil:
		return driver.Grant{}, a.describe(ctx, l, err)
	case own != nil:
		return a.confirm(ctx, l, own)
	case a.claim.Queue && a.beaten:
		return a.queue(ctx, l) // where nobody can come between
	}
	return a.take(ctx, l)
}

// take has a claim granted that is not in line, on the condition that nobody
// else came and nobody ahead became more since the line was read.
func (a *attempt) take(ctx context.Context, l *line) (driver.Grant, error) {
	lease, ttl, err := a.lease(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	rec := recordOf(a.claim)
	rec.Held = true
	unchanged := clientv3.Compare(clientv3.ModRevision(a.names.line(l.lock)).WithPrefix(), "<", l.revision+1)
	return a.commit(ctx, l, rec, lease, ttl, unchanged)
}

// queue puts a claim at the end of the line. If that turns out to be a place with
// room it is granted at once.
func (a *attempt) queue(ctx context.Context, l *line) (driver.Grant, error) {
	lease, _, err := a.lease(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	resp, err := a.write(ctx,
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(a.key), "=", 0), a.unforced(l)},
		clientv3.OpPut(a.key, recordOf(a.claim).encode(), clientv3.WithLease(lease)),
		a.getLine(l.lock),
		clientv3.OpGet(a.names.floor(l.lock)),
	)
	if err != nil {
		return driver.Grant{}, err
	}
	l.revision = resp.Header.Revision
	l.setEntries(a.names, resp.Responses[1].GetResponseRange().Kvs)
	l.setFloor(resp.Responses[2].GetResponseRange().Kvs)
	own := l.find(a.claim.ID)
	if err := l.room(a.claim); err != nil {
		return driver.Grant{}, a.describe(ctx, l, err)
	}
	return a.confirm(ctx, l, own)
}

// confirm has a claim granted that is in line and has room. Nobody can come in
// ahead of it, and those ahead all hold and never become more: the only condition
// is that it is still in line itself.
func (a *attempt) confirm(ctx context.Context, l *line, own *entry) (driver.Grant, error) {
	lease, ttl, err := a.grant(ctx, clientv3.NoLease, seconds(a.claim.TTL)) // not the old one: see Renew
	if err != nil {
		return driver.Grant{}, err
	}
	rec := recordOf(a.claim)
	rec.Held = true
	g, err := a.commit(ctx, l, rec, lease, ttl, unmodified(own))
	a.replaced(ctx, own, lease, err)
	return g, err
}

// commit writes a holder. The revision of that is the token, unless a greater
// one was asked for: tokens rise because grants have an order in the store, and
// the floor is raised with every grant above the revision.
func (a *attempt) commit(ctx context.Context, l *line, rec record, lease clientv3.LeaseID, ttl time.Duration, still clientv3.Cmp) (driver.Grant, error) {
	if a.over.has(a.id) {
		return driver.Grant{}, l.lost(rec.ID, driver.Expired)
	}
	least := l.floor
	if f := a.claim.Floor; f <= uint64(time.Now().Add(time.Second).UnixMicro()) {
		least = max(least, f)
	}
	var floor []clientv3.Op
	switch {
	case least > uint64(l.revision)+1:
		rec.Token = least
		floor = append(floor, a.putFloor(l.lock, least+1))
	case l.floorMod != 0:
		floor = append(floor, clientv3.OpDelete(a.names.floor(l.lock))) // the revision has passed it
	}
	resp, err := a.write(ctx,
		[]clientv3.Cmp{still, a.unforced(l), clientv3.Compare(clientv3.ModRevision(a.names.floor(l.lock)), "=", l.floorMod)},
		append(floor, clientv3.OpPut(a.key, rec.encode(), clientv3.WithLease(lease)))...,
	)
	if err != nil {
		return driver.Grant{}, err
	}
	a.leased = false
	token := rec.Token
	if token == 0 {
		token = uint64(resp.Header.Revision)
	}
	return grantOf(rec, token, lease, ttl, nil), nil
}

// again repeats a grant, its TTL restarted, and makes it smaller if it is asked
// to.
func (a *attempt) again(ctx context.Context, l *line, own *entry) (driver.Grant, error) {
	c, rec := a.claim, own.record
	if c.Weight < rec.Weight && !c.Exclusive() { // 1 of 1 is more than 2 of 3
		rec.Weight, rec.Capacity = c.Weight, c.Capacity
	}
	lease, ttl, err := a.move(ctx, own, rec, seconds(c.TTL))
	if err != nil {
		return driver.Grant{}, err
	}
	rec.TTL = seconds(c.TTL)
	return grantOf(rec, own.token(), lease, ttl, l.notice), nil
}

// stay keeps the place of a claim that has no room, or gives it up if the claim
// does not queue any more. It returns refusal.
func (a *attempt) stay(ctx context.Context, l *line, own *entry, refusal error) error {
	if !a.claim.Queue {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
		defer cancel()
		if err := a.revoke(ctx, own.lease); err != nil {
			return err
		}
		return a.describe(ctx, l, refusal)
	}
	lease, _, err := a.relet(ctx, own)
	if err != nil {
		return err
	}
	rec := own.record
	rec.Label, rec.Weight, rec.Capacity, rec.TTL = a.claim.Label, a.claim.Weight, a.claim.Capacity, seconds(a.claim.TTL)
	if rec != own.record {
		err := a.rewrite(ctx, own, rec, lease)
		if lease != own.lease {
			a.replaced(ctx, own, lease, err)
		}
		if err != nil {
			return err
		}
	}
	return a.describe(ctx, l, refusal)
}

// lease makes the first lease of the claim, unless this attempt has one already.
func (a *attempt) lease(ctx context.Context) (clientv3.LeaseID, time.Duration, error) {
	if a.over.has(a.id) {
		return 0, 0, &driver.LostError{Reason: driver.Expired}
	}
	a.leased = true
	id, ttl, err := a.grant(ctx, a.id, seconds(a.claim.TTL))
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		err = errChanged // it was there, and ended before it was renewed
	}
	return id, ttl, err
}

// relet begins the time of an entry's lease anew, or makes another where the TTL
// is to be another: that of a lease never changes.
func (a *attempt) relet(ctx context.Context, own *entry) (clientv3.LeaseID, time.Duration, error) {
	lease, ttl, err := a.backend.relet(ctx, own, seconds(a.claim.TTL))
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		err = errChanged // and the entry has ended with it
	}
	return lease, ttl, err
}

func (b *backend) relet(ctx context.Context, own *entry, seconds int64) (clientv3.LeaseID, time.Duration, error) {
	if own.TTL != seconds {
		return b.grant(ctx, clientv3.NoLease, seconds)
	}
	ttl, err := b.keepAlive(ctx, own.lease)
	return own.lease, ttl, err
}

// replaced ends the lease that an entry does not hang on: the one it had, or the
// one that was made for it in vain. If the outcome is unknown neither is touched,
// and the one too many ends by itself, as it does where this takes too long.
func (b *backend) replaced(ctx context.Context, own *entry, lease clientv3.LeaseID, err error) {
	ctx, cancel := context.WithTimeout(ctx, min(share(ctx, 0), 200*time.Millisecond))
	defer cancel()
	switch {
	case err == nil:
		_ = b.revoke(ctx, own.lease)
	case errors.Is(err, errChanged) && !errors.Is(err, errSilent):
		_ = b.revoke(ctx, lease)
	}
}

// rewrite changes the record of an entry, and what lease it hangs on. Its token
// and its place in line stay.
func (b *backend) rewrite(ctx context.Context, own *entry, rec record, lease clientv3.LeaseID) error {
	rec.Token = own.token()
	_, err := b.write(ctx, []clientv3.Cmp{unmodified(own)}, clientv3.OpPut(own.key, rec.encode(), clientv3.WithLease(lease)))
	return err
}

// unmodified is true while e stands in line as it was read.
func unmodified(e *entry) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(e.key), "=", e.mod)
}

// unforced is true while nobody has ended the claim by force.
func (a *attempt) unforced(l *line) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(a.names.notice(l.lock, a.claim.ID)), "=", l.noticeMod)
}

func (b *backend) putFloor(lock string, least uint64) clientv3.Op {
	return clientv3.OpPut(b.names.floor(lock), strconv.FormatUint(least, 10))
}

func grantOf(rec record, token uint64, lease clientv3.LeaseID, ttl time.Duration, n *driver.Notice) driver.Grant {
	return driver.Grant{
		Token: token, Block: 1, TTL: ttl, Holder: rec.ID,
		Ref: ref{lease, rec.TTL}.String(), Now: time.Now(), Notice: n,
	}
}

// describe completes a refusal with what the line alone does not tell.
func (b *backend) describe(ctx context.Context, l *line, err error) error {
	var held *driver.HeldError
	if !errors.As(err, &held) {
		return err
	}
	in := l.find(held.Holder.ID)
	if left := b.left(ctx, in); left >= 0 || in.foreign {
		held.Left = left
	}
	held.Holder.Left, held.Holder.Foreign, held.Holder.Age = held.Left, in.foreign, in.age(held.Now)
	return held
}
