package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlock/pawl/driver"
)

// Wait implements driver.Backend. It reads the line afresh and watches from the
// revision after that, so that nothing comes between.
//
// A claim in line watches the one ahead of it while that waits too, and else all
// who hold: a release wakes the next, not everyone. It watches its own key as
// well, since its place may end before its turn has come.
func (b *backend) Wait(ctx context.Context, c driver.Claim, _ *driver.HeldError) error {
	for {
		l, err := b.read(ctx, c.Key, c.ID)
		if err != nil {
			return err
		}
		m := l.model()
		own := l.index(c.ID)
		if m.Ready(c, driver.Instant{Wall: time.Now()}) || own < 0 && c.Queue || l.notice != nil && l.notice.Force {
			return nil
		}
		if err := b.watch(ctx, l, own); err != nil {
			return err
		}
	}
}

// watch returns when something has happened to l that may give room to the entry
// own, or to a claim that is not in line if own is negative.
func (b *backend) watch(ctx context.Context, l *line, own int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the watches
	ctx = clientv3.WithRequireLeader(ctx)
	from := clientv3.WithRev(l.revision + 1)
	ahead := l.entries
	var mine, others clientv3.WatchChan
	if own >= 0 {
		ahead = l.entries[:own]
		mine = b.client.Watch(ctx, l.entries[own].key, from)
	}
	if n := len(ahead); n > 0 && !ahead[n-1].Held {
		others = b.client.Watch(ctx, ahead[n-1].key, from)
	} else {
		others = b.client.Watch(ctx, b.names.line(l.lock), from, clientv3.WithPrefix())
	}
	concerns := make(map[string]bool)
	for _, e := range ahead {
		concerns[e.key] = true
	}
	for {
		var resp clientv3.WatchResponse
		var ok bool
		select {
		case resp, ok = <-mine:
			if ok && resp.Err() == nil && len(resp.Events) > 0 {
				return nil
			}
		case resp, ok = <-others:
			for _, e := range resp.Events {
				if concerns[string(e.Kv.Key)] {
					return nil
				}
			}
		}
		switch err := resp.Err(); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, rpctypes.ErrCompacted):
			return nil // what we would have been told of is forgotten: read again
		case err != nil:
			return wrap(err)
		case !ok:
			return fmt.Errorf("etcd: the watch of %q has ended: the client may be closed", l.lock)
		}
	}
}
