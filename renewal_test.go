package pawl_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

// Renewals come every third of the TTL, moved by up to a tenth either way.
func TestRenewalsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var times []time.Time
		b := &faulty{Backend: memory.New(nil)}
		b.renew = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			mu.Lock()
			defer mu.Unlock()
			times = append(times, time.Now())
			return b.Backend.Renew(ctx, c)
		}
		c := newClient(t, b, nil)
		defer c.Close()
		lease := acquire(t, c.Mutex("k"))
		time.Sleep(time.Hour)
		lease.Release(t.Context())
		mu.Lock()
		defer mu.Unlock()
		least, most := time.Hour, time.Duration(0)
		for i := 1; i < len(times); i++ {
			d := times[i].Sub(times[i-1])
			least, most = min(least, d), max(most, d)
		}
		if least < 3*time.Second || most > 11*time.Second/3 {
			t.Errorf("between renewals: got %v to %v, want 3s to 3.666s", least, most)
		}
		if most-least < 500*time.Millisecond {
			t.Errorf("between renewals: got %v to %v, want them spread", least, most)
		}
	})
}

// A renewal that fails is tried again while the lease lasts, and one success
// is enough.
func TestAFailedRenewalIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries, failed atomic.Int32
		start := time.Now()
		b := &faulty{Backend: memory.New(nil)}
		b.renew = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			tries.Add(1)
			if s := time.Since(start); s < 8*time.Second {
				return driver.Grant{}, errDown
			}
			return b.Backend.Renew(ctx, c)
		}
		c := newClient(t, b, &pawl.Options{Observer: &pawl.Observer{
			RenewFailed: func(lease *pawl.Lease, err error, left time.Duration) {
				failed.Add(1)
				wantOneError(t, err, "renew")
				if want := 8898*time.Millisecond - time.Since(start); left != want {
					t.Errorf("left after a failure: got %v, want %v", left, want)
				}
				if got := time.Until(lease.Deadline()); got != left { // the observer may ask
					t.Errorf("deadline: got %v from now, want %v", got, left)
				}
			},
		}})
		defer c.Close()
		lease := acquire(t, c.Mutex("k"))
		time.Sleep(time.Hour)
		if !lease.Valid() {
			t.Errorf("lost: %v", context.Cause(lease.Context()))
		}
		if got := failed.Load(); got != 5 { // at 3.33, 3.58, 4.08, 5.08 and 6.75 s
			t.Errorf("got %d failures, want 5", got)
		}
		lease.Release(t.Context())
	})
}

// Renewals fail for half a minute, each with an answer that is no disconnection:
// the observer hears of it before the loss, the loss comes in time, and nobody
// else is granted before that.
// Cases A05, P07.
func TestFailedRenewalsAreToldBeforeTheLoss(t *testing.T) {
	for _, answer := range []error{
		errors.New("ERR Error running script"), driver.ErrRefused, driver.ErrUnsupported, driver.ErrInvalid,
		&driver.HeldError{}, context.DeadlineExceeded, context.Canceled,
	} {
		synctest.Test(t, func(t *testing.T) {
			store := new(memory.Store)
			b := &faulty{Backend: memory.New(store)}
			start := time.Now()
			b.renew = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
				if time.Since(start) > 5*time.Minute {
					return driver.Grant{}, answer
				}
				return b.Backend.Renew(ctx, c)
			}
			var failures, lost atomic.Int32
			var until atomic.Int64 // the deadline before the failures
			c := newClient(t, b, &pawl.Options{TTL: 30 * time.Second, Observer: &pawl.Observer{
				Renewed: func(l *pawl.Lease, _, _ time.Duration) { until.Store(int64(l.Deadline().Sub(start))) },
				RenewFailed: func(*pawl.Lease, error, time.Duration) {
					failures.Add(1)
					if lost.Load() > 0 {
						t.Error("a failure is told after the loss")
					}
				},
				Lost: func(*pawl.Lease, *pawl.LostError) { lost.Add(1) },
			}})
			defer c.Close()
			other := newClient(t, memory.New(store), nil)
			defer other.Close()
			lease := acquire(t, c.Mutex("k"))
			next := make(chan time.Duration)
			go func() {
				second := acquire(t, other.Mutex("k"))
				if lease.Context().Err() == nil {
					t.Error("another holds, and the loss was not told")
				}
				next <- time.Since(start)
				second.Release(t.Context())
			}()
			<-lease.Context().Done()
			if got, want := time.Since(start), time.Duration(until.Load()); got != want {
				t.Errorf("%v: loss told after %v, want at the deadline, %v", answer, got, want)
			}
			if got := failures.Load(); got < 3 {
				t.Errorf("%v: got %d failures told before the loss, want several", answer, got)
			}
			if got, told := <-next, time.Duration(until.Load()); got <= told {
				t.Errorf("%v: the next came after %v, want later than the loss, %v", answer, got, told)
			}
			synctest.Wait()
			if got := lost.Load(); got != 1 {
				t.Errorf("%v: the loss was told %d times, want once", answer, got)
			}
		})
	}
}

// A lease counts from when its renewals were sent, however late each of them is
// answered.
// Case A14.
func TestARenewalCountsFromItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const late = 1500 * time.Millisecond
		var sent atomic.Pointer[time.Time]
		b := &faulty{Backend: memory.New(nil)}
		b.renew = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			now := time.Now()
			g, err := b.Backend.Renew(ctx, c)
			time.Sleep(late)
			if err == nil {
				sent.Store(&now)
			}
			return g, err
		}
		margin := func(rtt time.Duration) time.Duration { return max(time.Second, 2*rtt) }
		var (
			mu       sync.Mutex
			rtt      time.Duration // guarded by mu: smoothed over four answers
			renewals int           // guarded by mu
		)
		c := newClient(t, b, &pawl.Options{Observer: &pawl.Observer{Renewed: func(l *pawl.Lease, took, _ time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			renewals++
			if took != late {
				t.Errorf("a renewal took %v, want %v", took, late)
			}
			rtt += (late - rtt) / 4
			if got, want := l.Deadline().Sub(*sent.Load()), 9898*time.Millisecond-margin(rtt); got != want {
				t.Errorf("renewal %d: the lease lasts until %v after the request, want %v", renewals, got, want)
			}
		}}})
		lease := acquire(t, c.Mutex("k"))
		time.Sleep(time.Minute)
		mu.Lock()
		if !lease.Valid() || renewals < 10 {
			t.Errorf("after a minute: valid %v, after %d renewals", lease.Valid(), renewals)
		}
		mu.Unlock()
		lease.Release(t.Context())
		c.Close()
		time.Sleep(late) // until the last renewal has come back
	})
}

// A renewal that succeeds after the loss was told revives nothing. It is taken
// back, but not before the store would have let go of the key without it.
// Case A14.
func TestALateRenewalRevivesNothing(t *testing.T) {
	for _, grace := range []time.Duration{0, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			store := new(memory.Store)
			b := &faulty{Backend: memory.New(store)}
			b.renew = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
				time.Sleep(5 * time.Second)
				if tk := c.Grant.Token; tk == 0 {
					t.Error("a renewal without the token")
				}
				g, err := b.Backend.Renew(ctx, c) // executed at 8.33 s
				time.Sleep(time.Second)           // answered at 9.33 s
				return g, err
			}
			c := newClient(t, b, &pawl.Options{Grace: grace})
			start := time.Now()
			lease := acquire(t, c.Mutex("k"))
			<-lease.Context().Done()
			if got, want := time.Since(start), 8898*time.Millisecond; got != want {
				t.Errorf("loss told after %v, want %v", got, want)
			}
			other := newClient(t, memory.New(store), nil)
			next := acquire(t, other.Mutex("k"))
			// 9.898 s is the deadline; the renewal would have kept it until 18.33 s.
			if got, want := time.Since(start), 9898*time.Millisecond+grace; got != want {
				t.Errorf("grace %v: the next came after %v, want %v", grace, got, want)
			}
			if lease.Valid() {
				t.Error("the lease was revived")
			}
			next.Release(t.Context())
			time.Sleep(time.Minute)
			c.Close()
			other.Close()
		})
	}
}

// Whoever is found in possession has it: no more renewals, and told at once.
// Cases A04, A07, A08, A13, B04, T10.
func TestAnotherHolderIsLossAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		var tries atomic.Int32
		b := &faulty{Backend: memory.New(store)}
		b.renew = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			tries.Add(1)
			return b.Backend.Renew(ctx, c)
		}
		c := newClient(t, b, nil)
		defer c.Close()
		other := newClient(t, memory.New(store), nil)
		defer other.Close()
		start := time.Now()
		lease := acquire(t, c.Mutex("k"))
		// Someone deletes the key, and another takes it.
		raw := memory.New(store)
		st, _ := raw.Inspect(t.Context(), "k", 1)
		if err := raw.Release(t.Context(), st.Holders[0].Claim); err != nil {
			t.Fatal(err)
		}
		next := acquire(t, other.Mutex("k"))
		<-lease.Context().Done()
		if got, want := time.Since(start), 10*time.Second/3; got != want {
			t.Errorf("told after %v, want at the first renewal, %v", got, want)
		}
		var lost *pawl.LostError
		cause := context.Cause(lease.Context())
		if !errors.As(cause, &lost) || lost.Reason != driver.Stolen {
			t.Errorf("cause: got %v, want stolen", cause)
		}
		wantOneError(t, cause, "hold")
		if err := lease.Renew(t.Context()); err != cause {
			t.Errorf("renew: got %v, want the cause", err)
		}
		time.Sleep(time.Minute)
		if got := tries.Load(); got != 1 {
			t.Errorf("got %d renewals, want 1", got)
		}
		if !next.Valid() {
			t.Error("the other holder has lost it")
		}
		next.Release(t.Context())
		again := acquire(t, c.Mutex("k")) // in the same client, and it is renewed
		time.Sleep(time.Minute)
		if !again.Valid() {
			t.Error("a lease after a loss is not renewed")
		}
		again.Release(t.Context())
	})
}

// Renew gives a new lease of life at once. If the store does not answer it
// returns with its context, and neither the lease nor its renewals suffer.
func TestRenewByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var deaf atomic.Bool
		b := &faulty{Backend: memory.New(nil)}
		b.renew = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			if deaf.Load() {
				time.Sleep(30 * time.Second) // not even for its context
				return driver.Grant{}, errDown
			}
			return b.Backend.Renew(ctx, c)
		}
		c := newClient(t, b, nil)
		start := time.Now()
		lease := acquire(t, c.Mutex("k"))
		time.Sleep(2 * time.Second)
		if err := lease.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := lease.Deadline().Sub(start), 10898*time.Millisecond; got != want {
			t.Errorf("deadline: got %v, want %v", got, want)
		}
		if err := lease.Check(8 * time.Second); err != nil {
			t.Errorf("check for 8s: %v", err)
		}
		if err := lease.Check(9 * time.Second); err == nil || errors.Is(err, pawl.ErrLost) {
			t.Errorf("check for 9s: got %v, want an error that is no loss", err)
		}
		deaf.Store(true)
		before := time.Now()
		err := lease.Renew(after(t, 100*time.Millisecond))
		if got := time.Since(before); got != 100*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("deaf store: got %v after %v, want the deadline after 100ms", err, got)
		}
		wantOneError(t, err, "renew")
		deaf.Store(false)
		for range 1000 { // far beyond the end: renewals in vain don't put off the one that is due
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := lease.Renew(ctx); !errors.Is(err, context.Canceled) {
				t.Fatalf("dead context: got %v, want its error", err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if !lease.Valid() {
			t.Errorf("lost: %v", context.Cause(lease.Context()))
		}
		lease.Release(t.Context())
		c.Close()
	})
}

// The token of a lease stays, whatever a backend says in answer to a renewal.
// Case R01.
func TestARenewalKeepsTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent recorder
		b := &faulty{Backend: memory.New(nil)}
		b.renew = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			sent.note(c)
			g, err := b.Backend.Renew(ctx, c)
			g.Token, g.Ref = 0, "ref" // the answer need not say what is known
			return g, err
		}
		c := newClient(t, b, nil)
		defer c.Close()
		lease := acquire(t, c.Mutex("k"))
		for range 2 {
			if err := lease.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		last := sent.all()[1]
		if last.Grant.Token != lease.Token() || last.Grant.Ref != "ref" {
			t.Errorf("second renewal: got %+v, want token %d and the ref of the first", last.Grant, lease.Token())
		}
		lease.Release(t.Context())
	})
}
