package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawlock/pawl/driver"
)

// A Severity says how bad a [Finding] is.
type Severity int

// The severities.
const (
	Note  Severity = iota // worth knowing
	Risk                  // it works, and may fail in a way that locks exist to prevent
	Fault                 // it can't work
)

// String returns the severity in lower case.
func (s Severity) String() string {
	switch s {
	case Note:
		return "note"
	case Risk:
		return "risk"
	default:
		return "fault"
	}
}

// A Finding is something about a server that its users should know.
type Finding struct {
	ID       string // stable, for programs: one of those that Check lists
	Severity Severity
	What     string
	Do       string // what to do about it
}

// An UnfitError says that a server can't keep locks as it is set up.
// errors.Is(err, driver.ErrUnsupported) holds.
type UnfitError struct {
	Faults []Finding
}

// Error implements the error interface.
func (e *UnfitError) Error() string {
	var s []string
	for _, f := range e.Faults {
		s = append(s, f.What+": "+f.Do)
	}
	return "the server can't keep locks: " + strings.Join(s, "; ")
}

// Unwrap makes errors.Is(err, driver.ErrUnsupported) hold.
func (e *UnfitError) Unwrap() error { return driver.ErrUnsupported }

// Check tests whether the server of node is fit for backends with the options o,
// and returns what it finds, worst first, with an [*UnfitError] if that includes
// faults. Any other error means that the server could not be asked. It takes some
// six exchanges and one connection for a subscription, tries commands on keys of
// its own, which it removes, and needs no rights but those of a client; without
// the right to INFO it says what it can't tell. Of a cluster it asks one server.
//
// The findings are:
//
//	version     fault  older than Redis 7.0 and Valkey 7.2
//	role        fault  a replica
//	refuses     fault  the server takes no writes now
//	rights      fault  a command that the scripts need is denied
//	wakeups     risk   publishing or subscribing is denied, so that waiting is polling
//	list        note   scanning is denied, so that List is
//	info        risk   INFO is denied: a fault with a quarantine
//	eviction    risk   locks may be evicted: a note without a limit of memory
//	restart     risk   a restart or a failover may lose locks, without a quarantine
//	quarantine  risk   nothing is granted for now; others have one: a fault if they disagree
//	durability  fault  what Durability asks for can't be had
//	clock       risk   the server's clock is more than half a second from ours
func Check(ctx context.Context, node Node, o *Options) ([]Finding, error) {
	b, err := newBackend(node, o)
	if err != nil {
		return nil, err
	}
	c := &check{backend: b}
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	return c.report()
}

// A check is one run of Check.
type check struct {
	*backend
	found [Fault + 1][]Finding
}

func (c *check) find(s Severity, id, do, what string, args ...any) {
	c.found[s] = append(c.found[s], Finding{ID: id, Severity: s, What: fmt.Sprintf(what, args...), Do: do})
}

func (c *check) report() (all []Finding, err error) {
	for s := Fault; s >= Note; s-- {
		all = append(all, c.found[s]...)
	}
	if faults := c.found[Fault]; len(faults) > 0 {
		return all, &UnfitError{Faults: faults}
	}
	return all, nil
}

func (c *check) run(ctx context.Context) error {
	// Nobody uses the key, and several can be checked at once.
	keys := c.names.of("pawl.check." + rand.Text())
	f, err := c.facts(ctx, keys)
	if err != nil || f == nil {
		return err
	}
	if f.get("role") == "slave" {
		c.find(Fault, "role", "connect to its master", "it is a replica, of %s:%s", f.get("master_host"), f.get("master_port"))
		return nil
	}
	if err := c.commands(ctx, keys); err != nil {
		return err
	}
	if err := c.subscribing(ctx, keys); err != nil {
		return err
	}
	if err := c.scanning(ctx); err != nil {
		return err
	}
	c.settings(f)
	c.quarantining(f)
	return c.waiting(ctx, keys, f)
}

// What a server says of itself.
type facts struct {
	now    time.Time
	off    time.Duration // how far its clock is from ours, at least; negative if behind
	marker string
	info   string // "" if it does not say
}

// get returns a field of INFO, "" if it is not there.
func (f *facts) get(name string) string {
	for line := range strings.Lines(f.info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// number returns a field of INFO, 0 if it is not there.
func (f *facts) number(name string) int64 {
	n, _ := strconv.ParseInt(f.get(name), 10, 64)
	return n
}

// facts asks the server. It returns nil if that was denied, which is a finding.
func (c *check) facts(ctx context.Context, k keys) (*facts, error) {
	at := keys{node: k.lock} // has no marker
	if !c.sharded {
		at.node = c.names.node()
	}
	sent := time.Now()
	r, err := c.backend.run(ctx, factsScript, at, "server memory replication persistence cluster")
	answered := time.Now()
	if c.denied(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := &facts{now: time.UnixMicro(r.int()), marker: r.string(), info: r.string()}
	switch {
	case f.now.UnixMicro() == 0: // it may not be known
	case f.now.After(answered):
		f.off = f.now.Sub(answered)
	case f.now.Before(sent):
		f.off = f.now.Sub(sent)
	}
	return f, r.err
}

// denied notes what the server says to a script if that is final, and reports
// whether it was.
func (c *check) denied(err error) bool {
	switch {
	case err == nil:
		return false
	case code(err) == "NOPERM":
		c.find(Fault, "rights", "give the user the rights in docs/protocol.md", "the user may not run the scripts (%v)", err)
	case errors.Is(err, driver.ErrUnsupported):
		c.find(Fault, "version", "use Redis 7.0 or Valkey 7.2, or later", "%v", err)
	case errors.Is(err, driver.ErrRefused) && code(err) != "":
		c.find(Fault, "refuses", "see what the server says", "it takes no writes now (%v)", err)
	default:
		return false
	}
	return true
}

// commands tries what the scripts use.
func (c *check) commands(ctx context.Context, k keys) error {
	publish := "PUBLISH"
	if c.sharded {
		publish = "SPUBLISH"
	}
	r, err := c.backend.run(ctx, checkScript, k, c.channel("check", k), publish)
	if c.denied(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for r.more() {
		name, why := r.string(), r.string()
		if name == strings.ToLower(publish) {
			c.find(Risk, "wakeups", "give the user +"+name+" and the channels of docs/protocol.md", "those who wait are not woken, and poll: %s fails (%s)", name, why)
			continue
		}
		c.find(Fault, "rights", "give the user the rights in docs/protocol.md", "%s fails (%s)", name, why)
	}
	return r.err
}

// subscribing tries to listen to a wake channel.
func (c *check) subscribing(ctx context.Context, k keys) error {
	channel := c.channel("check", k)
	home, err := c.node.Home(ctx, channel)
	if err != nil {
		return err
	}
	s, err := c.node.Subscribe(ctx, home, channel)
	if err == nil {
		defer s.Close()
		for m := (Message{}); err == nil && !m.Confirmed; {
			m, err = s.Receive(ctx)
		}
	}
	if err != nil && code(err) == "" {
		return fmt.Errorf("subscribe: %w", err)
	}
	if err != nil {
		c.find(Risk, "wakeups", "give the user +subscribe and the channels of docs/protocol.md", "those who wait are not woken, and poll: subscribing fails (%v)", err)
	}
	return nil
}

// scanning tries what List does, until the first name comes or a second is over:
// nobody wants to see all of a large store.
func (c *check) scanning(ctx context.Context) error {
	brief, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for _, err := range c.node.Scan(brief, "*") {
		switch {
		case err == nil, brief.Err() != nil && ctx.Err() == nil:
		case code(err) == "":
			return fmt.Errorf("scan: %w", err)
		default:
			c.find(Note, "list", "give the user +scan if somebody is to list locks", "locks can't be listed (%v)", err)
		}
		break
	}
	return nil
}
