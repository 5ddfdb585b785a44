package redis

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pawlock/pawl/driver"
)

// A Quarantine guards a store whose server may lose what it has granted: because
// it was restarted empty or from an old snapshot, because a replica without the
// lock was promoted, because somebody flushed it. The server's run ID tells, and
// a marker in the store that goes with it. A server that is not the one of the
// marker, or has none, grants nothing until every lease of before has ended;
// those who hold something that has survived go on renewing and releasing. An
// Acquire is told a [*QuarantineError] meanwhile.
//
// All clients of a store have to have the same Quarantine. A store that has
// never been used begins with a quarantine too, unless [Bootstrap] says that
// nobody can hold anything.
//
// It takes the right to run INFO, and about ten microseconds of the server for
// each Acquire. The end of the quarantine is on the server's wall clock: a step
// forward ends it early. Holders that know nothing of pawl have to keep to
// MaxTTL by themselves, and a claim that is released with a longer Keep may end
// with a restart.
//
// A cluster has no marker, since each key would need its own: there the
// Quarantine only lets the tokens of a key leap when its server has changed,
// and nothing is refused.
type Quarantine struct {
	// MaxTTL is the longest TTL that anybody may ask for: longer ones are
	// ErrInvalid. It is also how long a restarted server grants nothing.
	MaxTTL time.Duration

	// Slack is added to MaxTTL. After a failover it has to cover how long a
	// master that was cut off goes on accepting writes: with
	// min-replicas-to-write set, min-replicas-max-lag and a second more.
	// Default 1s.
	Slack time.Duration

	// Config is what else the clients of the store have to agree on: for the
	// node of a quorum, the names of all nodes in order, say. The store keeps
	// it, and clients with another are refused. Default "".
	Config string
}

const (
	defaultSlack    = time.Second
	leastQuarantine = 2 * time.Second // acquire.lua and bootstrap.lua have it too
)

// A QuarantineError says that the server may have forgotten what it has granted,
// and grants nothing until that has ended. errors.Is(err, driver.ErrRefused)
// holds: nothing was done.
type QuarantineError struct {
	Left time.Duration // until the server grants again
}

// Error implements the error interface.
func (e *QuarantineError) Error() string {
	return fmt.Sprintf("in quarantine for %v more: the server is new, was restarted, failed over or flushed, and may have forgotten leases", e.Left)
}

// Unwrap makes errors.Is(err, driver.ErrRefused) hold.
func (e *QuarantineError) Unwrap() error { return driver.ErrRefused }

// A DisagreementError says that other clients of the store have another
// [Quarantine], so that neither can rely on it. errors.Is(err, driver.ErrInvalid)
// holds. To change it, stop all clients, wait for the longer MaxTTL, and call
// [Bootstrap] with the new one.
type DisagreementError struct {
	Theirs, Ours Quarantine
}

// Error implements the error interface.
func (e *DisagreementError) Error() string {
	var differ []string
	if e.Theirs.MaxTTL != e.Ours.MaxTTL {
		differ = append(differ, fmt.Sprintf("MaxTTL is %v, theirs %v", e.Ours.MaxTTL, e.Theirs.MaxTTL))
	}
	if e.Theirs.Slack != e.Ours.Slack {
		differ = append(differ, fmt.Sprintf("Slack is %v, theirs %v", e.Ours.Slack, e.Theirs.Slack))
	}
	if e.Theirs.Config != e.Ours.Config {
		differ = append(differ, fmt.Sprintf("Config is %q, theirs %q", e.Ours.Config, e.Theirs.Config))
	}
	return "other clients of the store have another Quarantine: " + strings.Join(differ, ", ")
}

// Unwrap makes errors.Is(err, driver.ErrInvalid) hold.
func (e *DisagreementError) Unwrap() error { return driver.ErrInvalid }

// Bootstrap tells the store of node that nobody can hold anything in it, so that
// it grants at once: the caller has to know. It is for the first start of a
// store, and for a change of the [Quarantine], which replaces the old one. On a
// store in which somebody does hold something it lets another have it as well.
//
// A node that is a cluster is [driver.ErrUnsupported].
func Bootstrap(ctx context.Context, node Node, o *Options) error {
	b, err := newBackend(node, o)
	switch {
	case err != nil:
		return err
	case b.quarantine == nil:
		return &driver.FieldError{Field: "Quarantine", Why: "is nil: without one there is nothing to begin"}
	case b.sharded:
		return fmt.Errorf("%w: a cluster has no quarantine to begin without", driver.ErrUnsupported)
	}
	r, err := b.run(ctx, bootstrapScript, keys{node: b.names.node()}, b.quarantine.args()...)
	if err != nil {
		return err
	}
	r.int()
	return r.err
}

// validate returns q with its defaults, or a *driver.FieldError.
func (q *Quarantine) validate(t driver.Traits) (*Quarantine, error) {
	v := *q
	if v.Slack == 0 {
		v.Slack = defaultSlack
	}
	switch err := driver.ValidateTTL("Quarantine.MaxTTL", v.MaxTTL, t); {
	case err != nil:
		return nil, err
	case v.Slack < 0 || v.Slack > t.MaxTTL:
		return nil, &driver.FieldError{Field: "Quarantine.Slack", Why: fmt.Sprintf("is %v: it must be 0 to %v", v.Slack, t.MaxTTL)}
	case strings.ContainsAny(v.Config, "\n\r"):
		return nil, &driver.FieldError{Field: "Quarantine.Config", Why: fmt.Sprintf("%q has a new line", v.Config)}
	}
	// The script knows milliseconds.
	v.MaxTTL = v.MaxTTL.Truncate(time.Millisecond)
	v.Slack = wholeMilliseconds(v.Slack)
	return &v, nil
}

// marker returns the name of the marker, "" on a cluster.
func (b *backend) marker() string {
	if b.sharded {
		return ""
	}
	return b.names.node()
}

// quarantined reads why there was no grant.
func (b *backend) quarantined(code int64, r *reply) error {
	var err error
	if code == codeDisagree {
		err = &DisagreementError{Theirs: parseTerms(r.string()), Ours: *b.quarantine}
	} else {
		err = &QuarantineError{Left: time.Duration(r.int()) * time.Millisecond}
	}
	return cmp.Or(r.err, err)
}

// args are the arguments of the scripts that say what q is.
func (q *Quarantine) args() []any {
	return []any{q.MaxTTL.Milliseconds(), q.Slack.Milliseconds(), q.Config}
}

// parseTerms reads what a marker says of the Quarantine of those who made it.
func parseTerms(s string) (q Quarantine) {
	f := append(strings.SplitN(s, " ", 3), "", "")
	q.MaxTTL, q.Slack, q.Config = wireDuration(f[0]), wireDuration(f[1]), f[2]
	return q
}

func wireDuration(s string) time.Duration {
	ms, err := strconv.ParseInt(s, 10, 64)
	if err != nil || ms < 0 || ms > math.MaxInt64/int64(time.Millisecond) {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}
