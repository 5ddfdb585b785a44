package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

// A Lock has no state, and who holds is the lease: goroutines that share one
// Lock, or have several of the same name, exclude each other. Each cancels the
// context of its wait as soon as it is granted, which ends nobody's hold.
// Cases C02, K11, T7, T13.
func TestOneLockSharedByGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(nil), nil)
		defer c.Close()
		shared := c.Mutex("k")
		var inside, holds atomic.Int32
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for range 50 {
					lock := shared
					if i%2 == 0 {
						lock = c.Mutex("k")
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					lease, err := lock.Acquire(ctx)
					cancel()
					if err != nil {
						t.Error(err)
						return
					}
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d are inside, want 1", n)
					}
					time.Sleep(20 * time.Second) // longer than the TTL
					if !lease.Valid() {
						t.Errorf("lost: %v", context.Cause(lease.Context()))
					}
					inside.Add(-1)
					holds.Add(1)
					if err := lease.Release(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if got := holds.Load(); got != 400 {
			t.Errorf("got %d holds, want 400", got)
		}
	})
}

// The label is for those who look. Two who have the same are two.
// Case C05.
func TestALabelIsNoIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		opts := &pawl.Options{Label: "job-1"}
		a, b := newClient(t, memory.New(store), opts), newClient(t, memory.New(store), opts)
		defer a.Close()
		defer b.Close()
		lease := acquire(t, a.Mutex("k"))
		if _, err := b.Mutex("k").TryAcquire(t.Context()); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("with the label of the holder: got %v, want ErrHeld", err)
		}
		if err := lease.Renew(t.Context()); err != nil {
			t.Error(err)
		}
		next := make(chan *pawl.Lease)
		go func() { next <- acquire(t, b.Mutex("k")) }()
		synctest.Wait()
		lease.Release(t.Context())
		other := <-next
		if lease.Holder() == other.Holder() {
			t.Errorf("two holds have the ID %q", lease.Holder())
		}
		if err := lease.Release(t.Context()); err != nil || !other.Valid() {
			t.Errorf("releasing again: got %v, and the other is valid: %v", err, other.Valid())
		}
		other.Release(t.Context())
	})
}

// Twenty thousand locks of sixty-four servers are held for two TTLs, five in a
// soak, by one timer and no goroutine. None is lost but those of the server that has frozen, which are told so in time, and
// whose renewals hold up nobody else's.
// Cases B13, K10.
func TestManyLocksAreRenewedPastASlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, servers = 20_000, 64
		hold := 20 * time.Second
		if os.Getenv("PAWL_SOAK") == "1" {
			hold = 50 * time.Second
		}
		key := func(i int) string { return fmt.Sprintf("%d/%d", i%servers, i) }
		const frozen = "7/"
		b := &faulty{Backend: memory.New(nil)}
		b.renew = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			if strings.HasPrefix(c.Key, frozen) {
				<-ctx.Done()
				return driver.Grant{}, context.Cause(ctx)
			}
			return b.Backend.Renew(ctx, c)
		}
		var late atomic.Int32
		c := newClient(t, b, &pawl.Options{Observer: &pawl.Observer{Renewed: func(_ *pawl.Lease, _, left time.Duration) {
			if left < 3*time.Second { // of 8.898 s, and due at 5.5 s at the latest
				late.Add(1)
			}
		}}, RenewEvery: 5 * time.Second})
		start, before := time.Now(), runtime.NumGoroutine()
		leases := make([]*pawl.Lease, n)
		for i := range leases { // all held at once by one goroutine: no two names meet
			leases[i] = acquire(t, c.Mutex(key(i)))
		}
		time.Sleep(hold - time.Since(start))
		synctest.Wait()
		if got := runtime.NumGoroutine() - before; got > n/servers+10 {
			t.Errorf("%d goroutines for %d leases between renewals, want none but for those of the frozen server", got, n)
		}
		lost := 0
		for i, lease := range leases {
			switch onFrozen := strings.HasPrefix(key(i), frozen); {
			case lease.Valid() && onFrozen:
				t.Fatalf("%s was not renewed for %v, and is valid", key(i), hold)
			case !lease.Valid() && !onFrozen:
				t.Fatalf("%s is lost: %v", key(i), context.Cause(lease.Context()))
			case onFrozen:
				lost++
			}
		}
		if lost != n/servers+1 && lost != n/servers {
			t.Errorf("%d leases are lost, want those of one server of %d", lost, servers)
		}
		if got := late.Load(); got > 0 {
			t.Errorf("%d renewals came late, want none", got)
		}
		c.Close()
	})
}

// Ten thousand locks, ten times as many in a soak, each acquired and released at
// about the time when its first renewal is due, leave no renewal behind.
// Case B01.
func TestNoRenewalOutlivesManyReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 100
		each := 100
		if os.Getenv("PAWL_SOAK") == "1" {
			each *= 10
		}
		var renewals atomic.Int64
		b := &faulty{Backend: memory.New(nil)}
		b.renew = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			renewals.Add(1)
			time.Sleep(time.Duration(renewals.Load()%3) * time.Millisecond)
			return b.Backend.Renew(ctx, c)
		}
		c := newClient(t, b, &pawl.Options{TTL: time.Second, RenewEvery: 100 * time.Millisecond})
		defer c.Close()
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				lock := c.Mutex(fmt.Sprint(w))
				for i := range each {
					lease := acquire(t, lock)
					time.Sleep(time.Duration(90+i%25) * time.Millisecond)
					if err := lease.Release(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		synctest.Wait() // for those that were sent before the last release
		time.Sleep(10 * time.Millisecond)
		before := renewals.Load()
		if before < int64(workers*each/10) {
			t.Errorf("%d renewals in all: the test has tested little", before)
		}
		time.Sleep(time.Hour)
		if got := renewals.Load() - before; got != 0 {
			t.Errorf("%d renewals after the last release, want none", got)
		}
	})
}

// What a client has ever locked costs it nothing, nor does waiting for long.
// Cases O01, O04.
func TestAClientDoesNotGrow(t *testing.T) {
	for name, play := range map[string]func(t *testing.T, c *pawl.Client, n int){
		"names": func(t *testing.T, c *pawl.Client, n int) {
			for i := range n / 4 {
				acquire(t, c.Mutex(fmt.Sprint("name ", i))).Release(t.Context())
			}
		},
		"waiting": func(t *testing.T, c *pawl.Client, n int) {
			_, err := c.Mutex("held").Acquire(after(t, time.Duration(n)*time.Second))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the deadline", err)
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			// A store that keeps nothing: what grows is the client's.
			b := &faulty{Backend: memory.New(nil)}
			b.acquire = func(_ context.Context, c driver.Claim) (driver.Grant, error) {
				if c.Key == "held" {
					return driver.Grant{}, &driver.HeldError{Place: 1, Left: time.Hour}
				}
				return driver.Grant{Token: 1, Block: 1, TTL: c.TTL, Holder: c.ID}, nil
			}
			b.wait = func(ctx context.Context, _ driver.Claim, _ *driver.HeldError) error {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			b.release = func(context.Context, driver.Claim) error { return nil }
			c := newClient(t, b, nil)
			defer c.Close()
			const n = 86_400 // four for each name, or seconds of a day
			play(t, c, n/10)
			before := inUse()
			play(t, c, n)
			if grown := inUse() - before; grown > 1<<20 {
				t.Errorf("%s: %d more bytes are in use after %d, want less than a MiB", name, grown, n)
			}
			runtime.KeepAlive(c)
		})
	}
}

// inUse returns how many bytes of the heap are.
func inUse() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
