package redis

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/pawlock/pawl/driver"
)

// The line is read at most so far for List, and shares for Inspect are put in
// order up to so many.
const window = 1000

// Inspect implements driver.Backend. Beyond 1000 shares, those that limit
// leaves out need not be the newest.
func (b *backend) Inspect(ctx context.Context, key string, limit int) (driver.State, error) {
	if err := driver.ValidateKey(key); err != nil {
		return driver.State{}, err
	}
	s, err := b.inspect(ctx, key, max(limit, window))
	if len(s.Holders) > max(limit, 0) {
		s.Holders = s.Holders[:max(limit, 0)]
	}
	return s, err
}

func (b *backend) inspect(ctx context.Context, key string, limit int) (driver.State, error) {
	keys := b.names.of(key)
	sent := time.Now()
	r, err := b.run(ctx, inspectScript, keys, limit)
	if err != nil {
		return driver.State{}, err
	}
	now := time.UnixMicro(r.int())
	value, left := r.string(), time.Duration(r.int())*time.Millisecond
	fence, fenceLeft := parseFence(r.string()), time.Duration(r.int())*time.Millisecond
	r.int() // the number of shares
	shares := r.list()
	state := driver.State{Last: fence.last, Waiting: int(r.int())}
	waits, notices := r.list(), r.list()
	if r.err == nil {
		b.clockOf(ctx, keys).learn(sent, now, false)
	}

	if value != "" && value != sharesValue {
		h := exclusiveHolder(key, value, now)
		h.Left = max(left, -1)
		if !h.Foreign && fence.lastID == h.ID {
			h.TTL = ttl(left, fenceLeft)
			h.Grant.TTL = h.TTL
		}
		state.Holders = append(state.Holders, h)
	}
	for shares.more() {
		state.Holders = append(state.Holders, recordHolder(key, shares.string(), shares.string(), now))
	}
	slices.SortStableFunc(state.Holders, func(a, b driver.Holder) int { return cmp.Compare(a.Grant.Token, b.Grant.Token) })
	for waits.more() {
		h := recordHolder(key, waits.string(), waits.string(), now)
		h.Age = max(0, now.Sub(time.UnixMicro(waits.int())))
		state.Holders = append(state.Holders, h)
	}
	for notices.more() {
		state.Notices = append(state.Notices, *notices.notice())
	}
	return state, cmp.Or(r.err, shares.err, waits.err, notices.err)
}

// List implements driver.Backend. It asks the store for one key after the
// other, and yields at most the 1000 shares of each that end first.
func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[driver.Holder, error] {
	return func(yield func(driver.Holder, error) bool) {
		seen := make(map[string]bool) // SCAN may repeat itself
		for name, err := range b.node.Scan(ctx, b.names.pattern(prefix)) {
			if err != nil {
				yield(driver.Holder{}, explain(err, inspectScript, keys{lock: b.names.prefix}))
				return
			}
			key, ok := b.names.key(name)
			if !ok || !strings.HasPrefix(key, prefix) || seen[key] {
				continue
			}
			seen[key] = true
			state, err := b.inspect(ctx, key, window)
			if err != nil {
				yield(driver.Holder{}, err)
				return
			}
			for _, h := range state.Holders {
				if h.Held && !yield(h, nil) {
					return
				}
			}
		}
	}
}
