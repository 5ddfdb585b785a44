package pawl_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

// A wrong clock is off by so much, and otherwise as good as any.
type wrong time.Duration

func (w wrong) Now() time.Time     { return time.Now().Add(time.Duration(w)) }
func (wrong) Slept() time.Duration { return 0 }

// Of many machines, whose clocks differ by hours, one runs the job, and none again
// before the period is over; the first to try after that does.
func TestOnceRunsOnceInAPeriod(t *testing.T) { // I04
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		began := time.Now()
		var mu sync.Mutex
		var starts []time.Duration
		var all sync.WaitGroup
		for i := range 5 {
			c := newClient(t, memory.New(store), &pawl.Options{Clock: wrong(time.Duration(i-2) * 9 * time.Hour)})
			all.Go(func() {
				defer c.Close()
				time.Sleep(time.Duration(i) * time.Second)
				for time.Since(began) < 12*time.Hour {
					_, err := c.Once("k", time.Hour).Do(t.Context(), func(context.Context, *pawl.Lease) error {
						mu.Lock()
						starts = append(starts, time.Since(began))
						mu.Unlock()
						time.Sleep(time.Minute)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
					time.Sleep(10 * time.Second)
				}
			})
		}
		all.Wait()
		for i, at := range starts[1:] {
			if d := at - starts[i]; d < time.Hour || d > time.Hour+10*time.Second {
				t.Errorf("run %d: %v after the one before, want 1h, and up to 10s until somebody tries", i+1, d)
			}
		}
		if len(starts) != 12 {
			t.Errorf("got %d runs in 12h, want 12", len(starts))
		}
	})
}

// A run that was begun uses the period up, however it ends.
func TestARunUsesThePeriodUp(t *testing.T) {
	ends := map[string]func(c *pawl.Client, cut *atomic.Bool) error{
		"succeeds": func(*pawl.Client, *atomic.Bool) error { return nil },
		"fails":    func(*pawl.Client, *atomic.Bool) error { return errWork },
		"closes":   func(c *pawl.Client, _ *atomic.Bool) error { return c.Close() },
		"crashes":  func(_ *pawl.Client, cut *atomic.Bool) error { cut.Store(true); return errWork },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
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
				b.release = func(ctx context.Context, c driver.Claim) error {
					if cut.Load() {
						return errDown
					}
					return b.Backend.Release(ctx, c)
				}
				c, other := newClient(t, b, nil), newClient(t, memory.New(store), nil)
				defer other.Close()
				began := time.Now()
				did, err := c.Once("k", time.Hour).Do(t.Context(), func(context.Context, *pawl.Lease) error {
					time.Sleep(20 * time.Minute) // it is renewed, and not for longer than the period
					return end(c, &cut)
				})
				if !did || name == "fails" && !errors.Is(err, errWork) {
					t.Errorf("got %v, %v, want a run, and its error", did, err)
				}
				lease, err := other.Once("k", time.Hour).Lock().Acquire(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < time.Hour || took > time.Hour+time.Millisecond {
					t.Errorf("the next period began after %v, want 1h", took)
				}
				lease.Release(t.Context())
				c.Close()
			})
		})
	}
}

// A run that takes longer than the period keeps the key until it ends.
func TestALongRunKeepsTheNextAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		a, z := newClient(t, memory.New(store), nil), newClient(t, memory.New(store), nil)
		defer a.Close()
		defer z.Close()
		did, err := a.Once("k", time.Minute).Do(t.Context(), func(ctx context.Context, lease *pawl.Lease) error {
			for range 60 {
				time.Sleep(time.Minute)
				if err := lease.Check(0); err != nil {
					t.Errorf("the lease: %v", err)
				}
				if did, err := z.Once("k", time.Minute).Do(t.Context(), func(context.Context, *pawl.Lease) error { return nil }); did || err != nil {
					t.Errorf("beside it: got %v, %v, want no run", did, err)
				}
			}
			return nil
		})
		if !did || err != nil {
			t.Errorf("got %v, %v, want a run", did, err)
		}
		if did, err := z.Once("k", time.Minute).Do(t.Context(), func(context.Context, *pawl.Lease) error { return nil }); !did || err != nil {
			t.Errorf("after it: got %v, %v, want a run", did, err)
		}
	})
}

// Without an answer there is no run, and the period is not used up.
func TestAnOutageRunsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		b := &faulty{Backend: memory.New(store)}
		c := newClient(t, b, nil)
		b.acquire = func(ctx context.Context, claim driver.Claim) (driver.Grant, error) {
			b.Backend.Acquire(ctx, claim)
			return driver.Grant{}, errDown // it was granted, and nobody knows
		}
		did, err := c.Once("k", time.Hour).Do(t.Context(), func(context.Context, *pawl.Lease) error {
			t.Error("it was run")
			return nil
		})
		if did || !errors.Is(err, errDown) {
			t.Errorf("got %v, %v, want no run and the store's error", did, err)
		}
		c.Close()
		wantFree(t, store, "k")
	})
}

// An operator may end a period early; a run that is under way then is told.
func TestAPeriodMayBeEndedByForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		c := newClient(t, memory.New(store), nil)
		defer c.Close()
		once := c.Once("k", 24*time.Hour)
		did, err := once.Do(t.Context(), func(ctx context.Context, lease *pawl.Lease) error {
			if err := c.ForceRelease(ctx, "k", lease.Holder(), "wrong data"); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			return nil
		})
		if !did || !errors.Is(err, pawl.ErrLost) {
			t.Errorf("got %v, %v, want a run that was lost", did, err)
		}
		if did, err = once.Do(t.Context(), func(context.Context, *pawl.Lease) error { return nil }); !did || err != nil {
			t.Errorf("again: got %v, %v, want a run", did, err)
		}
		st, err := c.Inspect(t.Context(), "k")
		if err != nil || len(st.Holders) != 1 || !st.Holders[0].Held || st.Holders[0].Left != 24*time.Hour {
			t.Fatalf("got %+v, %v, want the rest of the period", st, err)
		}
		if err := c.ForceRelease(t.Context(), "k", st.Holders[0].ID, "once more"); err != nil {
			t.Error(err)
		}
		if did, err = once.Do(t.Context(), func(context.Context, *pawl.Lease) error { return nil }); !did || err != nil {
			t.Errorf("after the rest was ended: got %v, %v, want a run", did, err)
		}
	})
}

func TestPeriodsThatCanNotBeKept(t *testing.T) {
	b := &faulty{Backend: memory.New(nil)}
	b.acquire = func(context.Context, driver.Claim) (driver.Grant, error) {
		t.Error("an attempt was made")
		return driver.Grant{}, errDown
	}
	c := newClient(t, b, &pawl.Options{Grace: time.Hour})
	defer c.Close()
	for _, every := range []time.Duration{0, -time.Second, 365 * 24 * time.Hour, math.MaxInt64} {
		did, err := c.Once("k", every).Do(t.Context(), func(context.Context, *pawl.Lease) error { return nil })
		var field *pawl.FieldError
		if did || !errors.As(err, &field) || field.Field != "Every" {
			t.Errorf("%v: got %v, %v, want a *FieldError of Every", every, did, err)
		}
		wantOneError(t, err, "acquire")
	}
}
