package memory_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

var ids = driver.NewIdentity("test")

func mutex(key string, ttl time.Duration) driver.Claim {
	return driver.Claim{Key: key, ID: ids.Next(), Label: "test", Weight: 1, Capacity: 1, TTL: ttl}
}

func take(t *testing.T, b driver.Backend, c driver.Claim) driver.Claim {
	t.Helper()
	g, err := b.Acquire(t.Context(), c)
	if err != nil {
		t.Fatalf("Acquire of a free %q: %v", c.Key, err)
	}
	c.Grant = g
	return c
}

// wait waits as the core does, and returns the grant.
func wait(ctx context.Context, b driver.Backend, c driver.Claim) (driver.Grant, error) {
	for {
		g, err := b.Acquire(ctx, c)
		var held *driver.HeldError
		if !errors.As(err, &held) {
			return g, err
		}
		if err := b.Wait(ctx, c, held); err != nil {
			return g, err
		}
	}
}

func TestAClaimEndsExactlyWithItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(nil)
		const ttl = 7 * time.Second
		take(t, b, mutex("k", ttl))
		time.Sleep(ttl - time.Nanosecond)
		if _, err := b.Acquire(t.Context(), mutex("k", ttl)); !errors.Is(err, driver.ErrHeld) {
			t.Errorf("a nanosecond before the end: got %v, want ErrHeld", err)
		}
		time.Sleep(time.Nanosecond)
		take(t, b, mutex("k", ttl))
	})
}

func TestAWaiterIsServedAtTheInstantThereIsRoom(t *testing.T) {
	for name, end := range map[string]func(driver.Backend, driver.Claim) time.Duration{
		"expired": func(driver.Backend, driver.Claim) time.Duration { return 10 * time.Second },
		"released": func(b driver.Backend, c driver.Claim) time.Duration {
			time.Sleep(3 * time.Second)
			b.Release(context.Background(), c)
			return 3 * time.Second
		},
		"kept": func(b driver.Backend, c driver.Claim) time.Duration {
			time.Sleep(3 * time.Second)
			c.Keep = 2 * time.Second
			b.Release(context.Background(), c)
			return 5 * time.Second
		},
		"forced": func(b driver.Backend, c driver.Claim) time.Duration {
			time.Sleep(4 * time.Second)
			b.Revoke(context.Background(), c.Key, c.ID, driver.Notice{Force: true})
			return 4 * time.Second
		},
		"renewed, then expired": func(b driver.Backend, c driver.Claim) time.Duration {
			time.Sleep(9 * time.Second)
			b.Renew(context.Background(), c)
			return 19 * time.Second
		},
	} {
		for _, queue := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, queue %v", name, queue), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := memory.New(nil)
					start := time.Now()
					c := take(t, b, mutex("k", 10*time.Second))
					served := make(chan time.Duration, 1)
					go func() {
						next := mutex("k", time.Minute)
						next.Queue = queue
						if _, err := wait(t.Context(), b, next); err != nil {
							t.Errorf("waiter: %v", err)
						}
						served <- time.Since(start)
					}()
					synctest.Wait()
					want := end(b, c)
					if got := <-served; got != want {
						t.Errorf("waiter served after %v, want %v", got, want)
					}
				})
			})
		}
	}
}

func TestWaitEndsWithItsContextAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(nil)
		take(t, b, mutex("k", time.Minute))
		reason := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(reason) })
		start := time.Now()
		if _, err := wait(ctx, b, mutex("k", time.Minute)); !errors.Is(err, reason) {
			t.Errorf("Wait: got %v, want %v", err, reason)
		}
		if got := time.Since(start); got != time.Second {
			t.Errorf("Wait returned after %v, want 1s", got)
		}
	})
}

func TestALateRequestIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.Sleep(time.Second)
		if _, err := b.Acquire(ctx, mutex("k", time.Minute)); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("Acquire at its deadline: got %v, want ErrRefused", err)
		}
		take(t, b, mutex("k", time.Minute))
	})
}

func TestStoresAreApart(t *testing.T) {
	shared := new(memory.Store)
	take(t, memory.New(shared), mutex("k", time.Minute))
	if _, err := memory.New(shared).Acquire(t.Context(), mutex("k", time.Minute)); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("another backend on the same store: got %v, want ErrHeld", err)
	}
	take(t, memory.New(new(memory.Store)), mutex("k", time.Minute))
	take(t, memory.New(nil), mutex("k", time.Minute))
	take(t, memory.New(nil), mutex("k", time.Minute)) // each nil is a store of its own
}

// Tokens go on rising where the store has forgotten a key for want of use.
func TestForgottenKeysKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(nil)
		c := take(t, b, mutex("old", time.Minute))
		held := take(t, b, mutex("held", 1000*time.Hour))
		b.Release(t.Context(), c)
		for round := range 3 { // so many keys that the idle ones are dropped
			time.Sleep(2 * time.Hour)
			for i := range 3000 {
				c := take(t, b, mutex(fmt.Sprint(round, ".", i), time.Minute))
				b.Release(t.Context(), c)
			}
		}
		if again := take(t, b, mutex("old", time.Minute)); again.Grant.Token <= c.Grant.Token {
			t.Errorf("token of a key after a long time: got %d, want more than %d", again.Grant.Token, c.Grant.Token)
		}
		if _, err := b.Acquire(t.Context(), mutex("held", time.Minute)); !errors.Is(err, driver.ErrHeld) {
			t.Errorf("a key that is held: got %v, want ErrHeld: a holder is never forgotten", err)
		}
		if _, err := b.Renew(t.Context(), held); err != nil {
			t.Errorf("Renew: got %v, want a grant", err)
		}
	})
}

// Many goroutines, one key, a plain counter that only the lock protects: the
// race detector sees what the lock lets through.
func TestTheLockOrdersMemory(t *testing.T) {
	const workers, each = 8, 50
	b := memory.New(nil)
	counter := 0
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range each {
				c := mutex("k", time.Minute)
				c.Queue = true
				g, err := wait(context.Background(), b, c)
				if err != nil {
					t.Errorf("waiter: %v", err)
					return
				}
				counter++
				c.Grant = g
				b.Release(context.Background(), c)
			}
		})
	}
	all.Wait()
	if counter != workers*each {
		t.Errorf("counter: got %d, want %d", counter, workers*each)
	}
}
