package zookeeper

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawlock/pawl/driver"
)

// Renew implements driver.Backend. A claim that the session of another process
// keeps goes over to ours.
func (b *backend) Renew(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	sent := time.Now()
	if err := b.ready(ctx); err != nil {
		return driver.Grant{}, err
	}
	if g, done, err := b.renewKnown(c); done {
		return b.bounded(g, sent), b.explain(err)
	}
	for range maxTries {
		g, err := b.renew(c)
		if !raced(err) {
			return b.bounded(g, sent), b.explain(err)
		}
	}
	return driver.Grant{}, fmt.Errorf("%d attempts to renew %.40q met other writers", maxTries, c.Key)
}

// renewKnown renews a claim of this process in one request, if the node is as it
// was left.
func (b *backend) renewKnown(c driver.Claim) (g driver.Grant, done bool, err error) {
	o := b.kept(c.Grant.Ref)
	if o == nil || c.Floor != 0 || o.data.ID != c.ID || o.data.Token == 0 || o.data.Token != c.Grant.Token || o.data.Kept {
		return g, false, nil
	}
	d := o.data
	d.TTL = c.TTL
	st, err := b.conn.Set(o.path, encode(d), o.version)
	switch {
	case raced(err):
		return g, false, nil
	case err != nil:
		return g, true, err
	case !b.keep(o.path, o, d, st):
		return g, true, &driver.LostError{Reason: driver.Expired}
	}
	return b.grant(o.path, d, st), true, nil
}

func (b *backend) renew(c driver.Claim) (driver.Grant, error) {
	l, err := b.look(c.Key, true)
	if err != nil {
		return driver.Grant{}, err
	}
	i := l.find(c.ID)
	if i < 0 || l.entries[i].Token != c.Grant.Token || c.Grant.Token == 0 || l.entries[i].Kept || b.over(l.entries[i].path) {
		return driver.Grant{}, l.lost(c.ID)
	}
	if c.Floor > l.Last {
		if err := b.lift(l, c.Floor); err != nil {
			return driver.Grant{}, err
		}
		c.Floor = 0
		return b.renew(c)
	}
	d := l.entries[i].data
	d.TTL = c.TTL
	return b.prolong(l, l.entries[i], d)
}

// lift raises the last token of l's key to floor, which is remembered for longer
// than the key's node may live.
func (b *backend) lift(l *line, floor uint64) error {
	if err := b.makeParents(b.memory(l.key)); err != nil {
		return err
	}
	m, r := l.meta, l.record
	m.Last, r.Last = floor, floor
	res, err := b.conn.Multi(
		&zk.SetDataRequest{Path: l.dir, Data: encode(m), Version: l.version},
		b.remember(l.key, l.record, r),
	)
	if err != nil {
		return failed(res, err)
	}
	return nil
}

// Release implements driver.Backend.
func (b *backend) Release(ctx context.Context, c driver.Claim) error {
	defer b.use()()
	if err := b.ready(ctx); err != nil {
		return err
	}
	for range maxTries {
		if err := b.release(c); !raced(err) {
			return b.explain(err)
		}
	}
	return fmt.Errorf("%d attempts to release %.40q met other writers", maxTries, c.Key)
}

func (b *backend) release(c driver.Claim) error {
	l, err := b.look(c.Key, true)
	if err != nil {
		return err
	}
	i := l.find(c.ID)
	if i < 0 {
		how := b.buried(c.ID)
		if c.Grant.Token == 0 || how == released || how == "" && l.LastID == c.ID && !l.forced(c.ID) {
			return nil
		}
		return l.lost(c.ID)
	}
	e := l.entries[i]
	switch {
	case e.Kept:
		return nil
	case e.Token == 0 || c.Keep <= 0:
		if b.over(e.path) && e.Token != 0 {
			return l.lost(c.ID)
		}
		if err := b.conn.Delete(e.path, e.stat.Version); err != nil {
			return err
		}
		b.forget(e.path)
		if e.Token != 0 {
			b.bury(c.ID, released)
		}
		return zk.ErrNoNode // once more: a Create that was sent twice has left two
	}
	d := e.data
	d.Kept, d.TTL = true, min(c.Keep, longest)
	_, err = b.prolong(l, e, d)
	return err
}

// Revoke implements driver.Backend. A foreign holder can't be asked, only ended.
func (b *backend) Revoke(ctx context.Context, key, id string, n driver.Notice) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	for range maxTries {
		if err := b.revoke(key, id, n); !raced(err) {
			return b.explain(err)
		}
	}
	return fmt.Errorf("%d attempts to revoke a claim on %.40q met other writers", maxTries, key)
}

func (b *backend) revoke(key, id string, n driver.Notice) error {
	l, err := b.look(key, true)
	if err != nil {
		return err
	}
	i := l.find(id)
	if i < 0 || !l.holds(i) {
		return l.lost(id)
	}
	e := l.entries[i]
	n.At = l.now
	if !n.Force {
		if e.foreign {
			return fmt.Errorf("%w: the holder is a foreign client, which can't be asked", driver.ErrUnsupported)
		}
		d := e.data
		d.Notice = &n
		_, err := b.conn.Set(e.path, encode(d), e.stat.Version)
		return err
	}
	if err := b.makeParents(b.memory(key)); err != nil {
		return err
	}
	res, err := b.conn.Multi(
		&zk.DeleteRequest{Path: e.path, Version: e.stat.Version},
		b.remember(key, l.record, l.record.with(id, n)),
	)
	if err != nil {
		return failed(res, err)
	}
	b.sweep()
	return nil
}
