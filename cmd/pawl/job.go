package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
	"github.com/pawlock/pawl/cmd/pawl/internal/proc"
)

// A job is a command that runs under a lock.
type job struct {
	program    *program
	path       string
	argv       []string
	newGroup   bool
	timing     timing
	maxRuntime time.Duration
	leftovers  string
	killSignal syscall.Signal
	onLost     string         // kill, signal or ignore
	lostSignal syscall.Signal // for onLost signal
	okSignals  []syscall.Signal
	forward    []os.Signal
	scrub      bool // keep passwords from the command
	status     *os.File
	events     *events // nil without a status

	hold     *hold
	tree     *proc.Tree
	signals  <-chan os.Signal
	suspends <-chan os.Signal

	renewed  sync.Map    // key to time.Time: the last sign that the lock was ours
	stopping atomic.Bool // the lock is lost, and the release no news
	over     atomic.Bool // the command has ended: it is not going to be stopped
	tolerant toleration
}

// observer tells the job about its renewals. Its funcs are called while the
// lease is locked, and so only note and print.
func (j *job) observer() *pawl.Observer {
	o := &pawl.Observer{
		Renewed: func(l *pawl.Lease, took, left time.Duration) {
			j.sign(l.Key(), took)
			if j.program.verbose {
				j.program.note("renewed %s in %s, %s were left", plain.Quote(l.Key()), plain.Duration(took), plain.Duration(left))
			}
		},
		RenewFailed: func(l *pawl.Lease, err error, left time.Duration) {
			if j.stopping.Load() || j.over.Load() {
				return
			}
			j.program.note("could not renew %s for %s (%s); %s left, will stop the command at %s left", plain.Quote(l.Key()),
				plain.Duration(j.sinceRenewed(l)), plain.Text(reason(err)), plain.Duration(left), plain.Duration(j.timing.killAfter))
		},
	}
	j.events.observe(o)
	return o
}

// sign notes that the lock key was ours so long ago.
func (j *job) sign(key string, ago time.Duration) { j.renewed.Store(key, time.Now().Add(-ago)) }

func (j *job) sinceRenewed(l *pawl.Lease) time.Duration {
	at, ok := j.renewed.Load(l.Key())
	if !ok {
		return 0
	}
	return time.Since(at.(time.Time))
}

// confirmTimeout bounds the question whether the lock was ours to the end.
const confirmTimeout = time.Second

// run runs the command and releases the lock. Its error is how the command
// ended, or what it was stopped for.
func (j *job) run(h *hold, signals <-chan os.Signal) error {
	j.hold, j.signals = h, signals
	j.suspends = proc.CatchSuspend() // before there is anything that would go on without us
	if err := j.refresh(); err != nil {
		return err
	}
	var stop stopSignal
	if errors.As(pending(signals), &stop) {
		j.release()
		return death(stop)
	}
	restore := proc.SaveTerminal()
	tree, err := proc.Start(proc.Command{Path: j.path, Args: j.argv, Env: j.environment(), NewGroup: j.newGroup})
	if err != nil {
		j.release()
		return notStarted(err)
	}
	j.tree = tree
	j.events.tell(event{Event: "started", PID: tree.PID(), Fence: h.first().Token()})
	err = j.attend()
	if tree.Exit().Signal == syscall.SIGKILL {
		restore() // it had no time to do so itself
	}
	return err
}

// attend passes signals on, and watches the lease, until the command has ended
// and the lock is released.
func (j *job) attend() error {
	lease, tree := j.hold, j.tree
	relay := proc.Relay{Tree: tree, Typed: !j.newGroup && proc.Terminal()}
	runtime := newAlarm(j.maxRuntime)
	defer runtime.Stop()
	watch := time.NewTimer(0)
	defer watch.Stop()
	lost := lease.Context().Done()
	asked := false // somebody has asked the command to stop
	for {
		select {
		case s := <-j.signals:
			relay.Pass(s)
			asked = asked || proc.Stops(s)
		case <-j.suspends:
			if j.suspend(relay.Typed); !j.mayGoOn() {
				return j.lost()
			}
		case <-tree.Done():
			return j.ended(asked || j.interrupted(relay.Typed))
		case <-runtime.C:
			return j.overran()
		case <-lost:
			if lost = nil; !j.mayGoOn() {
				return j.lost()
			}
		case <-watch.C:
			// Read from the clock each time: a timer is late when the process
			// was stopped, or the machine asleep.
			if !j.mayGoOn() {
				return j.lost()
			}
			next := time.Second
			if left := time.Until(lease.Deadline()) - j.timing.killAfter; left > 0 { // else it is tolerated
				next = min(next, max(time.Millisecond, left))
			}
			watch.Reset(next)
		}
	}
}

// interrupted reports whether the command, which has ended, was told to by a
// signal that has come to its notice sooner than to ours.
func (j *job) interrupted(typed bool) bool {
	exit := j.tree.Exit()
	return pending(j.signals) != nil || typed && (exit.Signal == syscall.SIGINT || exit.Signal == syscall.SIGQUIT)
}

// refresh renews a lease of which a slow store has left little, lest the command
// be stopped as soon as it is started.
func (j *job) refresh() error {
	lease, t := j.hold, j.timing
	for _, l := range lease.leases {
		j.sign(l.Key(), j.hold.ttl()-time.Until(l.Deadline()))
	}
	if lease.Check(t.killAfter+t.renewEvery) == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := lease.Renew(ctx)
	if lease.Check(t.killAfter) == nil {
		return nil
	}
	j.stopping.Store(true)
	j.release()
	why := "it answers too slowly for a --ttl of " + plain.Duration(j.hold.ttl())
	if err != nil {
		why = plain.Text(reason(err))
	}
	return fail(exitUnreachable, "got %s, but could not keep it: %s: %s. The command was not run", j.names(), j.hold.store.name, why)
}

// newAlarm returns a timer that never fires if d is 0.
func newAlarm(d time.Duration) *time.Timer {
	if d == 0 {
		d = forever
	}
	return time.NewTimer(d)
}

// environment is what the command gets: ours, with the lock's identity in place
// of an outer one's.
func (j *job) environment() []string {
	lease := j.hold.first()
	locks, _ := json.Marshal(append(outerLocks(), j.hold.outer()...)) // strings and numbers: it can't fail
	own := []string{
		"PAWL_LOCK=" + lease.Key(),
		"PAWL_MODE=" + mode(lease),
		"PAWL_FENCE=" + strconv.FormatUint(lease.Token(), 10),
		"PAWL_HOLDER=" + lease.Holder(),
		"PAWL_TTL_MS=" + strconv.FormatInt(j.hold.ttl().Milliseconds(), 10),
		"PAWL_BACKEND=" + j.hold.store.name,
		"PAWL_LOCKS=" + string(locks),
	}
	drop := []string{}
	if j.scrub {
		drop = append(drop, secrets...)
		if os.Getenv("PAWL_URL") != "" {
			own = append(own, "PAWL_URL="+j.hold.store.name)
		}
	}
	for _, entry := range own {
		name, _, _ := strings.Cut(entry, "=")
		drop = append(drop, name)
	}
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(drop, name)
	})
	return append(env, own...)
}

// ended is for a command that has ended by itself.
func (j *job) ended(asked bool) error {
	exit := j.tree.Exit()
	j.over.Store(j.tree.Empty())
	j.tellExit()
	if j.hold.Check(0) != nil {
		if j.onLost == "kill" {
			j.tellSurvivors(j.tree.Stop(j.killSignal, proc.Now()))
		}
		return j.lostAtEnd()
	}
	if !j.tree.Empty() {
		switch {
		case asked, j.leftovers == "kill":
			j.tellSurvivors(j.tree.Stop(j.killSignal, j.killBy(time.Now().Add(j.timing.killAfter))))
		case j.leftovers == "wait":
			if err := j.waitForLeftovers(); err != nil {
				return err
			}
		default:
			j.tellLeftovers()
		}
	}
	// A release does not tell a key that was deleted from one that it has
	// deleted itself; a renewal does.
	confirm, cancel := context.WithTimeout(context.Background(), confirmTimeout)
	defer cancel()
	if errors.Is(j.hold.Renew(confirm), pawl.ErrLost) || j.release() {
		return j.lostAtEnd()
	}
	return j.result(exit)
}

// result is how the command ended.
func (j *job) result(e proc.Exit) error {
	asked := slices.ContainsFunc(j.okSignals, func(s syscall.Signal) bool { return e.Code == 128+int(s) })
	if e.Code == 0 || asked {
		return nil
	}
	return &failure{code: e.Code, death: &e}
}

// tellExit is the event that the command has ended.
func (j *job) tellExit() {
	if exit, ok := j.tree.Ended(); ok {
		j.events.tell(event{Event: "child_exit", Code: &exit.Code, Signal: int(exit.Signal)})
	}
}

// killBy returns when to KILL: at the time given, or before the lease ends.
func (j *job) killBy(t time.Time) <-chan time.Time {
	if end := j.hold.Deadline().Add(-j.timing.margin); end.Before(t) {
		t = end
	}
	return time.After(time.Until(t))
}

// overran is for a command that took longer than --max-runtime.
func (j *job) overran() error {
	kill := j.killBy(time.Now().Add(j.timing.killAfter))
	stopped := j.stop(kill)
	j.program.say("%s ran longer than --max-runtime %s: %s sent, KILL in %s", j.name(), plain.Duration(j.maxRuntime), signalName(j.killSignal), plain.Duration(j.timing.killAfter))
	j.tellSurvivors(<-stopped)
	j.tellExit()
	if j.release() {
		return j.lostAtEnd()
	}
	return &failure{code: exitMaxRuntime}
}

// stop begins to stop the tree. It is under way before anything is printed: a
// standard error that nobody reads must not delay it.
func (j *job) stop(kill <-chan time.Time) <-chan []proc.Process {
	stopped := make(chan []proc.Process, 1)
	go func() { stopped <- j.tree.Stop(j.killSignal, kill) }()
	return stopped
}

// waitForLeftovers waits until the tree is empty, or is stopped because
// somebody asked for that or the lock is lost.
func (j *job) waitForLeftovers() error {
	j.tellLeftovers()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !j.tree.Empty() {
		select {
		case s := <-j.signals:
			if proc.Stops(s) {
				j.tellSurvivors(j.tree.Stop(j.killSignal, j.killBy(time.Now().Add(j.timing.killAfter))))
			}
		case <-tick.C:
			if !j.mayGoOn() {
				return j.lost()
			}
		}
	}
	return nil
}

func (j *job) tellLeftovers() {
	left := j.tree.Processes()
	if len(left) == 0 {
		return
	}
	verb, what := "still run", "the lock is released anyway"
	if len(left) == 1 {
		verb = "still runs"
	}
	if j.leftovers == "wait" {
		what = "waiting for the end"
	}
	j.program.note("note: %s started by the command %s (%s); %s (--leftovers=%s)",
		plain.Count(len(left), "process", "processes"), verb, listed(left), what, j.leftovers)
}

func (j *job) tellSurvivors(left []proc.Process) {
	if len(left) > 0 {
		j.program.say("%s could not be stopped: %s", plain.Count(len(left), "process", "processes"), listed(left))
	}
}

// names returns the names of the locks, to print.
func (j *job) names() string {
	keys := make([]string, len(j.hold.leases))
	for i, l := range j.hold.leases {
		keys[i] = l.Key()
	}
	return quoted(keys)
}

// name returns the name of the command, to print.
func (j *job) name() string { return plain.Text(commandName(j.argv[0])) }

func signalName(s syscall.Signal) string {
	if name, ok := strings.CutPrefix(unix.SignalName(s), "SIG"); ok {
		return name
	}
	return "signal " + strconv.Itoa(int(s))
}

func listed(list []proc.Process) string {
	const most = 5
	var parts []string
	for i, p := range list {
		if i == most {
			parts = append(parts, fmt.Sprintf("%d more", len(list)-most))
			break
		}
		parts = append(parts, fmt.Sprintf("pid %d %s", p.PID, plain.Text(p.Name)))
	}
	return strings.Join(parts, ", ")
}

// release gives the lock back, whatever has been cancelled, and reports whether
// it turned out to have been lost. A store that does not confirm is no failure
// of the command: it is said when the lock ends by itself.
func (j *job) release() (lost bool) {
	ends := time.Until(j.hold.Deadline())
	err := j.hold.Release(context.Background())
	switch {
	case errors.Is(err, pawl.ErrLost):
		return true
	case err != nil && !j.stopping.Load():
		j.program.say("could not release %s: %s; it ends by itself in %s at the latest", j.names(), plain.Text(reason(err)), plain.Duration(ends))
	case err == nil && j.program.verbose:
		j.program.note("released %s", j.names())
	}
	return false
}
