// Package redis keeps locks on a Redis server, 7.0 or later, or Valkey, 7.2 or
// later. It speaks the protocol of docs/protocol.md through a [Node], which an
// adapter makes of a client library: package goredis, a module of its own, for
// go-redis. Users import the adapter.
//
// A mutex is the lock that everyone knows, SET key value NX PX ttl, so that it
// excludes any other program that locks the same key that way.
//
// What Redis can't give: it answers before its disk and its replicas have the
// write, so that a lock can be lost with a server. Tokens go on rising then,
// unless the clock went back by more than the outage took.
package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/pawlock/pawl/driver"
)

// Options are the settings of a backend. The zero value, and nil, are sound.
type Options struct {
	// Prefix begins the name of every key that holds a lock, so that key
	// invoice/42 is lock:invoice/42 in the store. All programs that share
	// locks have to agree on it. Default "lock:".
	Prefix string

	// Quarantine makes a server that may have forgotten what it granted wait
	// until that has ended. Default none: after a restart without its data, or a
	// failover, a server grants what somebody may still hold.
	Quarantine *Quarantine

	// Durability says where a grant or a renewal has to have arrived before it
	// counts. Default: at the server, in memory.
	Durability Durability
}

// DefaultPrefix begins the names of locks unless Options say otherwise.
const DefaultPrefix = "lock:"

// A fence outlives the last renewal by fenceLife, or by ten times the TTL if
// that is longer. acquire.lua and renew.lua have the same numbers.
const (
	fenceLife = 24 * time.Hour
	fenceTTLs = 10
)

// tokenLimit is what Lua can still count to exactly.
const tokenLimit = 1<<53 - 1

type backend struct {
	node       Node
	sharded    bool // node is a cluster
	names      names
	quarantine *Quarantine // nil for none
	durability Durability
	clocks     clocks
	wakeup     *subscriber
	waiters    atomic.Uint64 // that have waited in no line
}

// New returns a backend on node. It does no I/O: a server that can't be
// reached, or is too old, is an error of the first call. A nil o is the
// defaults; an option that can't be used is a [*driver.FieldError].
func New(node Node, o *Options) (driver.Backend, error) {
	b, err := newBackend(node, o)
	if err != nil {
		return nil, err
	}
	b.wakeup = newSubscriber(node)
	return b, nil
}

// newBackend returns a backend that nobody can wait with.
func newBackend(node Node, o *Options) (*backend, error) {
	if o == nil {
		o = new(Options)
	}
	if node == nil {
		return nil, &driver.FieldError{Field: "Node", Why: "is nil"}
	}
	b := &backend{node: node, sharded: node.Sharded(), names: names{cmp.Or(o.Prefix, DefaultPrefix)}}
	if err := validatePrefix(b.names.prefix); err != nil {
		return nil, err
	}
	if err := o.Durability.validate(); err != nil {
		return nil, err
	}
	b.durability = o.Durability
	if o.Quarantine != nil {
		q, err := o.Quarantine.validate(b.Traits())
		if err != nil {
			return nil, err
		}
		b.quarantine = q
	}
	return b, nil
}

// Traits implements driver.Backend.
func (b *backend) Traits() driver.Traits {
	t := driver.Traits{
		Name:     "redis",
		Fencing:  true,
		Fair:     true,
		Counting: true,
		Blocks:   true,
		MinTTL:   10 * time.Millisecond,
		MaxTTL:   365 * 24 * time.Hour,
	}
	if b.quarantine != nil {
		t.MaxTTL = b.quarantine.MaxTTL
	}
	return t
}

// Close implements driver.Backend. It ends the subscription and waits for its
// goroutine.
func (b *backend) Close() error {
	b.wakeup.close()
	return nil
}

// Acquire implements driver.Backend.
func (b *backend) Acquire(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	if err := c.Validate(b.Traits()); err != nil {
		return driver.Grant{}, err
	}
	id, err := parseID(c.ID)
	if err != nil {
		return driver.Grant{}, err
	}
	c.Floor = min(c.Floor, tokenLimit) // far beyond the clock: ignored
	keys := b.names.of(c.Key)
	if c.Queue {
		b.wakeup.expect(c.ID, b.channel(id.Client, keys), c.TTL)
	}
	g, err := b.durably(ctx, c, keys, func(on Evaluator) (driver.Grant, error) {
		return b.acquire(ctx, on, c, keys, b.channelField(id.Client))
	})
	if _, held := err.(*driver.HeldError); !held {
		b.wakeup.forget(c.ID)
	}
	return g, err
}

func (b *backend) acquire(ctx context.Context, on Evaluator, c driver.Claim, keys keys, channel string) (driver.Grant, error) {
	clock, err := b.learnClock(ctx, c.Key, keys)
	if err != nil {
		return driver.Grant{}, err
	}
	queue := 0
	if c.Queue {
		queue = 1
	}
	for attempt := 1; ; attempt++ {
		if err := late(ctx); err != nil {
			return driver.Grant{}, err
		}
		sent := time.Now()
		args := []any{c.ID, milliseconds(c.TTL), c.Weight, c.Capacity,
			clock.deadline(ctx), queue, max(c.Block, 1), c.Floor, channel, c.Label}
		if b.quarantine != nil {
			keys.node, args = b.marker(), append(args, b.quarantine.args()...)
		}
		r, err := runOn(ctx, on, acquireScript, keys, args...)
		if err != nil {
			return driver.Grant{}, err
		}
		code, now := r.int(), r.int()
		if r.err != nil {
			return driver.Grant{}, r.err
		}
		clock.learn(sent, time.UnixMicro(now), code == codeLate)
		switch code {
		case codeDone:
			g := driver.Grant{Token: uint64(r.int()), Block: int(r.int()), TTL: wholeMilliseconds(c.TTL), Holder: c.ID, Now: time.UnixMicro(now)}
			g.Notice = r.notice()
			return g, r.err
		case codeHeld:
			h := r.held(c.Key, time.UnixMicro(now))
			if r.err != nil {
				return driver.Grant{}, r.err
			}
			return driver.Grant{}, h
		case codeLost:
			return driver.Grant{}, r.lost()
		case codeLate:
			// The idea of the server's clock was wrong, or coarse: a promoted server
			// with a faster clock would refuse everything. It has been learnt now,
			// so the second answer is the true one.
			if attempt == 2 {
				return driver.Grant{}, errLate
			}
		case codeQuarantine, codeDisagree:
			return driver.Grant{}, b.quarantined(code, r)
		default:
			return driver.Grant{}, r.unknown(code)
		}
	}
}

// learnClock returns the clock of the server that has keys. It asks for the time
// there if a request with the deadline of ctx can't do without: the first one.
// Otherwise that one, delivered late, would be granted after its sender gave up.
func (b *backend) learnClock(ctx context.Context, key string, keys keys) (*clock, error) {
	clock := b.clockOf(ctx, keys)
	if _, ok := ctx.Deadline(); !ok || clock.known() {
		return clock, nil
	}
	if err := late(ctx); err != nil {
		return nil, err
	}
	_, err := b.inspect(ctx, key, 0)
	switch {
	case errors.Is(err, driver.ErrUnsupported) || errors.Is(err, driver.ErrInvalid) || errors.Is(err, driver.ErrRefused):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", driver.ErrRefused, err) // to ask is to do nothing
	}
	if clock = b.clockOf(ctx, keys); !clock.known() {
		return nil, fmt.Errorf("%w: the cluster is moving the key", driver.ErrRefused)
	}
	return clock, nil
}

// Renew implements driver.Backend.
func (b *backend) Renew(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	if err := driver.ValidateTTL("TTL", c.TTL, b.Traits()); err != nil {
		return driver.Grant{}, err
	}
	if err := validateFloor(c.Floor); err != nil {
		return driver.Grant{}, err
	}
	keys := b.names.of(c.Key)
	return b.durably(ctx, c, keys, func(on Evaluator) (driver.Grant, error) { return b.renew(ctx, on, c, keys) })
}

func (b *backend) renew(ctx context.Context, on Evaluator, c driver.Claim, keys keys) (driver.Grant, error) {
	sent := time.Now()
	r, err := runOn(ctx, on, renewScript, keys, c.ID, c.Grant.Token, milliseconds(c.TTL), c.Floor)
	if err != nil {
		return driver.Grant{}, err
	}
	code, now := r.int(), r.int()
	if r.err != nil {
		return driver.Grant{}, r.err
	}
	b.clockOf(ctx, keys).learn(sent, time.UnixMicro(now), false)
	switch code {
	case codeDone:
		g := c.Grant
		g.Token, g.TTL, g.Holder, g.Now = uint64(r.int()), wholeMilliseconds(c.TTL), c.ID, time.UnixMicro(now)
		g.Notice = r.notice()
		return g, r.err
	case codeLost:
		return driver.Grant{}, r.lost()
	}
	return driver.Grant{}, r.unknown(code)
}

// Release implements driver.Backend.
func (b *backend) Release(ctx context.Context, c driver.Claim) error {
	b.wakeup.forget(c.ID)
	keep := int64(0)
	if c.Keep > 0 {
		keep = milliseconds(c.Keep)
	}
	return b.settle(ctx, releaseScript, c.Key, c.ID, c.Grant.Token, keep)
}

// Revoke implements driver.Backend. A foreign holder, whose id is what stands
// in the store, can be forced out but not asked: that is ErrUnsupported.
func (b *backend) Revoke(ctx context.Context, key, id string, n driver.Notice) error {
	kind := "a"
	if n.Force {
		kind = "f"
	}
	return b.settle(ctx, revokeScript, key, id, kind, n.By, n.Why)
}

// settle runs a script that ends a claim.
func (b *backend) settle(ctx context.Context, s *script, key string, args ...any) error {
	keys := b.names.of(key)
	sent := time.Now()
	r, err := b.run(ctx, s, keys, args...)
	if err != nil {
		return err
	}
	code, now := r.int(), r.int()
	if r.err != nil {
		return r.err
	}
	b.clockOf(ctx, keys).learn(sent, time.UnixMicro(now), false)
	switch code {
	case codeDone:
		return nil
	case codeLost:
		return r.lost()
	case codeForeign:
		return fmt.Errorf("%w: the holder is a foreign client, which can't be asked", driver.ErrUnsupported)
	}
	return r.unknown(code)
}

// late reports a caller who has given up before anything was sent.
func late(ctx context.Context) error {
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		return errLate
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", driver.ErrRefused, context.Cause(ctx))
	}
	return nil
}

// milliseconds rounds up, so that a claim is never kept shorter than asked. d is
// positive.
func milliseconds(d time.Duration) int64 {
	return int64((d-1)/time.Millisecond) + 1
}

func wholeMilliseconds(d time.Duration) time.Duration {
	return time.Duration(milliseconds(d)) * time.Millisecond
}

func parseID(s string) (driver.ID, error) {
	id, ok := driver.ParseID(s)
	if !ok {
		return id, &driver.FieldError{Field: "ID", Why: fmt.Sprintf("%q is not one that an Identity draws", s)}
	}
	return id, nil
}

func validateFloor(floor uint64) error {
	if floor >= tokenLimit {
		return &driver.FieldError{Field: "Floor", Why: fmt.Sprintf("is %d: it must be below %d", floor, uint64(tokenLimit))}
	}
	return nil
}

// validatePrefix refuses what would part the keys of a lock, or mix locks up
// with the keys that keep their lines.
func validatePrefix(p string) error {
	invalid := func(why string) error {
		return &driver.FieldError{Field: "Prefix", Why: fmt.Sprintf("%q %s", p, why)}
	}
	before, rest, opened := strings.Cut(p, "{")
	tag, after, closed := strings.Cut(rest, "}")
	switch {
	case !utf8.ValidString(p):
		return invalid("is not UTF-8")
	case strings.HasPrefix(derived, p) || strings.HasPrefix(p, derived):
		return invalid("would mix locks with pawl's own keys, which begin with " + derived)
	case strings.Contains(before, "}"), opened && (!closed || tag == "" || strings.ContainsAny(tag+after, "{}")):
		return invalid("has braces that are not one hash tag, as in {tag}")
	}
	return nil
}
