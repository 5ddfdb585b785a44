package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
	"github.com/pawlock/pawl/cmd/pawl/internal/proc"
)

const (
	// patience is how long the first answer of a store may take.
	patience = 6 * time.Second

	// The waiting is told after firstWord, then at thenAt, and from there on
	// each time it has doubled.
	firstWord = 400 * time.Millisecond
	thenAt    = 15 * time.Second

	// lookTimeout bounds a look at the store that only makes a message better.
	lookTimeout = time.Second
)

// A request is what run and acquire ask for.
type request struct {
	keys     []string // LOCK, and those of --also
	shared   bool
	slots    int
	wait     time.Duration // 0: do not wait
	every    time.Duration // the period in which there is one run at most, 0 if there is none
	noWait   bool          // --no-wait was said, rather than --wait 0
	conflict int           // exit code for busy
	opts     pawl.Options
	require  []string // promises, of which the store has to keep all
	purpose  string   // ends the message of an outage: what was not done
}

// errUnreachable ends the waiting for a store that never answered.
var errUnreachable = errors.New("the store does not answer")

// A stopSignal ends the waiting.
type stopSignal struct{ os.Signal }

// Error implements the error interface.
func (s stopSignal) Error() string { return s.String() }

// acquire gets the lock that r asks for, telling on standard error what it
// waits for. It returns a *failure if it is not to be had. A stop signal ends
// the waiting, and the failure is death by that signal.
func (p *program) acquire(s *store, r request, signals <-chan os.Signal) (*hold, error) {
	if err := r.kept(s); err != nil {
		return nil, err
	}
	if err := p.refuseDeadlock(s, r.keys); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	s.denied = cancel
	client, err := pawl.New(s, &r.opts)
	if err != nil {
		return nil, fail(classify(err), "%s", reason(err))
	}
	wait := ctx
	if r.wait > 0 && r.wait < forever {
		var free context.CancelFunc
		wait, free = context.WithTimeout(ctx, r.wait)
		defer free()
	}

	began := time.Now()
	told := false
	var teller sync.WaitGroup
	teller.Go(func() { told = p.tellWaiting(wait, s, r, began) })
	var watcher sync.WaitGroup
	watcher.Go(func() { watch(wait, s, signals, cancel) })

	held, leases, err := take(wait, client, r)
	cause := context.Cause(ctx)
	cancel(nil)
	watcher.Wait()
	teller.Wait()
	if err != nil {
		waited := time.Since(began)
		closeSoon(client, s)
		return nil, p.notAcquired(s, r, err, cause, waited)
	}
	h := &hold{held, client, s, leases}
	if cause == nil {
		cause = pending(signals)
	}
	var stop stopSignal
	if errors.As(cause, &stop) {
		_ = h.Release(context.Background()) // it ends with its TTL otherwise
		return nil, death(stop)
	}
	if told || p.verbose {
		p.note("got %s after %s (fence %s)", quoted(r.keys), plain.Duration(time.Since(began)), strings.Trim(fmt.Sprint(h.fences()), "[]"))
	}
	return h, nil
}

// closeSoon withdraws what the store may have of a claim before this process
// ends. There is no point in waiting long for one that has never answered.
func closeSoon(c *pawl.Client, s *store) {
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	if s.seen().answered {
		<-closed // at most 5 s
		return
	}
	select {
	case <-closed:
	case <-time.After(lookTimeout / 2):
	}
}

// watch ends the waiting at a stop signal, or when the store has never
// answered.
func watch(ctx context.Context, s *store, signals <-chan os.Signal, cancel context.CancelCauseFunc) {
	reach := time.NewTimer(patience)
	defer reach.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case sig := <-signals:
			if proc.Stops(sig) {
				cancel(stopSignal{sig})
				return
			}
		case <-reach.C:
			if !s.seen().answered {
				cancel(errUnreachable)
				return
			}
		}
	}
}

// pending returns the stop signal that has come and was not looked at yet.
func pending(signals <-chan os.Signal) error {
	for {
		select {
		case sig := <-signals:
			if proc.Stops(sig) {
				return stopSignal{sig}
			}
		default:
			return nil
		}
	}
}

func death(s stopSignal) *failure {
	exit := proc.Death(s.Signal)
	return &failure{code: exit.Code, death: &exit}
}

// notAcquired says why there is no lock.
func (p *program) notAcquired(s *store, r request, err, cause error, waited time.Duration) *failure {
	seen := s.seen()
	key := r.keys[0]
	if of := new(pawl.Error); errors.As(err, &of) && of.Key != "" {
		key = of.Key // of several
	}
	var stop stopSignal
	var held *pawl.HeldError
	switch {
	case errors.As(cause, &stop):
		return death(stop)
	case errors.Is(cause, errUnreachable), errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, pawl.ErrHeld):
		return unreachable(s, seen, waited, r)
	case cause != nil && denied(cause):
		return fail(exitDenied, "%s does not permit it: %s. %s", s.name, plain.Text(reason(cause)), r.purpose)
	case errors.As(err, &held):
		if seen.held != nil && seen.claim.Key == key {
			held = seen.held
		}
		f := p.busy(r, key, held, waited)
		f.code = r.conflict
		if r.conflict == exitOK {
			f.text = ""
		}
		return f
	}
	switch code := classify(err); code {
	case exitUnreachable:
		return unreachable(s, seen, waited, r)
	case exitDenied:
		return fail(code, "%s does not permit it: %s. %s", s.name, plain.Text(reason(err)), r.purpose)
	case exitConfig:
		return fail(code, "%s cannot keep the lock %s: %s. %s", s.name, plain.Quote(key), plain.Text(reason(err)), r.purpose)
	default:
		return fail(code, "%s: %s. %s", plain.Quote(key), plain.Text(reason(err)), r.purpose)
	}
}

func unreachable(s *store, seen seen, waited time.Duration, r request) *failure {
	why := "no answer"
	if seen.trouble != nil {
		why = plain.Text(reason(seen.trouble))
	}
	verb := "reach"
	if seen.answered {
		verb = "use"
	}
	return fail(exitUnreachable, "cannot %s %s: %s (tried %s in %s). %s", verb, s.name, why,
		plain.Count(max(1, seen.tries), "time", "times"), plain.Duration(waited), r.purpose)
}

// busy says who has the lock instead of us.
func (p *program) busy(r request, key string, held *pawl.HeldError, waited time.Duration) *failure {
	name, by := plain.Quote(key), holderOf(held.Holder)
	if r.every > 0 && r.wait == 0 {
		return hadItsRun(r, held)
	}
	if r.wait == 0 {
		why := "--wait 0"
		if r.noWait {
			why = "--no-wait"
		}
		return &failure{text: fmt.Sprintf("%s is held by %s; not waiting (%s). exit %d", name, by, why, r.conflict)}
	}
	place := ""
	if held.Place > 0 {
		place = fmt.Sprintf("; was %s in the queue", plain.Ordinal(held.Place))
	}
	return &failure{text: fmt.Sprintf("gave up on %s after %s: still held by %s%s. exit %d", name, plain.Duration(waited), by, place, r.conflict)}
}

// tellWaiting says who is in the way, and reports whether it has said anything.
func (p *program) tellWaiting(ctx context.Context, s *store, r request, began time.Time) (told bool) {
	if p.quiet || r.wait == 0 {
		return false
	}
	timer := time.NewTimer(firstWord)
	defer timer.Stop()
	next := thenAt
	key := "" // of which the circumstances were told
	for outage := false; ; {
		select {
		case <-ctx.Done():
			return told
		case <-timer.C:
			if ctx.Err() != nil {
				return told // both were ready
			}
		}
		seen := s.seen()
		switch {
		case seen.held == nil && seen.trouble != nil && !outage:
			outage = true
			p.note("cannot %s %s: %s; still trying", cannot(seen.trouble), s.name, plain.Text(reason(seen.trouble)))
			fallthrough
		case seen.held == nil:
			timer.Reset(firstWord)
			continue
		case key != seen.claim.Key: // the first time, or the next of several
			told, key = true, seen.claim.Key
			p.note("waiting for %s, held by %s%s", plain.Quote(key), holderOf(seen.held.Holder), p.circumstances(ctx, s, r.before(key), seen))
		case time.Since(began) < next:
		default:
			p.note("still waiting for %s after %s, held by %s%s", plain.Quote(key), plain.Duration(time.Since(began)), holderOf(seen.held.Holder), placeOf(seen.held))
			next *= 2
		}
		pause := time.Until(began.Add(next))
		if len(r.keys) > 1 {
			pause = min(pause, firstWord) // it may be another one by then
		}
		timer.Reset(pause)
	}
}

// before returns those of several locks that are acquired before key, by their
// order.
func (r request) before(key string) []string {
	var keys []string
	for _, k := range r.keys {
		if k < key {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// circumstances are the lines under the first word of waiting, while keys are
// held.
func (p *program) circumstances(ctx context.Context, s *store, keys []string, seen seen) string {
	key, h := seen.claim.Key, seen.held.Holder
	text := ""
	if d := detailsOf(h, seen.held.Last); d != "" {
		text += "\n      " + d
	}
	text += "\n      lease: " + leaseOf(h)
	if seen.held.Place > 0 {
		text += " · you are " + plain.Ordinal(seen.held.Place)
		look, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		if state, err := s.Inspect(look, key, 1); err == nil && state.Waiting >= seen.held.Place {
			text += fmt.Sprintf(" of %d waiting", state.Waiting)
		} else {
			text += " in line"
		}
	}
	if len(keys) > 0 {
		text += "\n      meanwhile you hold " + quoted(keys)
	}
	text += "\n      give up: Ctrl-C or --wait · look: pawl show " + plain.Shell(key)
	if !h.Foreign {
		text += " · break: pawl force-release " + plain.Shell(key) + " --id " + plain.Shell(shortID(h))
	}
	return text
}

func placeOf(held *pawl.HeldError) string {
	if held.Place == 0 {
		return ""
	}
	return "; you are " + plain.Ordinal(held.Place) + " in line"
}

// commandName is what the label of a holder tells of a command.
func commandName(path string) string { return filepath.Base(path) }
