package pawl_test

import (
	"context"
	"errors"
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

// A crowd of goroutines of one client, each of which acquires the key once, in
// the order of their numbers, and releases it when told.
type crowd struct {
	leases chan *pawl.Lease // as they are granted
	errs   chan error       // of those who were not
	wg     sync.WaitGroup
}

func gather(ctx context.Context, l *pawl.Lock, n int) *crowd {
	c := &crowd{leases: make(chan *pawl.Lease, n), errs: make(chan error, n)}
	for range n {
		c.join(ctx, l)
	}
	return c
}

func (c *crowd) join(ctx context.Context, l *pawl.Lock) {
	c.wg.Go(func() {
		lease, err := l.Acquire(ctx)
		if err != nil {
			c.errs <- err
			return
		}
		c.leases <- lease
	})
	synctest.Wait()
}

// counting counts the requests of a client.
func counting(store *memory.Store) (b *faulty, acquires, releases *atomic.Int64) {
	acquires, releases = new(atomic.Int64), new(atomic.Int64)
	inner := memory.New(store)
	return &faulty{
		Backend: inner,
		acquire: func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			acquires.Add(1)
			return inner.Acquire(ctx, c)
		},
		release: func(ctx context.Context, c driver.Claim) error {
			releases.Add(1)
			return inner.Release(ctx, c)
		},
	}, acquires, releases
}

// The claim goes from one goroutine to the next without the store; each hold has
// a token of its own, greater than the one before, and a context of its own.
func TestHandOverAsksTheStoreOncePerBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		b, acquires, releases := counting(store)
		c := newClient(t, b, &pawl.Options{Handover: 4})
		defer c.Close()
		first := acquire(t, c.Mutex("k"))
		line := gather(t.Context(), c.Mutex("k"), 9)
		if got := acquires.Load(); got != 1 {
			t.Errorf("acquires while nine wait: got %d, want the 1 of the holder", got)
		}
		start, last := time.Now(), first.Token()
		first.Release(t.Context())
		for i := range 9 {
			lease := <-line.leases
			if lease.Token() <= last {
				t.Errorf("token of hold %d: got %d, want more than %d", i, lease.Token(), last)
			}
			last = lease.Token()
			if err := lease.Check(8 * time.Second); err != nil {
				t.Errorf("hold %d: %v, want most of the TTL to be left", i, err)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("release of hold %d: %v", i, err)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("second release of hold %d: %v, want none", i, err)
			}
			if cause := context.Cause(lease.Context()); cause != pawl.ErrReleased {
				t.Errorf("hold %d ended by %v, want by its release", i, cause)
			}
			if lease.Valid() {
				t.Errorf("hold %d is valid after its release", i)
			}
			synctest.Wait()
		}
		// The first asked for one token, as nobody waited then; the nine had blocks of
		// four, four and, as nobody waited for the last, one.
		if got, want := acquires.Load(), int64(4); got != want {
			t.Errorf("acquires for ten holds: got %d, want %d", got, want)
		}
		if got, want := releases.Load(), int64(4); got != want {
			t.Errorf("releases of ten holds: got %d, want %d", got, want)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("nine holds took %v, want no time: nobody polls", took)
		}
		wantFree(t, store, "k")
	})
}

// A crowd in one process does not keep the key from another process: it waits for
// one block at most.
func TestHandOverGoesBackToTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		crowded := newClient(t, memory.New(store), &pawl.Options{Handover: 5})
		defer crowded.Close()
		other := newClient(t, memory.New(store), nil)
		defer other.Close()
		first := acquire(t, crowded.Mutex("k"))
		line := gather(t.Context(), crowded.Mutex("k"), 20)
		alone := gather(t.Context(), other.Mutex("k"), 1)
		first.Release(t.Context())
		holds := 0
		for {
			synctest.Wait()
			select {
			case lease := <-line.leases:
				holds++
				lease.Release(t.Context())
				continue
			case lease := <-alone.leases:
				if holds > 5 {
					t.Errorf("the other process waited for %d holds, want 5 at most", holds)
				}
				lease.Release(t.Context())
			}
			break
		}
		for ; holds < 20; holds++ {
			(<-line.leases).Release(t.Context())
		}
	})
}

// Who waits in the process is told who holds the key, and where he stands.
func TestFollowersAreToldWhoHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []*pawl.HeldError
		c := newClient(t, memory.New(nil), &pawl.Options{Label: "me", Observer: &pawl.Observer{
			Waiting: func(_ string, h *pawl.HeldError) { told = append(told, h) },
		}})
		defer c.Close()
		lease := acquire(t, c.Mutex("k"))
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		line := gather(ctx, c.Mutex("k"), 3)
		// The first of the three asks the store, which knows the same.
		for i, h := range told {
			if h.Holder.ID != lease.Holder() || h.Holder.Label != "me" || h.Holder.Age != time.Second {
				t.Errorf("waiter %d was told %+v, want the holder %s", i, h, lease.Holder())
			}
		}
		if len(told) != 3 || told[1].Place != 2 || told[2].Place != 3 {
			t.Errorf("places: got %d reports, %+v, want 1, 2, 3", len(told), told)
		}
		for range 3 {
			err := <-line.errs
			var held *pawl.HeldError
			if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &held) || held.Holder.ID != lease.Holder() {
				t.Errorf("got %v, want the deadline and who holds", err)
			}
			wantOneError(t, err, "acquire")
		}
		lease.Release(t.Context())
	})
}

// Those who go away leave no gap: whoever of the rest came first is next, be it
// that the one who asks the store has gone or one behind it.
func TestFollowersMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		defer c.Close()
		lease := acquire(t, c.Mutex("k"))
		const n = 6
		leases := make(chan int, n)
		var cancels []context.CancelFunc
		var wg sync.WaitGroup
		for i := range n {
			ctx, cancel := context.WithCancel(t.Context())
			cancels = append(cancels, cancel)
			wg.Go(func() {
				lease, err := c.Mutex("k").Acquire(ctx)
				if err != nil {
					return
				}
				leases <- i
				lease.Release(ctx)
			})
			synctest.Wait()
		}
		for _, i := range []int{0, 1, 4} {
			cancels[i]()
			synctest.Wait()
		}
		lease.Release(t.Context())
		wg.Wait()
		close(leases)
		var order []int
		for i := range leases {
			order = append(order, i)
		}
		if want := []int{2, 3, 5}; !slices.Equal(order, want) {
			t.Errorf("holds: got %v, want %v", order, want)
		}
		synctest.Wait()
		wantFree(t, store, "k")
	})
}

// A lease that is lost ends alone: the next asks the store for a claim of its own.
// Case P08.
func TestLossIsNotHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), &pawl.Options{Handover: 16})
		defer c.Close()
		first := acquire(t, c.Mutex("k"))
		line := gather(t.Context(), c.Mutex("k"), 3)
		first.Release(t.Context())
		second := <-line.leases
		second.Release(t.Context())
		third := <-line.leases
		if third.Holder() != second.Holder() {
			t.Fatal("the claim was not handed over")
		}
		if err := c.ForceRelease(t.Context(), "k", third.Holder(), "test"); err != nil {
			t.Fatal(err)
		}
		<-third.Context().Done()
		fourth := <-line.leases
		var lost *pawl.LostError
		if err := third.Release(t.Context()); !errors.As(err, &lost) || lost.Reason != driver.Forced {
			t.Errorf("release of the hold that was forced out: got %v, want forced", err)
		}
		if err := second.Release(t.Context()); err != nil {
			t.Errorf("release of the hold before it: got %v, want none", err)
		}
		if fourth.Holder() == third.Holder() || fourth.Token() <= third.Token() || !fourth.Valid() {
			t.Errorf("after the loss: got claim %s with token %d, want another than %s, and more than %d", fourth.Holder(), fourth.Token(), third.Holder(), third.Token())
		}
		if err := fourth.Release(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		wantFree(t, store, "k")
	})
}

// A claim that is handed over goes on being renewed, and each hold has a MaxHold of
// its own.
func TestHandedOverClaimIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), &pawl.Options{MaxHold: 40 * time.Second})
		defer c.Close()
		first := acquire(t, c.Mutex("k"))
		line := gather(t.Context(), c.Mutex("k"), 3)
		first.Release(t.Context())
		second := <-line.leases
		time.Sleep(50 * time.Millisecond)
		second.Release(t.Context())
		third := <-line.leases
		if third.Holder() != second.Holder() {
			t.Fatal("the claim was not handed over")
		}
		start := time.Now()
		<-third.Context().Done()
		var lost *pawl.LostError
		if cause := context.Cause(third.Context()); !errors.As(cause, &lost) || lost.Reason != driver.MaxHold || time.Since(start) != 40*time.Second {
			t.Errorf("ended after %v by %v, want after its own MaxHold of 40s", time.Since(start), cause)
		}
		third.Release(t.Context())
		(<-line.leases).Release(t.Context())
	})
}

// A claim whose renewals fail is given back while a third of it is left.
func TestFailingClaimIsNotHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, _ := counting(new(memory.Store))
		b.renew = func(context.Context, driver.Claim) (driver.Grant, error) { return driver.Grant{}, errDown }
		c := newClient(t, b, &pawl.Options{Handover: 1000})
		defer c.Close()
		first := acquire(t, c.Mutex("k"))
		line := gather(t.Context(), c.Mutex("k"), 200)
		first.Release(t.Context())
		claims := make(map[string]bool)
		least := time.Hour
		for range 200 {
			lease := <-line.leases
			claims[lease.Holder()] = true
			least = min(least, time.Until(lease.Deadline()))
			time.Sleep(50 * time.Millisecond)
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if len(claims) != 2 || least < 3*time.Second || least > 4*time.Second {
			t.Errorf("200 holds of 50ms: got %d claims, and %v left at the least; want 2, each until a third of 10s is left", len(claims), least)
		}
	})
}

// The answer to a renewal that was under way when the claim was handed over is
// for whoever has it then.
func TestAnswersFollowTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			err   error
			valid bool
			left  time.Duration // 70ms after the renewal was sent
		}{
			"renewed": {nil, true, 10*time.Second - 100*time.Millisecond - 2*time.Millisecond - time.Second - 70*time.Millisecond},
			"lost":    {&pawl.LostError{Reason: driver.Deleted}, false, 0},
		} {
			store := new(memory.Store)
			b, _, _ := counting(store)
			sent, answer := make(chan bool, 10), make(chan bool)
			b.renew = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
				sent <- true
				<-answer // whatever becomes of ctx
				if test.err != nil {
					return driver.Grant{}, test.err
				}
				return b.Backend.Renew(context.WithoutCancel(ctx), c)
			}
			c := newClient(t, b, nil)
			first := acquire(t, c.Mutex("k"))
			line := gather(t.Context(), c.Mutex("k"), 2)
			first.Release(t.Context())
			second := <-line.leases
			time.Sleep(10 * time.Millisecond)
			go second.Renew(t.Context())
			<-sent
			time.Sleep(50 * time.Millisecond)
			second.Release(t.Context())
			third := <-line.leases
			time.Sleep(20 * time.Millisecond)
			answer <- true
			synctest.Wait()
			if got := third.Valid(); got != test.valid {
				t.Errorf("%s: valid is %v, want %v", name, got, test.valid)
			}
			if got := time.Until(third.Deadline()); test.valid && got != test.left {
				t.Errorf("%s: %v left, want %v: counted from when the renewal was sent", name, got, test.left)
			}
			third.Release(t.Context())
			close(answer)
			c.Close()
		}
	})
}

// While one of ours waits in the store, because a lease lasted, a release goes to
// the store too: whoever is ahead there comes first. The block after that is handed
// on again.
func TestLongHoldSendsOneToTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		defer c.Close()
		other := newClient(t, memory.New(store), nil)
		defer other.Close()
		first := acquire(t, c.Mutex("k"))
		line := gather(t.Context(), c.Mutex("k"), 4)
		waiting := func() int {
			st, err := other.Inspect(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			return st.Waiting
		}
		time.Sleep(99 * time.Millisecond)
		if got := waiting(); got != 0 {
			t.Errorf("in line after 99ms: got %d, want none", got)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if got := waiting(); got != 1 {
			t.Errorf("in line after 100ms: got %d, want 1", got)
		}
		alone := gather(t.Context(), other.Mutex("k"), 1)
		if err := other.ForceRelease(t.Context(), "k", first.Holder(), "test"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		second := <-line.leases // though the first has not noticed
		second.Release(t.Context())
		third := <-line.leases
		if third.Holder() != second.Holder() || time.Since(start) != 0 {
			t.Errorf("after %v the third has claim %s, want %s at once", time.Since(start), third.Holder(), second.Holder())
		}
		<-first.Context().Done()
		synctest.Wait()
		third.Release(t.Context())
		(<-alone.leases).Release(t.Context())
		for range 2 {
			(<-line.leases).Release(t.Context())
		}
		synctest.Wait()
		wantFree(t, store, "k")
	})
}

// With a MinHold, and in a store without blocks, every hold asks the store.
func TestHandOverIsNotForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, opts := range map[string]*pawl.Options{
			"off":     {Handover: 1},
			"MinHold": {MinHold: time.Second},
		} {
			store := new(memory.Store)
			b, acquires, _ := counting(store)
			c := newClient(t, b, opts)
			start := time.Now()
			first := acquire(t, c.Mutex("k"))
			line := gather(t.Context(), c.Mutex("k"), 3)
			if got := acquires.Load(); got != 4 {
				t.Errorf("%s: got %d acquires, want 4", name, got)
			}
			first.Release(t.Context())
			for range 3 {
				(<-line.leases).Release(t.Context())
			}
			if got := time.Since(start); got < 3*opts.MinHold {
				t.Errorf("%s: three holds after %v, want %v each", name, got, opts.MinHold)
			}
			c.Close()
		}
	})
}

// While the store is down each waiter has its own patience, and none goes through
// the trouble of the one before it.
func TestFollowersShareTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, down(), nil)
		defer c.Close()
		start := time.Now()
		line := gather(t.Context(), c.Mutex("k"), 20)
		time.Sleep(4 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		line.join(ctx, c.Mutex("k"))
		if err, took := <-line.errs, time.Since(start); took != 5*time.Second || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errDown) {
			t.Errorf("the impatient one: got %v after %v, want the deadline and the trouble after 5s", err, took)
		}
		late := gather(t.Context(), c.Mutex("k"), 1)
		for range 20 {
			err := <-line.errs
			if took := time.Since(start); took > 12*time.Second || !errors.Is(err, errDown) {
				t.Errorf("got %v after %v, want the trouble after a TTL of 10s", err, took)
			}
		}
		if err, took := <-late.errs, time.Since(start); took < 15*time.Second || took > 17*time.Second || !errors.Is(err, errDown) {
			t.Errorf("who came after 5s: got %v after %v, want the trouble a TTL of 10s later", err, took)
		}
		time.Sleep(time.Minute) // until all withdrawals have been given up
	})
}

func TestCloseEndsFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		lease := acquire(t, c.Mutex("k"))
		line := gather(t.Context(), c.Mutex("k"), 5)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for range 5 {
			if err := <-line.errs; !errors.Is(err, pawl.ErrClosed) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		}
		if lease.Valid() {
			t.Error("the lease is valid after Close")
		}
		wantFree(t, store, "k")
	})
}
