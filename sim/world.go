// Package sim runs the quorum protocol of pawl in a world of its own, where time
// passes by events, messages are lost, delayed and delivered twice, servers
// forget and clocks are set, all by the throw of one seed, and checks every run
// for the properties that the protocol promises.
//
// The clients take their decisions with the very code that the quorum backend
// takes them with, package ballot. The nodes are a model of what the Redis
// scripts do; a test holds the model to a real server.
//
// A run is a function of its configuration: one that fails is run again with a
// trace.
package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// A Config is one world.
type Config struct {
	Seed    uint64
	Nodes   int           // of the quorum. Default 3 or 5, by the seed
	Clients int           // that want the key. Default 4
	For     time.Duration // how long they go on. Default 12s
	Faults  Faults
	Mutant  Mutant
	Trace   bool // keep what happens, for Report.Trace
}

// Faults are what may go wrong in a world.
type Faults struct {
	Loss, Duplicates float64       // shares of the messages
	Slow             float64       // share of the messages that take up to MaxDelay
	MaxDelay         time.Duration // default 2.7s
	Pauses           bool          // clients stop, and go on where they were
	Partitions       bool          // clients are cut off from a changing minority
	Restarts         bool          // servers come back empty or from an old snapshot, or are flushed
	Together         bool          // several of them at once
	ClientSkew       time.Duration // how far a client's wall clock may be off
	NodeSkew         time.Duration // how far apart two nodes' clocks may be
	NodeSteps        bool          // nodes' clocks are set: leases end early there
	Suspends         bool          // clients' clocks stop with them
	Poison           bool          // one client proposes absurd tokens
	NoWall           bool          // no clock helps with the tokens: counters alone
}

// Sound reports whether the clocks are such that leases never overlap.
func (f Faults) Sound() bool { return !f.NodeSteps && !f.Suspends }

// A Report is what came of a run.
type Report struct {
	Config     Config
	Acquired   int // leases that were had
	Fast       int // in one round
	Attempts   int
	Writes     int // that the resource accepted
	Rejected   int // and that it did not
	Events     int
	Violations []Violation
	Trace      []string
}

// A Violation is a property that did not hold.
type Violation struct {
	Property string // P1 to P8
	What     string
}

// String implements fmt.Stringer.
func (v Violation) String() string { return v.Property + ": " + v.What }

// The properties, as docs/redlock.md states them.
const (
	P1 = "P1" // no two leases have the same token
	P2 = "P2" // a lease had before another was asked for has the smaller token
	P3 = "P3" // so has one that came first at any node that stands for both tokens, or was had first while clocks are sound
	P4 = "P4" // no two leases are valid at the same time
	P5 = "P5" // the tokens that a resource accepts never fall, and each is one holder's
	P6 = "P6" // a lease that was lost is never valid again
	P7 = "P7" // what is about one hold never touches another, and never makes one
	P8 = "P8" // no node has granted a token above its counter
)

// A world is the nodes, the clients, the resource and the network.
type world struct {
	queue
	cfg      Config
	mutant   *Mutant
	rand     *rand.Rand
	hosts    []*host
	clients  []*client
	resource resource
	report   *Report
	leases   []*lease
	runs     int         // servers started
	manual   bool        // messages wait for deliver
	wire     []*message  // those that wait; manual only
	cut      map[int]int // client to the node it is cut off from, one more than its number
}

// Run runs a world and reports what came of it.
func Run(cfg Config) *Report {
	w := newWorld(cfg)
	w.populate()
	w.run(w.cfg.For + quiet)
	w.check()
	return w.report
}

func newWorld(cfg Config) *world {
	r := rand.New(rand.NewPCG(cfg.Seed, 0x5eed))
	if cfg.Nodes == 0 {
		cfg.Nodes = 3 + 2*r.IntN(2)
	}
	if cfg.Clients == 0 {
		cfg.Clients = 4
	}
	if cfg.For == 0 {
		cfg.For = 12 * time.Second
	}
	if cfg.Faults.MaxDelay == 0 {
		cfg.Faults.MaxDelay = 2700 * time.Millisecond
	}
	w := &world{cfg: cfg, mutant: &cfg.Mutant, rand: r, report: &Report{Config: cfg}, cut: make(map[int]int)}
	for i := range cfg.Nodes {
		w.runs++
		h := &host{world: w, number: i, offset: w.spread(cfg.Faults.NodeSkew / 2)}
		h.Node = newNode(w.runs, h.clock())
		if cfg.Faults.NoWall {
			h.fence = fence{known: true, counter: 1 + r.Uint64N(50), run: w.runs}
		}
		w.hosts = append(w.hosts, h)
	}
	for i := range cfg.Clients {
		w.clients = append(w.clients, newClient(w, i))
	}
	return w
}

// spread returns a time from -d to d.
func (w *world) spread(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(w.rand.Int64N(int64(2*d))) - d
}

// upTo returns a time from 0 to d.
func (w *world) upTo(d time.Duration) time.Duration {
	return time.Duration(w.rand.Int64N(int64(d) + 1))
}

func (w *world) chance(p float64) bool { return p > 0 && w.rand.Float64() < p }

// tell adds a line to the trace.
func (w *world) tell(who, format string, args ...any) {
	if w.cfg.Trace {
		w.report.Trace = append(w.report.Trace, fmt.Sprintf("%10.6fs  %-4s %s", w.now.Seconds(), who, fmt.Sprintf(format, args...)))
	}
}

func (w *world) violate(property, format string, args ...any) {
	v := Violation{property, fmt.Sprintf(format, args...)}
	w.report.Violations = append(w.report.Violations, v)
	w.tell("!!!!", "%v", v)
}

// Failed returns a text that says how a run went wrong and how to run it again,
// or "" if it went well.
func (r *Report) Failed() string {
	if len(r.Violations) == 0 {
		return ""
	}
	var s strings.Builder
	fmt.Fprintf(&s, "seed %d, %d nodes, %d clients, faults %+v:\n", r.Config.Seed, r.Config.Nodes, r.Config.Clients, r.Config.Faults)
	for i, v := range r.Violations {
		if i == 5 {
			fmt.Fprintf(&s, "\t… and %d more\n", len(r.Violations)-5)
			break
		}
		fmt.Fprintf(&s, "\t%v\n", v)
	}
	for _, line := range r.Trace {
		s.WriteString(line + "\n")
	}
	return s.String()
}

// Story returns the trace as a text.
func (r *Report) Story() string { return strings.Join(r.Trace, "\n") }
