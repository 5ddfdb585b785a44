package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

func campaign(t *testing.T, e *pawl.Election) *pawl.Leadership {
	t.Helper()
	l, err := e.Campaign(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Candidates of one client are as many candidates: the term that others see is the
// leader's own.
func TestCandidatesOfOneClientHaveTermsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(nil), nil)
		defer c.Close()
		leads := campaign(t, c.Election("k"))
		won := make(chan *pawl.Leadership, 3)
		for range 3 {
			go func() { won <- campaign(t, c.Election("k")) }()
		}
		synctest.Wait()
		for range 3 {
			if err := leads.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
			leads = <-won
			seen, err := c.Election("k").Leader(t.Context())
			if err != nil || seen.Term != leads.Term() || seen.ID != leads.Lease().Holder() {
				t.Errorf("leader: got %+v, %v, want term %d of %s", seen, err, leads.Term(), leads.Lease().Holder())
			}
		}
		leads.Resign(t.Context())
	})
}

// Who is cut off stops to lead before another can win, tries nothing after that,
// and does not come back when the store does.
func TestALeaderWhoIsCutOffEndsBeforeAnotherWins(t *testing.T) { // A13
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		var cut atomic.Bool
		b := &faulty{Backend: memory.New(store)}
		b.renew = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			if cut.Load() {
				return driver.Grant{}, errDown
			}
			return b.Backend.Renew(ctx, c)
		}
		a, z := newClient(t, b, nil), newClient(t, memory.New(store), nil)
		defer z.Close()
		defer a.Close()
		old := campaign(t, a.Election("k"))
		time.Sleep(time.Minute)
		cut.Store(true)
		next := make(chan *pawl.Leadership, 1)
		go func() { next <- campaign(t, z.Election("k")) }()
		<-old.Context().Done()
		ended := time.Now()
		leader := <-next
		if !time.Now().After(ended) {
			t.Errorf("another won at %v, the moment at which the leader ended, want later", ended)
		}
		if leader.Term() <= old.Term() {
			t.Errorf("term: got %d, want more than %d", leader.Term(), old.Term())
		}
		cut.Store(false)
		time.Sleep(time.Minute)
		if err := old.Check(0); !errors.Is(err, pawl.ErrLost) {
			t.Errorf("the old leader: got %v, want ErrLost", err)
		}
		if err := old.Resign(t.Context()); !errors.Is(err, pawl.ErrLost) {
			t.Errorf("its resignation: got %v, want ErrLost", err)
		}
		if err := leader.Check(0); err != nil {
			t.Errorf("the new leader, after that: %v", err)
		}
		leader.Resign(t.Context())
	})
}

// Who campaigns in vain is never told that it stopped to lead.
func TestStoppedIsCalledAfterStartedAlone(t *testing.T) { // P05
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		defer c.Close()
		leader := campaign(t, c.Election("k"))
		err := c.Election("k").Run(after(t, time.Minute), pawl.Callbacks{
			Started: func(context.Context, *pawl.Leadership) error { t.Error("Started was called"); return nil },
			Stopped: func(*pawl.Leadership, error) { t.Error("Stopped was called") },
		})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("got %v, want the deadline, and that the key is held", err)
		}
		synctest.Wait()
		leader.Resign(t.Context())
		wantFree(t, store, "k")
	})
}

// Run leads, is lost, leads again, and ends when its work is over or is called
// off; each Started has its Stopped, after which another may lead.
func TestRunLeadsAgainAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		defer c.Close()
		var events []string
		var terms []uint64
		err := c.Election("k").Run(t.Context(), pawl.Callbacks{
			Started: func(ctx context.Context, l *pawl.Leadership) error {
				events = append(events, "started")
				terms = append(terms, l.Term())
				if len(terms) == 3 {
					return errWork
				}
				if err := c.ForceRelease(ctx, "k", l.Lease().Holder(), "again"); err != nil {
					t.Error(err)
				}
				<-ctx.Done()
				return nil
			},
			Stopped: func(l *pawl.Leadership, err error) {
				wantFree(t, store, "k")
				events = append(events, fmt.Sprintf("stopped lost=%v work=%v", errors.Is(err, pawl.ErrLost), errors.Is(err, errWork)))
			},
		})
		if !errors.Is(err, errWork) || errors.Is(err, pawl.ErrLost) {
			t.Errorf("got %v, want the error of the work", err)
		}
		want := []string{"started", "stopped lost=true work=false", "started", "stopped lost=true work=false", "started", "stopped lost=false work=true"}
		if !slices.Equal(events, want) {
			t.Errorf("got %q, want %q", events, want)
		}
		if !slices.IsSorted(terms) || len(terms) != 3 || terms[0] == terms[1] || terms[1] == terms[2] {
			t.Errorf("terms: got %v, want them to rise", terms)
		}

		errStop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		err = c.Election("k").Run(ctx, pawl.Callbacks{Started: func(ctx context.Context, l *pawl.Leadership) error {
			cancel(errStop)
			<-ctx.Done()
			return context.Cause(ctx)
		}})
		if !errors.Is(err, errStop) {
			t.Errorf("got %v, want the caller's cause", err)
		}
		wantFree(t, store, "k")
	})
}

func TestRunResignsWhenStartedPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		defer c.Close()
		stopped := 0
		func() {
			defer func() {
				if got := recover(); got != "oh" {
					t.Errorf("recovered %v, want the panic of Started", got)
				}
			}()
			c.Election("k").Run(t.Context(), pawl.Callbacks{
				Started: func(context.Context, *pawl.Leadership) error { panic("oh") },
				Stopped: func(*pawl.Leadership, error) { stopped++ },
			})
		}()
		if stopped != 1 {
			t.Errorf("Stopped was called %d times, want once", stopped)
		}
		wantFree(t, store, "k")
	})
}

// Never two lead at a time, and every candidate of a crowd has its turn.
func TestOneLeadsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		var leading atomic.Int32
		var mu sync.Mutex
		var terms []uint64
		var all sync.WaitGroup
		for i := range 10 {
			c := newClient(t, memory.New(store), &pawl.Options{Label: fmt.Sprint(i)})
			all.Go(func() {
				defer c.Close()
				err := c.Election("k").Run(t.Context(), pawl.Callbacks{Started: func(ctx context.Context, l *pawl.Leadership) error {
					if n := leading.Add(1); n != 1 {
						t.Errorf("%d lead at a time", n)
					}
					time.Sleep(time.Minute)
					leading.Add(-1)
					mu.Lock()
					defer mu.Unlock()
					terms = append(terms, l.Term())
					return nil
				}})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if len(terms) != 10 || !slices.IsSorted(terms) {
			t.Errorf("terms: got %v, want 10 that rise", terms)
		}
	})
}

// An observer sees each leader within a second of its election, and that nobody
// leads in between; it says what it can't see, and goes on.
func TestObserveSeesEachLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		a, z := newClient(t, memory.New(store), &pawl.Options{Label: "a"}), newClient(t, memory.New(store), &pawl.Options{Label: "z"})
		defer a.Close()
		defer z.Close()
		var down atomic.Bool
		watcher := newClient(t, &blind{Backend: memory.New(store), down: &down}, nil)
		defer watcher.Close()

		type sight struct {
			leader pawl.Leader
			err    error
			at     time.Duration
		}
		var seen []sight
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			for leader, err := range watcher.Election("k").Observe(ctx) {
				seen = append(seen, sight{leader, err, time.Since(began)})
			}
		}()
		pause := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		pause(5500 * time.Millisecond)
		first := campaign(t, a.Election("k")) // at 5.5s, seen at 6s
		pause(10 * time.Second)
		first.Resign(t.Context()) // at 15.5s, seen at 16s
		pause(2 * time.Second)
		second := campaign(t, z.Election("k")) // at 17.5s, seen at 18s
		pause(time.Minute)
		down.Store(true) // at 77.5s
		pause(1250 * time.Millisecond)
		down.Store(false)
		second.Resign(t.Context())
		third := campaign(t, a.Election("k")) // at 78.75s: nobody saw that nobody led
		pause(10 * time.Second)
		cancel()
		<-over
		third.Resign(t.Context())

		want := []struct {
			label string
			term  uint64
			at    time.Duration
		}{{"", 0, 0}, {"a", first.Term(), 6 * time.Second}, {"", 0, 16 * time.Second}, {"z", second.Term(), 18 * time.Second},
			{"error", 0, 78 * time.Second}, {"a", third.Term(), 79 * time.Second}}
		if len(seen) != len(want) {
			t.Fatalf("got %+v, want %+v", seen, want)
		}
		for i, w := range want {
			s := seen[i]
			if w.label == "error" {
				if !errors.Is(s.err, errDown) || s.at != w.at {
					t.Errorf("%d: got %+v, want the store's error at %v", i, s, w.at)
				}
				continue
			}
			if s.err != nil || s.leader.Label != w.label || s.leader.Term != w.term || s.at != w.at || (s.leader.ID == "") != (w.label == "") {
				t.Errorf("%d: got %+v, want %+v", i, s, w)
			}
		}
	})
}

// A blind store can't be inspected while it is down.
type blind struct {
	driver.Backend
	down *atomic.Bool
}

func (b *blind) Inspect(ctx context.Context, key string, limit int) (driver.State, error) {
	if b.down.Load() {
		return driver.State{}, errDown
	}
	return b.Backend.Inspect(ctx, key, limit)
}

// Whoever observes is told when to stop by its context, its client, or itself.
func TestObserveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(nil), nil)
		for range c.Election("k").Observe(t.Context()) {
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		for leader, err := range c.Election("k").Observe(ctx) {
			if leader.ID != "" || err != nil {
				t.Errorf("got %+v, %v, want that nobody leads", leader, err)
			}
		}
		time.AfterFunc(time.Minute, func() { c.Close() })
		for range c.Election("k").Observe(t.Context()) {
		}
	})
}

// A store that is down for long is waited for; what can't ever succeed is not.
func TestRunOutlastsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		b := &faulty{Backend: memory.New(nil)}
		b.acquire = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			if !up.Load() {
				return driver.Grant{}, errDown
			}
			return b.Backend.Acquire(ctx, c)
		}
		c := newClient(t, b, nil)
		time.AfterFunc(10*time.Minute, func() { up.Store(true) })
		began := time.Now()
		err := c.Election("k").Run(t.Context(), pawl.Callbacks{Started: func(context.Context, *pawl.Leadership) error { return errWork }})
		if took := time.Since(began); !errors.Is(err, errWork) || took < 10*time.Minute || took > 10*time.Minute+2*time.Second {
			t.Errorf("got %v after %v, want that it led soon after 10m", err, took)
		}
		never := pawl.Callbacks{Started: func(context.Context, *pawl.Leadership) error { t.Error("Started was called"); return nil }}
		if err := c.Election("").Run(t.Context(), never); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("no key: got %v, want ErrInvalid", err)
		}
		c.Close()
		if err := c.Election("k").Run(t.Context(), never); !errors.Is(err, pawl.ErrClosed) {
			t.Errorf("closed: got %v, want ErrClosed", err)
		}
	})
}
