package pawl_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

// At one instant a lease is renewed, by hand and because it is due, forced out,
// released, looked at, and its client closed. Whoever comes first decides: the
// lease has one end, all who ask are told the same, and nothing is left.
// Cases A11, B07, B16.
func TestAnEndAtTheInstantOfTheOthers(t *testing.T) {
	causes := map[string]int{}
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			store := new(memory.Store)
			b := &faulty{Backend: memory.New(store)}
			b.renew = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
				g, err := b.Backend.Renew(ctx, c)
				if err == nil {
					time.Sleep(time.Millisecond) // the connection drops now and then
					if g.Token%2 == 0 {
						return driver.Grant{}, errDown
					}
				}
				return g, err
			}
			ends := map[*pawl.Lease]int{}
			var mu sync.Mutex
			c := newClient(t, b, &pawl.Options{Observer: &pawl.Observer{
				Lost:     func(l *pawl.Lease, _ *pawl.LostError) { mu.Lock(); ends[l]++; mu.Unlock() },
				Released: func(l *pawl.Lease, _ time.Duration, _ error) { mu.Lock(); ends[l]++; mu.Unlock() },
			}})
			admin := newClient(t, memory.New(store), nil)
			defer admin.Close()
			lease := acquire(t, c.Mutex("k"))
			at := time.Now().Add(10 * time.Second / 3) // when the renewal is due
			var wg sync.WaitGroup
			var told []error
			watch := func() error {
				<-lease.Context().Done()
				if context.Cause(lease.Context()) == nil || lease.Valid() {
					t.Errorf("the context has ended: cause %v, valid %v", context.Cause(lease.Context()), lease.Valid())
				}
				return nil
			}
			acts := []func() error{
				func() error { return lease.Release(t.Context()) },
				func() error { return lease.Release(t.Context()) },
				func() error { admin.ForceRelease(t.Context(), "k", lease.Holder(), ""); return nil },
				func() error { return c.Close() },
				func() error { lease.Renew(t.Context()); return nil },
				func() error { lease.Valid(); return nil },
				watch, watch,
			}
			rand.Shuffle(len(acts), func(i, j int) { acts[i], acts[j] = acts[j], acts[i] })
			wg.Go(func() { // if nobody else has ended it
				time.Sleep(time.Until(at.Add(time.Second)))
				c.Close()
			})
			for _, act := range acts[:2+rand.IntN(len(acts)-1)] {
				wg.Go(func() {
					time.Sleep(time.Until(at))
					if err := act(); err != nil {
						mu.Lock()
						told = append(told, err)
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			synctest.Wait()
			cause := context.Cause(lease.Context())
			var lost *pawl.LostError
			switch {
			case cause == pawl.ErrReleased:
				causes["released"]++
			case errors.As(cause, &lost):
				causes[lost.Reason]++
			default:
				t.Errorf("cause: got %v, want ErrReleased or a loss", cause)
			}
			for _, err := range told {
				if !errors.Is(err, pawl.ErrLost) {
					t.Errorf("got %v, want nothing or ErrLost", err)
				}
			}
			mu.Lock()
			if got := ends[lease]; got != 1 {
				t.Errorf("the observer was told %d ends, want 1", got)
			}
			mu.Unlock()
			time.Sleep(time.Minute)
			wantFree(t, store, "k")
		})
		if t.Failed() {
			break
		}
	}
	t.Logf("ends: %v", causes)
	if len(causes) < 3 {
		t.Errorf("got the ends %v, want three kinds at least: the test has tested little", causes)
	}
}

// A signal that is asked for after the loss has come already, and says why.
// Case A11.
func TestALossThatNobodyWaitedForIsToldWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &faulty{Backend: memory.New(nil)}
		b.renew = func(context.Context, driver.Claim) (driver.Grant, error) { return driver.Grant{}, errDown }
		c := newClient(t, b, nil)
		defer c.Close()
		lease := acquire(t, c.Mutex("k"))
		time.Sleep(time.Hour)
		select {
		case <-lease.Context().Done():
		default:
			t.Error("the lease has been over for an hour, and its context has not ended")
		}
		if !errors.Is(context.Cause(lease.Context()), pawl.ErrLost) {
			t.Errorf("cause: got %v, want ErrLost", context.Cause(lease.Context()))
		}
	})
}
