// Package zookeeper keeps locks in Apache ZooKeeper.
//
// A key is a container node, and each claim on it an ephemeral sequential node
// below, named as Curator's InterProcessMutex names them: the order of the
// sequence numbers is the line. A claim holds once it has confirmed that, in one
// transaction that also raises the last token kept in the key's node. Nobody
// confirms while a claim ahead has not, so grants come in order of creation, and
// the czxid of a claim's node is its token. The recipe is that of ZooKeeper's
// documentation with a confirmation added; docs/protocol.md has the argument.
//
// Claims end in two ways: this backend deletes the node of a claim that is not
// renewed, and the store does when the session of a dead process times out.
package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawlock/pawl/driver"
)

type backend struct {
	o    Options
	conn *zk.Conn
	link *link

	mu      sync.Mutex
	ends    map[string]*end          // claims of this backend, by path; guarded by mu
	watches map[string]chan struct{} // closed when the path changes; guarded by mu
	closed  bool                     // guarded by mu
}

// Traits implements driver.Backend.
func (b *backend) Traits() driver.Traits {
	return driver.Traits{
		Name:     "zookeeper",
		Fencing:  true,
		Durable:  true,
		Fair:     true,
		Counting: true,
		MinTTL:   100 * time.Millisecond,
		MaxTTL:   b.o.SessionTimeout - b.o.TickTime,
	}
}

// A conflict is tried again at once, and so often: each is another claim's success.
const maxTries = 1000

// A claim that stays in line for this attempt alone is soon gone or confirmed.
const (
	transient      = 5 * time.Millisecond
	transientTries = 40
)

// Acquire implements driver.Backend.
func (b *backend) Acquire(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	if err := c.Validate(b.Traits()); err != nil {
		return driver.Grant{}, err
	}
	waits := 0
	for try := range maxTries {
		if err := late(ctx); err != nil {
			if try > 0 {
				return driver.Grant{}, errors.Join(context.DeadlineExceeded, b.withdraw(c)) // a node may be there
			}
			return driver.Grant{}, err
		}
		l, err := b.look(c.Key, try == 0)
		if err != nil {
			return driver.Grant{}, err
		}
		i := l.find(c.ID)
		if i >= 0 && l.entries[i].Token != 0 {
			g, err := b.again(l, l.entries[i], c)
			if errors.Is(err, zk.ErrBadVersion) {
				continue
			}
			return g, err
		}
		if i < 0 && l.ended(c.ID) {
			return driver.Grant{}, l.lost(c.ID)
		}
		if i < 0 && (c.Queue || l.room(len(l.entries), c)) {
			if l.Last >= maxToken {
				return driver.Grant{}, fmt.Errorf("%w: the tokens of the key have run out", driver.ErrRefused)
			}
			if err := b.join(c); err != nil {
				return driver.Grant{}, err
			}
			continue
		}
		if i < 0 || !l.room(i, c) {
			at := i
			if at < 0 {
				at = len(l.entries)
			}
			if !c.Queue && l.passing(at) && waits < transientTries {
				waits++
				time.Sleep(transient)
				continue
			}
			return driver.Grant{}, b.refused(l, i, c)
		}
		g, err := b.confirm(l, l.entries[i], c)
		if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) {
			continue
		}
		return g, err
	}
	return driver.Grant{}, fmt.Errorf("%d attempts to take %.40q met other claims", maxTries, c.Key)
}

// refused says what is in the way of c, which stays in line or leaves no trace.
func (b *backend) refused(l *line, i int, c driver.Claim) error {
	h := l.held(i, c)
	if i < 0 {
		return h
	}
	e := l.entries[i]
	if !c.Queue {
		h.Place = 0
		if err := b.remove(e.path); err != nil {
			return err
		}
		return h
	}
	ok := b.hush(e.path)
	defer b.endAfter(e.path, c.TTL)
	if !ok {
		return h // about to be deleted: the next attempt joins again
	}
	if d := asked(c); d != e.data {
		if _, err := b.conn.Set(e.path, d.encode(), e.version); err != nil && !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return h
}

// join puts c at the end of the line.
func (b *backend) join(c driver.Claim) error {
	dir := b.dir(c.Key)
	path := dir + "/" + prefix(c.ID)
	for range maxTries {
		made, err := b.conn.Create(path, asked(c).encode(), zk.FlagEphemeral|zk.FlagSequence, b.o.ACL)
		if errors.Is(err, zk.ErrNoNode) {
			if err = b.makeDir(dir); err == nil {
				continue
			}
		}
		if err == nil {
			b.endAfter(made, c.TTL)
		}
		return err
	}
	return fmt.Errorf("the node %.60q keeps vanishing", dir)
}

// confirm makes the claim of e a holder, unless another was faster.
func (b *backend) confirm(l *line, e *entry, c driver.Claim) (driver.Grant, error) {
	if e.owner != b.conn.SessionID() {
		return driver.Grant{}, fmt.Errorf("%w: the claim is that of another session", driver.ErrRefused)
	}
	if !b.hush(e.path) {
		return driver.Grant{}, zk.ErrNoNode
	}
	defer b.endAfter(e.path, c.TTL)
	m, d := l.meta, asked(c)
	d.Token = max(uint64(e.czxid), m.Last+1)
	if c.Floor <= d.Token+maxLift {
		d.Token = max(d.Token, c.Floor)
	}
	if d.Token > maxToken {
		go b.remove(e.path)
		return driver.Grant{}, fmt.Errorf("%w: the tokens of the key have run out", driver.ErrRefused)
	}
	m.Last, m.LastID = d.Token, c.ID
	res, err := b.conn.Multi(
		&zk.SetDataRequest{Path: b.dir(c.Key), Data: m.encode(), Version: l.version},
		&zk.SetDataRequest{Path: e.path, Data: d.encode(), Version: e.version},
	)
	if err != nil {
		return driver.Grant{}, failed(res, err)
	}
	return b.grant(l, e.path, d, res[1].Stat), nil
}

// again repeats the grant of e, its TTL restarted.
func (b *backend) again(l *line, e *entry, c driver.Claim) (driver.Grant, error) {
	if e.Kept {
		return driver.Grant{}, l.lost(c.ID)
	}
	d := e.data
	d.TTL = c.TTL
	if c.Weight < d.Weight && !c.Exclusive() {
		d.Weight, d.Capacity = c.Weight, c.Capacity
	}
	return b.prolong(l, e, d)
}

// prolong writes d to the node of e, which proves that it is there.
func (b *backend) prolong(l *line, e *entry, d data) (driver.Grant, error) {
	if e.owner != b.conn.SessionID() {
		return driver.Grant{}, fmt.Errorf("%w: the claim is kept alive by the session of another process", driver.ErrUnsupported)
	}
	if !b.hush(e.path) {
		return driver.Grant{}, l.lost(d.ID)
	}
	defer b.endAfter(e.path, d.TTL)
	st, err := b.conn.Set(e.path, d.encode(), e.version)
	if errors.Is(err, zk.ErrNoNode) {
		return driver.Grant{}, l.lost(d.ID)
	}
	if err != nil {
		return driver.Grant{}, err
	}
	return b.grant(l, e.path, d, st), nil
}

// grant is what is told of d. The session may end the claim before its TTL has
// passed, if the server has agreed to less than was asked for.
func (b *backend) grant(l *line, path string, d data, st *zk.Stat) driver.Grant {
	ttl := d.TTL
	if agreed := b.link.agreed(); agreed > 0 {
		ttl = min(ttl, agreed-b.o.TickTime)
	}
	g := driver.Grant{Token: d.Token, Block: 1, TTL: ttl, Holder: d.ID, Ref: path, Notice: l.notice(d.ID)}
	if st != nil {
		g.Now = time.UnixMilli(st.Mtime)
	}
	return g
}

// Renew implements driver.Backend.
func (b *backend) Renew(_ context.Context, c driver.Claim) (driver.Grant, error) {
	for try := range maxTries {
		l, err := b.look(c.Key, try > 0)
		if err != nil {
			return driver.Grant{}, err
		}
		i := l.find(c.ID)
		if i < 0 || l.entries[i].Token != c.Grant.Token || c.Grant.Token == 0 || l.entries[i].Kept {
			if try == 0 {
				continue // a server may be behind the others: ask again after a sync
			}
			return driver.Grant{}, l.lost(c.ID)
		}
		if c.Floor > l.Last {
			m := l.meta
			m.Last = c.Floor
			if _, err := b.conn.Set(b.dir(c.Key), m.encode(), l.version); errors.Is(err, zk.ErrBadVersion) {
				continue
			} else if err != nil {
				return driver.Grant{}, err
			}
		}
		d := l.entries[i].data
		d.TTL = c.TTL
		g, err := b.prolong(l, l.entries[i], d)
		if errors.Is(err, zk.ErrBadVersion) || try == 0 && errors.Is(err, driver.ErrLost) {
			continue
		}
		return g, err
	}
	return driver.Grant{}, fmt.Errorf("%d attempts to renew %.40q met other writers", maxTries, c.Key)
}

// Release implements driver.Backend.
func (b *backend) Release(_ context.Context, c driver.Claim) error {
	for range maxTries {
		l, err := b.look(c.Key, true)
		if err != nil {
			return err
		}
		i := l.find(c.ID)
		if i < 0 {
			if c.Grant.Token == 0 || l.LastID == c.ID && !l.forced(c.ID) {
				return nil
			}
			return l.lost(c.ID)
		}
		e := l.entries[i]
		switch {
		case e.Kept:
			return nil
		case e.Token == 0 || c.Keep <= 0:
			return b.withdraw(c)
		}
		d := e.data
		d.Kept, d.TTL = true, c.Keep
		if !b.hush(e.path) {
			return l.lost(c.ID)
		}
		_, err = b.conn.Set(e.path, d.encode(), e.version)
		b.endAfter(e.path, c.Keep)
		if !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
	}
	return fmt.Errorf("%d attempts to release %.40q met other writers", maxTries, c.Key)
}

// withdraw deletes every node of c: a Create that was sent twice has left two.
func (b *backend) withdraw(c driver.Claim) error {
	dir := b.dir(c.Key)
	names, _, err := b.conn.Children(dir)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix(c.ID)) {
			err = errors.Join(err, b.remove(dir+"/"+name))
		}
	}
	return err
}

// Revoke implements driver.Backend.
func (b *backend) Revoke(_ context.Context, key, id string, n driver.Notice) error {
	n.At = time.Now()
	for range maxTries {
		l, err := b.look(key, true)
		if err != nil {
			return err
		}
		i := l.find(id)
		if i < 0 || l.entries[i].Token == 0 && !l.entries[i].foreign {
			return l.lost(id)
		}
		m := l.meta.with(id, n)
		ops := []any{&zk.SetDataRequest{Path: b.dir(key), Data: m.encode(), Version: l.version}}
		if n.Force {
			ops = append(ops, &zk.DeleteRequest{Path: l.entries[i].path, Version: -1})
		}
		res, err := b.conn.Multi(ops...)
		if err != nil {
			err = failed(res, err)
		}
		if !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return fmt.Errorf("%d attempts to revoke a claim on %.40q met other writers", maxTries, key)
}

// Inspect implements driver.Backend.
func (b *backend) Inspect(_ context.Context, key string, limit int) (driver.State, error) {
	l, err := b.look(key, true)
	if err != nil {
		return driver.State{}, err
	}
	return l.inspect(limit), nil
}

// List implements driver.Backend.
func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[driver.Holder, error] {
	return func(yield func(driver.Holder, error) bool) {
		names, _, err := b.conn.Children(b.o.Root)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			yield(driver.Holder{}, err)
			return
		}
		for _, name := range names {
			key, ok := unescape(name)
			if !ok || !strings.HasPrefix(key, prefix) {
				continue
			}
			if ctx.Err() != nil {
				yield(driver.Holder{}, context.Cause(ctx))
				return
			}
			l, err := b.look(key, false)
			if err != nil {
				yield(driver.Holder{}, err)
				return
			}
			for _, h := range l.inspect(driver.Unlimited).Holders {
				if h.Held && !yield(h, nil) {
					return
				}
			}
		}
	}
}

// failed returns the error of the operation that made a transaction fail.
func failed(res []zk.MultiResponse, err error) error {
	for _, r := range res {
		if errors.Is(r.Error, zk.ErrBadVersion) || errors.Is(r.Error, zk.ErrNoNode) {
			return r.Error
		}
	}
	return err
}

// late reports a request whose sender has given up.
func late(ctx context.Context) error {
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		return fmt.Errorf("%w: it came after its sender's deadline", driver.ErrRefused)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", driver.ErrRefused, context.Cause(ctx))
	}
	return nil
}
