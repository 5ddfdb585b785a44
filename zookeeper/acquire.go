package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawlock/pawl/driver"
)

const (
	// Tokens stay exact where numbers are floats. A candidate is believed if it
	// is no further ahead than one epoch of the store.
	maxToken = 1<<53 - 1
	maxLift  = 1 << 32

	// A conflict is tried again at once, and so often: each is another claim's
	// success.
	maxTries = 1000

	// How long a claim ahead that is about to hold, or to leave, is waited for.
	// One that stays in line may be slow, or dead.
	passingTime = 2 * time.Second
	inLineTime  = 200 * time.Millisecond
)

// errEnded: the node of the claim is being deleted.
var errEnded = errors.New("the claim has ended")

var errClosed = fmt.Errorf("%w: the backend is closed", driver.ErrRefused)

// Acquire implements driver.Backend.
func (b *backend) Acquire(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	if err := c.Validate(b.Traits()); err != nil {
		return driver.Grant{}, err
	}
	sent := time.Now()
	if err := late(ctx); err != nil {
		return driver.Grant{}, err
	}
	if err := b.ready(ctx); err != nil {
		return driver.Grant{}, err
	}
	select {
	case <-b.stop: // while it still keeps what it had
		return driver.Grant{}, errClosed
	default:
	}
	if why := b.buried(c.ID); why != "" {
		return driver.Grant{}, b.ofBuried(c, why)
	}
	a := &attempt{backend: b, ctx: ctx, c: c, patience: time.Now()}
	for try := range maxTries {
		g, done, err := a.step(try == 0)
		switch {
		case err == nil && !done, raced(err):
			continue
		case err == nil:
			return b.bounded(g, sent), nil
		case errors.Is(err, driver.ErrHeld), errors.Is(err, driver.ErrLost):
			return driver.Grant{}, err
		case a.joined:
			return driver.Grant{}, b.doubtful(err)
		}
		return driver.Grant{}, b.explain(err)
	}
	return driver.Grant{}, fmt.Errorf("%d attempts to take %.40q met other claims", maxTries, c.Key)
}

// ofBuried is for a claim that this process has seen the end of.
func (b *backend) ofBuried(c driver.Claim, why string) error {
	if why == driver.Forced {
		if l, err := b.look(c.Key, true); err == nil {
			return l.lost(c.ID)
		}
	}
	return &driver.LostError{Reason: driver.Expired}
}

// An attempt is one call of Acquire.
type attempt struct {
	*backend
	ctx      context.Context
	c        driver.Claim
	joined   bool      // a node of the claim may have been made, or changed
	patience time.Time // when waiting for a claim ahead began
}

// step does the next thing, and reports whether that was the last: a grant, or an
// error.
func (a *attempt) step(sync bool) (g driver.Grant, done bool, err error) {
	b, c := a.backend, a.c
	l, err := b.look(c.Key, sync)
	if err != nil {
		return g, false, err
	}
	// Whoever has given up withdraws the claim. This attempt must not: another one
	// of the same claim may have been granted since.
	if err := late(a.ctx); err != nil {
		return g, false, err
	}
	if agreed := b.link.agreed(); agreed > 0 && agreed < 2*b.o.TickTime {
		return g, false, fmt.Errorf("%w: the servers agreed to a session of %v, less than two ticks of %v each; "+
			"say what their tickTime is, or let them agree to longer sessions", driver.ErrUnsupported, agreed, b.o.TickTime)
	}
	if some, err := b.reap(l, l.entries); some || err != nil {
		return g, false, err
	}
	i := l.find(c.ID)
	if i < 0 {
		return g, false, a.enter(l)
	}
	e := l.entries[i]
	a.joined = true
	switch {
	case b.over(e.path):
		if e.Token != 0 {
			return g, false, l.lost(c.ID)
		}
		return g, false, b.remove(e.path) // its place was lost; it may have another
	case e.Token != 0:
		g, err = b.again(l, e, c)
	case e.stat.EphemeralOwner != b.conn.SessionID():
		_, err = b.move(l, e, e.asked(c))
		return g, false, err
	case !b.asks(e.path):
		return g, false, nil
	case l.room(i, c):
		g, err = b.confirm(l, e, c)
	default:
		if !c.Queue && a.awaits(l, i) {
			return g, false, nil
		}
		err = b.refused(l, i, c)
	}
	return g, err == nil, err
}

// enter puts the claim in line, if it may hold at once or stays in line.
func (a *attempt) enter(l *line) error {
	switch {
	case l.LastID == a.c.ID || l.forced(a.c.ID):
		return l.lost(a.c.ID)
	case l.Last >= maxToken:
		return fmt.Errorf("%w: the tokens of the key have run out", driver.ErrRefused)
	case !a.c.Queue && !l.room(len(l.entries), a.c):
		if a.awaits(l, len(l.entries)) {
			return nil
		}
		return l.held(-1)
	}
	a.joined = true
	return a.join(a.c)
}

// awaits waits a moment if the claim ahead that is in the way is about to hold or
// to leave, and returns false if it has taken too long.
func (a *attempt) awaits(l *line, i int) bool {
	e := l.passing(i)
	if e == nil {
		return false
	}
	bound := passingTime
	if e.Queue {
		bound = inLineTime
	}
	if time.Since(a.patience) > bound {
		return false
	}
	time.Sleep(5 * time.Millisecond)
	return true
}

// refused says what is in the way of c, which stays in line or leaves no trace.
func (b *backend) refused(l *line, i int, c driver.Claim) error {
	e := l.entries[i]
	h := l.held(i)
	if !c.Queue {
		h.Place = 0
		if err := b.remove(e.path); err != nil {
			return err
		}
		return h
	}
	d, o := e.asked(c), b.kept(e.path)
	if o == nil || d != e.data || time.Since(o.written) > c.TTL/8 {
		// Those behind see by the new version that somebody still asks.
		st, err := b.conn.Set(e.path, encode(d), e.stat.Version)
		if err != nil {
			return err
		}
		if !b.keep(e.path, o, d, st) {
			return zk.ErrNoNode // about to be deleted: it joins again
		}
		return h
	}
	if !b.keep(e.path, o, d, nil) {
		return zk.ErrNoNode
	}
	return h
}

// join puts c at the end of the line.
func (b *backend) join(c driver.Claim) error {
	dir, d := b.dir(c.Key), asked(c)
	for range maxTries {
		path, err := b.conn.Create(dir+"/"+protected(c.ID), encode(d), zk.FlagEphemeral|zk.FlagSequence, b.o.ACL)
		if errors.Is(err, zk.ErrNoNode) {
			if err = b.makeDir(dir); err == nil {
				continue
			}
		}
		if err == nil {
			b.keep(path, nil, d, new(zk.Stat))
		}
		b.recover(c.Key, c.ID, err)
		return err
	}
	return fmt.Errorf("the node %.60q keeps vanishing", dir)
}

// confirm makes the claim of e a holder, unless another was faster.
func (b *backend) confirm(l *line, e *entry, c driver.Claim) (driver.Grant, error) {
	m, d := l.meta, e.asked(c)
	zxid := uint64(e.stat.Czxid)
	d.Token = max(zxid, m.Last+1)
	if c.Floor <= d.Token+maxLift {
		d.Token = max(d.Token, c.Floor)
	}
	if d.Token > maxToken {
		b.remove(e.path)
		return driver.Grant{}, fmt.Errorf("%w: the tokens of the key have run out", driver.ErrRefused)
	}
	d.Since = l.now.UnixMilli()
	m.Last, m.LastID = d.Token, c.ID
	ops := []any{
		&zk.SetDataRequest{Path: l.dir, Data: encode(m), Version: l.version},
		&zk.SetDataRequest{Path: e.path, Data: encode(d), Version: e.stat.Version},
	}
	// A token is no more than the zxid of the transaction that grants it, so that
	// those of a key whose node was dropped go on rising. Not so above a floor.
	if lifted := c.Floor == d.Token || l.record.Last >= zxid; lifted && d.Token > zxid {
		r := l.record
		r.Last = d.Token
		if err := b.makeParents(b.memory(l.key)); err != nil {
			return driver.Grant{}, err
		}
		ops = append(ops, b.remember(l.key, l.record, r))
	}
	o := b.kept(e.path)
	res, err := b.conn.Multi(ops...)
	if err != nil {
		return driver.Grant{}, failed(res, err)
	}
	if !b.keep(e.path, o, d, res[1].Stat) {
		return driver.Grant{}, errEnded
	}
	return b.grant(e.path, d, res[1].Stat), nil
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

// prolong writes d to the node of e, which proves that it is there and restarts
// its TTL.
func (b *backend) prolong(l *line, e *entry, d data) (driver.Grant, error) {
	if e.stat.EphemeralOwner != b.conn.SessionID() {
		return b.move(l, e, d)
	}
	o := b.kept(e.path)
	st, err := b.conn.Set(e.path, encode(d), e.stat.Version)
	if err != nil {
		return driver.Grant{}, err
	}
	if !b.keep(e.path, o, d, st) {
		return driver.Grant{}, l.lost(d.ID)
	}
	return b.grant(e.path, d, st), nil
}

// move makes the claim of e, which the session of another process keeps, one of
// ours: a new node takes the place of the old one in the same transaction. Whoever
// reads the line meanwhile and sees neither finds the key's version changed.
func (b *backend) move(l *line, e *entry, d data) (driver.Grant, error) {
	path := l.dir + "/" + moved(e.name, e.ID)
	d.Place = e.place()
	res, err := b.conn.Multi(
		&zk.SetDataRequest{Path: l.dir, Data: encode(l.meta), Version: l.version},
		&zk.DeleteRequest{Path: e.path, Version: e.stat.Version},
		&zk.CreateRequest{Path: path, Data: encode(d), Acl: b.o.ACL, Flags: zk.FlagEphemeral},
	)
	if err != nil {
		err = failed(res, err)
		b.recover(l.key, d.ID, err)
		return driver.Grant{}, err
	}
	b.forget(e.path)
	b.keep(path, nil, d, &zk.Stat{Mtime: res[0].Stat.Mtime}) // a new node has version 0
	return b.grant(path, d, res[0].Stat), nil
}

// grant is what is told of d.
func (b *backend) grant(path string, d data, st *zk.Stat) driver.Grant {
	return driver.Grant{Token: d.Token, Block: 1, TTL: d.TTL, Holder: d.ID, Ref: path, Now: time.UnixMilli(st.Mtime), Notice: d.Notice}
}

// bounded returns g, which was asked for at sent, with what is left of its TTL: the
// session may end the claim before, on what the leader is sure to know of us.
func (b *backend) bounded(g driver.Grant, sent time.Time) driver.Grant {
	age := min(sent.Sub(b.link.signs.told(sent, b.o.TickTime)), longest)
	g.TTL = min(g.TTL, b.link.agreed()-age-age/50)
	return g
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
