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
	"sync/atomic"
	"syscall"
	"time"

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

	key     string
	hold    *hold
	tree    *proc.Tree
	signals <-chan os.Signal

	start    time.Time
	renewed  atomic.Int64 // nanoseconds from start to the last sign that the lock was ours
	stopping atomic.Bool  // the lock is lost, and the release no news
	over     atomic.Bool  // the command has ended: it is not going to be stopped
}

// observer tells the job about its renewals. Its funcs are called while the
// lease is locked, and so only note and print.
func (j *job) observer() *pawl.Observer {
	j.start = time.Now()
	return &pawl.Observer{
		Renewed: func(_ *pawl.Lease, took, left time.Duration) {
			j.sign(took)
			if j.program.verbose {
				j.program.note("renewed %s in %s, %s were left", plain.Quote(j.key), plain.Duration(took), plain.Duration(left))
			}
		},
		RenewFailed: func(_ *pawl.Lease, err error, left time.Duration) {
			if j.stopping.Load() || j.over.Load() {
				return
			}
			j.program.note("could not renew %s for %s (%s); %s left, will stop the command at %s left", plain.Quote(j.key),
				plain.Duration(j.sinceRenewed()), plain.Text(reason(err)), plain.Duration(left), plain.Duration(j.timing.killAfter))
		},
	}
}

// sign notes that the lock was ours so long ago.
func (j *job) sign(ago time.Duration) { j.renewed.Store(int64(time.Since(j.start) - ago)) }

func (j *job) sinceRenewed() time.Duration {
	return time.Since(j.start) - time.Duration(j.renewed.Load())
}

// confirmTimeout bounds the question whether the lock was ours to the end.
const confirmTimeout = time.Second

// run runs the command and releases the lock. Its error is how the command
// ended, or what it was stopped for.
func (j *job) run(h *hold, signals <-chan os.Signal) error {
	j.hold, j.key, j.signals = h, h.lease.Key(), signals
	if err := j.refresh(); err != nil {
		return err
	}
	tree, err := proc.Start(proc.Command{Path: j.path, Args: j.argv, Env: j.environment(), NewGroup: j.newGroup})
	if err != nil {
		j.release()
		return notStarted(err)
	}
	j.tree = tree
	relay := proc.Relay{Tree: tree, Typed: !j.newGroup && proc.Terminal()}
	runtime := newAlarm(j.maxRuntime)
	defer runtime.Stop()
	watch := time.NewTimer(0)
	defer watch.Stop()
	asked := false // somebody has asked the command to stop
	for {
		select {
		case s := <-signals:
			relay.Pass(s)
			asked = asked || proc.Stops(s)
		case <-tree.Done():
			return j.ended(asked)
		case <-runtime.C:
			return j.overran()
		case <-h.lease.Context().Done():
			return j.lost()
		case <-watch.C:
			// Read from the clock each time: a timer is late when the process
			// was stopped, or the machine asleep.
			if h.lease.Check(j.timing.killAfter) != nil {
				return j.lost()
			}
			watch.Reset(min(time.Second, max(time.Millisecond, time.Until(h.lease.Deadline())-j.timing.killAfter)))
		}
	}
}

// refresh renews a lease of which a slow store has left little, lest the command
// be stopped as soon as it is started.
func (j *job) refresh() error {
	lease, t := j.hold.lease, j.timing
	j.sign(j.hold.ttl() - time.Until(lease.Deadline()))
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
	return fail(exitUnreachable, "got %s, but could not keep it: %s: %s. The command was not run", plain.Quote(j.key), j.hold.store.name, why)
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
	lease := j.hold.lease
	locks, _ := json.Marshal(append(outerLocks(), outerLock{j.key, lease.Holder()})) // strings only: it can't fail
	own := []string{
		"PAWL_LOCK=" + j.key,
		"PAWL_MODE=" + mode(lease),
		"PAWL_FENCE=" + strconv.FormatUint(lease.Token(), 10),
		"PAWL_HOLDER=" + lease.Holder(),
		"PAWL_TTL_MS=" + strconv.FormatInt(j.hold.ttl().Milliseconds(), 10),
		"PAWL_BACKEND=" + j.hold.store.name,
		"PAWL_LOCKS=" + string(locks),
	}
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return slices.ContainsFunc(own, func(o string) bool {
			name, _, _ := strings.Cut(o, "=")
			return strings.HasPrefix(entry, name+"=")
		})
	})
	return append(env, own...)
}

// ended is for a command that has ended by itself.
func (j *job) ended(asked bool) error {
	exit := j.tree.Exit()
	j.over.Store(j.tree.Empty())
	if j.hold.lease.Check(0) != nil {
		j.tellSurvivors(j.tree.Stop(syscall.SIGTERM, time.After(0)))
		return j.lostAtEnd()
	}
	if !j.tree.Empty() {
		switch {
		case asked, j.leftovers == "kill":
			j.tellSurvivors(j.tree.Stop(syscall.SIGTERM, j.killBy(time.Now().Add(j.timing.killAfter))))
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
	if errors.Is(j.hold.lease.Renew(confirm), pawl.ErrLost) || j.release() {
		return j.lostAtEnd()
	}
	return result(exit)
}

func result(e proc.Exit) error {
	if e.Code == 0 {
		return nil
	}
	return &failure{code: e.Code, death: &e}
}

// killBy returns when to KILL: at the time given, or before the lease ends.
func (j *job) killBy(t time.Time) <-chan time.Time {
	if end := j.hold.lease.Deadline().Add(-j.timing.margin); end.Before(t) {
		t = end
	}
	return time.After(time.Until(t))
}

// overran is for a command that took longer than --max-runtime.
func (j *job) overran() error {
	kill := j.killBy(time.Now().Add(j.timing.killAfter))
	stopped := j.stop(kill)
	j.program.say("%s ran longer than --max-runtime %s: TERM sent, KILL in %s", plain.Text(commandName(j.argv[0])), plain.Duration(j.maxRuntime), plain.Duration(j.timing.killAfter))
	j.tellSurvivors(<-stopped)
	if j.release() {
		return j.lostAtEnd()
	}
	return &failure{code: exitMaxRuntime}
}

// stop begins to stop the tree. It is under way before anything is printed: a
// standard error that nobody reads must not delay it.
func (j *job) stop(kill <-chan time.Time) <-chan []proc.Process {
	stopped := make(chan []proc.Process, 1)
	go func() { stopped <- j.tree.Stop(syscall.SIGTERM, kill) }()
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
				j.tellSurvivors(j.tree.Stop(syscall.SIGTERM, j.killBy(time.Now().Add(j.timing.killAfter))))
			}
		case <-tick.C:
			if j.hold.lease.Check(j.timing.killAfter) != nil {
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
	lease := j.hold.lease
	ends := time.Until(lease.Deadline())
	err := lease.Release(context.Background())
	switch {
	case errors.Is(err, pawl.ErrLost):
		return true
	case err != nil && !j.stopping.Load():
		j.program.say("could not release %s: %s; it ends by itself in %s at the latest", plain.Quote(j.key), plain.Text(reason(err)), plain.Duration(ends))
	case err == nil && j.program.verbose:
		j.program.note("released %s", plain.Quote(j.key))
	}
	return false
}
