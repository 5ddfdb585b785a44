package etcd

import (
	"context"
	"iter"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlock/pawl/driver"
)

// Inspect implements driver.Backend.
func (b *backend) Inspect(ctx context.Context, key string, limit int) (driver.State, error) {
	if err := driver.ValidateKey(key); err != nil {
		return driver.State{}, err
	}
	resp, err := b.query(ctx,
		b.getLine(key),
		clientv3.OpGet(b.names.floor(key)),
		clientv3.OpGet(b.names.notices(key), clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend)),
	)
	if err != nil {
		return driver.State{}, err
	}
	l := &line{lock: key}
	l.setEntries(b.names, resp.Responses[0].GetResponseRange().Kvs)
	l.setFloor(resp.Responses[1].GetResponseRange().Kvs)
	now := time.Now()
	m := l.model()
	st := m.Inspect(limit, driver.Instant{Wall: now})
	for i, h := range st.Holders {
		st.Holders[i] = b.holder(ctx, l, l.find(h.ID), now)
	}
	for _, kv := range resp.Responses[2].GetResponseRange().Kvs {
		if n := noticeOf([]*mvccpb.KeyValue{kv}); n != nil {
			st.Notices = append(st.Notices, *n)
		}
	}
	return st, nil
}

// holder tells of an entry what others may know. Asking the servers how long it
// lasts takes an exchange of its own.
func (b *backend) holder(ctx context.Context, l *line, e *entry, now time.Time) driver.Holder {
	return driver.Holder{Claim: e.claim(l.lock), Held: e.Held, Foreign: e.foreign, Left: b.left(ctx, e), Age: e.age(now)}
}

// page is how many keys List reads at a time.
const page = 256

// List implements driver.Backend. It reads the keys in pages, and so sees each
// lock at a moment of its own.
func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[driver.Holder, error] {
	return func(yield func(driver.Holder, error) bool) {
		from := b.names.prefix + escape(prefix)
		end := clientv3.GetPrefixRangeEnd(from)
		if from == "" {
			from = "\x00" // the first key that there can be
		}
		l := new(line)
		var kvs []*mvccpb.KeyValue // of l
		tell := func() bool {
			if len(kvs) == 0 {
				return true
			}
			ok := b.tell(ctx, l.lock, kvs, yield)
			kvs = nil
			return ok
		}
		for {
			resp, err := ask(ctx, b, func(ctx context.Context) (*clientv3.GetResponse, error) {
				return b.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page))
			})
			if err != nil {
				yield(driver.Holder{}, err)
				return
			}
			for _, kv := range resp.Kvs {
				lock, _, ok := b.names.parse(string(kv.Key))
				if !ok {
					continue
				}
				if lock != l.lock && !tell() {
					return
				}
				l.lock = lock
				kvs = append(kvs, kv)
			}
			if !resp.More {
				tell()
				return
			}
			from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
		}
	}
}

// tell yields the holders of one lock.
func (b *backend) tell(ctx context.Context, lock string, kvs []*mvccpb.KeyValue, yield func(driver.Holder, error) bool) bool {
	sortByArrival(kvs)
	l := &line{lock: lock}
	l.setEntries(b.names, kvs)
	now := time.Now()
	for i := range l.entries {
		if e := &l.entries[i]; e.Held {
			if err := ctx.Err(); err != nil {
				yield(driver.Holder{}, context.Cause(ctx))
				return false
			}
			if !yield(b.holder(ctx, l, e, now), nil) {
				return false
			}
		}
	}
	return true
}
