// Package quorum keeps locks on a majority of independent stores, its nodes, so
// that no one of them has to be up. Over Redis servers this is Redlock, with what
// Redlock lacks: fencing tokens that rise, and an answer that no dead or frozen
// node can delay.
//
// All nodes are asked at once and the answer is given as soon as a majority
// decides. Nothing is called off then: a node that grants late is kept with the
// others, and one that grants when it is not wanted any more is released.
// docs/redlock.md has the algorithm, why it is sound, and what it takes.
//
// What a quorum does not give: an order among those who wait, and shares. A
// claim that is not exclusive is [driver.ErrUnsupported]: majorities of two
// readers need not count each other.
package quorum

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/ballot"
)

// A Node is one of the stores of a quorum.
type Node struct {
	// Name tells the node from the others, in errors and to all clients: those
	// that share locks have to give all nodes the same names.
	Name string

	// Backend keeps the node's locks. It must be Fencing. The quorum does not
	// close it.
	Backend driver.Backend

	// Probe asks the server for what makes it fit or unfit to be a node. It is
	// called with the hash of the quorum's configuration, which the server
	// should keep if it has none yet: before the node's first vote, after it
	// did not answer, and every minute while it is used. Nil: nothing is
	// checked. For Redis it is goredis.Probe.
	Probe func(ctx context.Context, config string) (Facts, error)
}

// Facts are what a server says of itself.
type Facts = driver.Facts

// Options are the settings of a quorum. The zero value of a field, and nil, mean
// the default that the field names.
type Options struct {
	// MaxTTL is the longest TTL that any client may ask for. It has to be the
	// same for all clients, and no longer than the restart quarantine of the
	// nodes: so long a restarted node must not grant. Default a minute, or the
	// least MaxTTL of the nodes if that is less.
	MaxTTL time.Duration

	// Timeout bounds how long a node is waited for in one exchange. It is cut
	// to a third of the TTL. Default a tenth of the TTL, at least 50ms and at
	// most 1s.
	Timeout time.Duration

	// MaxSkew is how far the clock of a node may be from the middle of those of
	// all nodes. One that is further away does not vote for new locks. Default
	// 500ms.
	MaxSkew time.Duration

	// AnySize allows fewer than three nodes, and an even number of them: more
	// nodes that can fail, and no more that may.
	AnySize bool

	// Observer is told what the nodes do. Default none.
	Observer *Observer
}

// defaultMaxTTL is also the outage after a restart of a majority: the longer the
// TTL, the longer a node that has lost its memory has to be silent.
const defaultMaxTTL = time.Minute

// closeTimeout bounds how long Close waits for what is under way.
const closeTimeout = 2 * time.Second

// probeTimeout bounds how long New waits for the nodes.
const probeTimeout = time.Second

// A Backend is a quorum. All methods may be called concurrently.
type Backend struct {
	seats  []*seat
	opts   Options
	traits driver.Traits
	config string // hash of what all clients have to agree on
	order  []int  // the nodes by name
	epoch  time.Time
	nonces atomic.Uint64
	book   book
	crew   *crew
	seen   lastSeen
	server servers
	steps  steps
}

// New returns a quorum of nodes. It asks those that have a Probe, all at once,
// for up to a second. A node that can't be reached is no error, now or later, as
// long as a majority can; one that is found unfit is: the same server under two
// names, a replica, a part of a cluster, a server that keeps the configuration
// of other clients. Such a node that was down during New has no vote later.
func New(nodes []Node, opts *Options) (*Backend, error) {
	b := &Backend{epoch: time.Now(), crew: newCrew()}
	if opts != nil {
		b.opts = *opts
	}
	if b.opts.Observer == nil {
		b.opts.Observer = new(Observer)
	}
	if b.opts.MaxSkew == 0 {
		b.opts.MaxSkew = 500 * time.Millisecond
	}
	if err := b.seat(nodes); err != nil {
		return nil, err
	}
	if err := b.promise(); err != nil {
		return nil, err
	}
	b.config = configuration(nodes, b.traits.MaxTTL)
	b.order = make([]int, len(nodes))
	for i := range b.order {
		b.order[i] = i
	}
	slices.SortFunc(b.order, func(i, j int) int { return strings.Compare(nodes[i].Name, nodes[j].Name) })
	b.nonces.Store(rand.Uint64() >> 24) // so that no two backends number an ID's attempts alike
	return b, b.probeAll()
}

// seat gives each node its seat.
func (b *Backend) seat(nodes []Node) error {
	invalid := func(format string, args ...any) error {
		return &driver.FieldError{Field: "Nodes", Why: fmt.Sprintf(format, args...)}
	}
	switch n := len(nodes); {
	case n == 0:
		return invalid("are none")
	case b.opts.AnySize:
	case n < 3:
		return invalid("are %d: with fewer than 3 the quorum fails as soon as one of them does (AnySize allows it)", n)
	case n%2 == 0:
		return invalid("are %d: the last one adds a node that can fail and none that may, use %d or %d (AnySize allows it)", n, n-1, n+1)
	}
	for i, n := range nodes {
		switch {
		case n.Name == "":
			return invalid("have no name for number %d", i)
		case strings.ContainsAny(n.Name, ",\n"):
			return invalid("have the name %q, with a comma or a new line", n.Name)
		case n.Backend == nil:
			return invalid("have no backend for %s", n.Name)
		case !n.Backend.Traits().Fencing:
			return invalid("have one without fencing tokens, %s", n.Name)
		case slices.ContainsFunc(nodes[:i], func(o Node) bool { return o.Name == n.Name }):
			return invalid("have the name %s twice: each vote has to come from a server of its own", n.Name)
		}
		b.seats = append(b.seats, &seat{quorum: b, index: i, Node: n})
	}
	return nil
}

// promise works out what the nodes can keep together.
func (b *Backend) promise() error {
	t := driver.Traits{Name: "quorum", Fencing: true, Durable: true, MaxTTL: b.opts.MaxTTL}
	if t.MaxTTL == 0 {
		t.MaxTTL = defaultMaxTTL
	}
	for _, s := range b.seats {
		n := s.Backend.Traits()
		t.Durable = t.Durable && n.Durable
		t.MinTTL = max(t.MinTTL, n.MinTTL)
		switch {
		case n.MaxTTL == 0:
		case b.opts.MaxTTL == 0:
			t.MaxTTL = min(t.MaxTTL, n.MaxTTL)
		case n.MaxTTL < t.MaxTTL:
			return &driver.FieldError{Field: "MaxTTL", Why: fmt.Sprintf("is %v: node %s keeps no more than %v", t.MaxTTL, s.Name, n.MaxTTL)}
		}
	}
	t.MinTTL = max(t.MinTTL, minTTL)
	b.traits = t
	switch {
	case t.MaxTTL < t.MinTTL:
		return &driver.FieldError{Field: "MaxTTL", Why: fmt.Sprintf("is %v: the nodes keep no less than %v", t.MaxTTL, t.MinTTL)}
	case b.opts.Timeout < 0:
		return &driver.FieldError{Field: "Timeout", Why: fmt.Sprintf("is %v: it must be positive", b.opts.Timeout)}
	case b.opts.MaxSkew < 0:
		return &driver.FieldError{Field: "MaxSkew", Why: fmt.Sprintf("is %v: it must be positive", b.opts.MaxSkew)}
	}
	return nil
}

// minTTL leaves the nodes a moment to answer in, which is never more than a third
// of the TTL.
const minTTL = 150 * time.Millisecond

// configuration is a hash of what all clients of a quorum have to agree on.
func configuration(nodes []Node, maxTTL time.Duration) string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	slices.Sort(names)
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\n%d", strings.Join(names, ","), maxTTL)
	return fmt.Sprintf("%016x", h.Sum64())
}

// Traits implements driver.Backend.
func (b *Backend) Traits() driver.Traits { return b.traits }

// Config returns the hash of what all clients of the quorum have to agree on:
// the names of the nodes and the longest TTL.
func (b *Backend) Config() string { return b.config }

// Close implements driver.Backend. It waits for up to two seconds for releases of
// claims that nobody wants any more, and for no other answer of a node. Claims
// that are held stay with their TTL, and the nodes' backends open.
func (b *Backend) Close() error {
	b.crew.close(closeTimeout)
	return nil
}

// now returns the time on the clock that is never set back.
func (b *Backend) now() time.Duration { return time.Since(b.epoch) }

// majority returns how many nodes decide.
func (b *Backend) majority() int { return ballot.Majority(len(b.seats)) }

// timeout returns how long a node is waited for that is asked about a claim of
// this TTL.
func (b *Backend) timeout(ttl time.Duration) time.Duration {
	d := b.opts.Timeout
	if d == 0 {
		d = min(max(ttl/10, 50*time.Millisecond), time.Second)
	}
	return min(d, ttl/3)
}
