package etcd

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlock/pawl/driver"
)

// A line is what stands below a lock at one revision.
type line struct {
	lock     string
	revision int64
	entries  []entry // in order of arrival
	floor    uint64  // the least token that is free, 0 if the next revision is
	floorMod int64   // revision of its key, 0 if there is none

	notice    *driver.Notice // for the claim that was asked about
	noticeMod int64          // revision of its key, 0 if there is none
}

// read reads the line of a lock, and the notice for the claim id.
func (b *backend) read(ctx context.Context, lock, id string) (*line, error) {
	resp, err := b.query(ctx, b.getLine(lock), clientv3.OpGet(b.names.floor(lock)), clientv3.OpGet(b.names.notice(lock, id)))
	if err != nil {
		return nil, err
	}
	l := &line{lock: lock, revision: resp.Header.Revision}
	l.setEntries(b.names, resp.Responses[0].GetResponseRange().Kvs)
	l.setFloor(resp.Responses[1].GetResponseRange().Kvs)
	l.setNotice(resp.Responses[2].GetResponseRange().Kvs)
	return l, nil
}

// getLine reads all claims on a lock in order of arrival.
func (b *backend) getLine(lock string) clientv3.Op {
	return clientv3.OpGet(b.names.line(lock), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
}

func (l *line) setEntries(n names, kvs []*mvccpb.KeyValue) {
	l.entries = nil
	for _, kv := range kvs {
		lock, last, ok := n.parse(string(kv.Key))
		if !ok || lock != l.lock {
			continue // below a name with a slash that another program uses
		}
		if e, ok := entryOf(kv, lock, last); ok {
			// The concurrency package writes nothing when it is granted:
			// whoever has nobody ahead holds.
			e.Held = e.Held || e.foreign && len(l.entries) == 0
			l.entries = append(l.entries, e)
		}
	}
}

func (l *line) setFloor(kvs []*mvccpb.KeyValue) {
	if len(kvs) > 0 {
		l.floor, _ = strconv.ParseUint(string(kvs[0].Value), 10, 64)
		l.floorMod = kvs[0].ModRevision
	}
}

func (l *line) setNotice(kvs []*mvccpb.KeyValue) {
	if l.notice = noticeOf(kvs); len(kvs) > 0 {
		l.noticeMod = kvs[0].ModRevision
	}
}

// find returns the claim id, nil if it is not in line.
func (l *line) find(id string) *entry {
	if i := l.index(id); i >= 0 {
		return &l.entries[i]
	}
	return nil
}

func (l *line) index(id string) int {
	return slices.IndexFunc(l.entries, func(e entry) bool { return e.ID == id })
}

// last returns the greatest token that is known to have been granted.
func (l *line) last() uint64 {
	var last uint64
	if l.floor > 0 {
		last = l.floor - 1
	}
	for _, e := range l.entries {
		last = max(last, e.token())
	}
	return last
}

// model is the line as the one rule takes it. It stands still, so that nothing
// in it ends; a claim's Expires is how long its lease lasts from its renewal.
func (l *line) model() driver.Line {
	m := driver.Line{Last: l.last()}
	for _, e := range l.entries {
		m.Entries = append(m.Entries, driver.Entry{
			Claim: e.claim(l.lock), Held: e.Held, Kept: e.Kept, Expires: e.lasts(),
		})
	}
	return m
}

// room tells whether an Acquire of c finds room: nil if so, a [*driver.HeldError]
// if not, driver.ErrRefused if there is no token left for it.
func (l *line) room(c driver.Claim) error {
	m := l.model()
	_, err := m.Acquire(c, driver.Instant{Wall: time.Now()})
	return err
}

// claim returns e as it is told to others.
func (e entry) claim(lock string) driver.Claim {
	return driver.Claim{
		Key: lock, ID: e.ID, Label: e.Label, Weight: e.Weight, Capacity: e.Capacity,
		TTL: time.Duration(e.TTL) * time.Second, Queue: !e.Held,
		Grant: driver.Grant{Token: e.token(), Block: 1, Holder: e.ID},
	}
}

// lasts returns an upper bound for how long e goes on without a renewal, as far
// as its record tells.
func (e entry) lasts() time.Duration {
	if e.TTL <= 0 || e.TTL > math.MaxInt64/int64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(e.TTL) * time.Second
}

// left asks how long e goes on unless it is renewed: an upper bound by less than
// a second, since that is what servers count in. It is negative if they don't
// answer, or if e never ends.
func (b *backend) left(ctx context.Context, e *entry) time.Duration {
	if e == nil || e.lease == clientv3.NoLease {
		return -1
	}
	resp, err := ask(ctx, b, func(ctx context.Context) (*clientv3.LeaseTimeToLiveResponse, error) {
		return b.client.TimeToLive(ctx, e.lease)
	})
	if err != nil {
		return -1
	}
	return time.Duration(min(max(resp.TTL, 0)+1, max(resp.GrantedTTL, 1))) * time.Second // TTL is -1 for one that has ended
}

// lost says why the claim id, which was granted, does not hold.
func (l *line) lost(id, otherwise string) *driver.LostError {
	if l.notice != nil && l.notice.Force {
		return &driver.LostError{Reason: driver.Forced, Notice: l.notice}
	}
	for _, e := range l.entries {
		if e.Held && e.ID != id && e.Weight == e.Capacity {
			return &driver.LostError{Reason: driver.Stolen}
		}
	}
	return &driver.LostError{Reason: otherwise}
}

func sortByArrival(kvs []*mvccpb.KeyValue) {
	slices.SortFunc(kvs, func(x, y *mvccpb.KeyValue) int { return cmp.Compare(x.CreateRevision, y.CreateRevision) })
}
