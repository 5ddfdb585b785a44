package zookeeper

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/pawlock/pawl/driver"
)

// Inspect implements driver.Backend.
func (b *backend) Inspect(ctx context.Context, key string, limit int) (driver.State, error) {
	if err := b.ready(ctx); err != nil {
		return driver.State{}, err
	}
	l, err := b.look(key, true)
	if err != nil {
		return driver.State{}, b.explain(err)
	}
	return l.inspect(limit), nil
}

// List implements driver.Backend.
func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[driver.Holder, error] {
	return func(yield func(driver.Holder, error) bool) {
		err := b.ready(ctx)
		var names []string
		if err == nil {
			if _, err = b.conn.Sync(b.o.Root); err == nil || errors.Is(err, zk.ErrNoNode) {
				names, _, err = b.conn.Children(b.o.Root)
			}
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			yield(driver.Holder{}, b.explain(err))
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
				yield(driver.Holder{}, b.explain(err))
				return
			}
			for _, h := range l.inspect(len(l.entries)).Holders {
				if h.Held && !yield(h, nil) {
					return
				}
			}
		}
	}
}
