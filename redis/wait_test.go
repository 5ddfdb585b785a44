package redis_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/redis"
)

func TestPauseIsShortForThoseWhoMayBeNext(t *testing.T) {
	claim := driver.Claim{TTL: time.Minute, Queue: true}
	for _, test := range []struct {
		c    driver.Claim
		h    driver.HeldError
		want time.Duration
	}{
		{claim, driver.HeldError{Place: 1, Left: 9 * time.Second}, 400 * time.Millisecond},
		{claim, driver.HeldError{Place: 1, Left: 9 * time.Millisecond}, 10 * time.Millisecond},
		{claim, driver.HeldError{Place: 1, Left: -1}, 400 * time.Millisecond},
		{claim, driver.HeldError{Place: 1}, time.Millisecond}, // the store has more to tidy up
		{claim, driver.HeldError{Place: 2, Left: 9 * time.Millisecond}, 400 * time.Millisecond},
		{claim, driver.HeldError{Place: 3}, 800 * time.Millisecond},
		{claim, driver.HeldError{Place: 10}, 3600 * time.Millisecond},
		{claim, driver.HeldError{Place: 10_000}, 5 * time.Second},
		{driver.Claim{TTL: 600 * time.Millisecond, Queue: true}, driver.HeldError{Place: 10}, 200 * time.Millisecond}, // or it loses its place
		{driver.Claim{TTL: 600 * time.Millisecond}, driver.HeldError{Left: time.Second}, 400 * time.Millisecond},
	} {
		if got := redis.PauseFor(test.c, &test.h); got != test.want {
			t.Errorf("pause of %+v at %+v: got %v, want %v", test.c, test.h, got, test.want)
		}
	}
}

// A stage is a backend on a node whose subscriptions the test holds in hand.
type stage struct {
	driver.Backend
	ids  *driver.Identity
	subs chan *fakeSubscription
}

func newStage(t *testing.T, confirmAfter time.Duration) *stage {
	return newShardedStage(t, confirmAfter, nil)
}

// newShardedStage returns a stage in a cluster, unless home is nil.
func newShardedStage(t *testing.T, confirmAfter time.Duration, home func(name string) (string, error)) *stage {
	s := &stage{ids: driver.NewIdentity("me"), subs: make(chan *fakeSubscription, 10)}
	node := &fakeNode{
		evalSHA: held(9, time.Minute),
		home:    home,
		subscribe: func(_ context.Context, channel string) (redis.Subscription, error) {
			sub := newFakeSubscription(channel, confirmAfter)
			s.subs <- sub
			return sub, nil
		},
	}
	b, err := redis.New(node, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Backend = b
	t.Cleanup(func() { b.Close() })
	return s
}

// acquire makes an attempt that finds no room.
func (s *stage) acquire(t *testing.T, c driver.Claim) *driver.HeldError {
	t.Helper()
	_, err := s.Acquire(t.Context(), c)
	var h *driver.HeldError
	if !errors.As(err, &h) {
		t.Fatalf("Acquire: got %v, want a *HeldError", err)
	}
	return h
}

// wait measures a Wait.
func (s *stage) wait(t *testing.T, c driver.Claim, h *driver.HeldError) time.Duration {
	t.Helper()
	began := time.Now()
	if err := s.Wait(t.Context(), c, h); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	return time.Since(began)
}

// listening brings c to where its Acquire was sent after the confirmation.
func (s *stage) listening(t *testing.T, c driver.Claim) (*driver.HeldError, *fakeSubscription) {
	s.wait(t, c, s.acquire(t, c))
	return s.acquire(t, c), <-s.subs
}

// Case D01.
func TestTheFirstWaitLastsUntilTheSubscriptionIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 30*time.Millisecond)
		c := waiter(s.ids)
		if got := s.wait(t, c, s.acquire(t, c)); got != 30*time.Millisecond {
			t.Errorf("first Wait: got %v, want 30ms", got)
		}
		if got, want := s.wait(t, c, s.acquire(t, c)), 3200*time.Millisecond; got != want {
			t.Errorf("second Wait, at place 9: got %v, want %v", got, want)
		}
	})
}

// Nothing is kept of an attempt once it is over. Case O01.
func TestADayOfWaitingLeavesNoMoreThanAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 30*time.Millisecond)
		c := waiter(s.ids)
		attempts := 0
		for began := time.Now(); time.Since(began) < 24*time.Hour; attempts++ {
			s.wait(t, c, s.acquire(t, c))
		}
		if latches, channels := redis.Remembered(s.Backend); latches != 1 || channels != 1 || attempts < 20_000 {
			t.Errorf("after %d attempts of one claim: got %d latches and %d channels, want one of each", attempts, latches, channels)
		}
	})
}

// Case D02.
func TestEverybodyPollsWhileTheSubscriptionIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, time.Hour)
		c := waiter(s.ids)
		for range 3 {
			if got := s.wait(t, c, s.acquire(t, c)); got != 400*time.Millisecond {
				t.Errorf("Wait at place 9: got %v, want 400ms", got)
			}
		}
	})
}

// Case D01.
func TestACallBeforeTheWaitIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		c := waiter(s.ids)
		h, sub := s.listening(t, c)
		sub.say("go", c.ID)
		synctest.Wait()
		if got := s.wait(t, c, h); got != 0 {
			t.Errorf("Wait of a claim that was called: got %v, want 0", got)
		}
		h = s.acquire(t, c)
		sub.say("go", s.ids.Next()) // somebody else
		if got, want := s.wait(t, c, h), 3200*time.Millisecond; got != want {
			t.Errorf("Wait of a claim that was not called: got %v, want %v", got, want)
		}
	})
}

func TestACallWhileWaitingEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		c := waiter(s.ids)
		h, sub := s.listening(t, c)
		time.AfterFunc(70*time.Millisecond, func() { sub.say("go", c.ID) })
		if got := s.wait(t, c, h); got != 70*time.Millisecond {
			t.Errorf("Wait: got %v, want 70ms", got)
		}
	})
}

func TestTheOneWhoIsNextPollsFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		c := waiter(s.ids)
		h, sub := s.listening(t, c)
		time.AfterFunc(70*time.Millisecond, func() { sub.say("next", c.ID) })
		if got := s.wait(t, c, h); got != 470*time.Millisecond {
			t.Errorf("Wait: got %v, want 400ms from being told", got)
		}
		h = s.acquire(t, c)
		sub.say("next", c.ID)
		sub.say("go", c.ID)
		synctest.Wait()
		if got := s.wait(t, c, h); got != 0 {
			t.Errorf("Wait after next and go: got %v, want 0", got)
		}
	})
}

// Case D02.
func TestABrokenConnectionEndsAllWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		a, b := waiter(s.ids), waiter(s.ids)
		ha, sub := s.listening(t, a)
		hb := s.acquire(t, b)
		sub.Close()
		synctest.Wait()
		for _, w := range []struct {
			c driver.Claim
			h *driver.HeldError
		}{{a, ha}, {b, hb}} {
			// At once, or as soon as there is a connection again.
			if got := s.wait(t, w.c, w.h); got > 100*time.Millisecond {
				t.Errorf("Wait over a broken connection: got %v, want 100ms at most", got)
			}
		}
		h := s.acquire(t, a)
		sub = <-s.subs
		sub.say("go", a.ID)
		if got := s.wait(t, a, h); got != 0 {
			t.Errorf("Wait on the new connection: got %v, want 0", got)
		}
	})
}

func TestClientsShareOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, time.Millisecond)
		a, b := waiter(s.ids), waiter(driver.NewIdentity("other"))
		_, sub := s.listening(t, a)
		s.wait(t, b, s.acquire(t, b))
		h := s.acquire(t, b)
		sub.say("go", b.ID)
		if got := s.wait(t, b, h); got != 0 {
			t.Errorf("Wait of the second client: got %v, want 0", got)
		}
		if len(s.subs) != 0 {
			t.Errorf("got %d more connections, want one for both clients", len(s.subs))
		}
	})
}

func TestTheConnectionEndsWhenNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		c := waiter(s.ids)
		_, sub := s.listening(t, c)
		time.Sleep(15 * time.Second)
		select {
		case <-sub.closed:
			t.Error("the connection was closed while a claim waits")
		default:
		}
		time.Sleep(c.TTL) // its place in line has ended
		select {
		case <-sub.closed:
		default:
			t.Error("the connection is open though nobody waits")
		}
		if got := s.wait(t, c, s.acquire(t, c)); got != 0 || len(s.subs) != 1 {
			t.Errorf("Wait after a rest: got %v and %d connections, want a new one at once", got, len(s.subs))
		}
	})
}

func TestCloseEndsTheSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		c := waiter(s.ids)
		h, sub := s.listening(t, c)
		s.Close()
		select {
		case <-sub.closed:
		default:
			t.Error("Close left the connection open")
		}
		if got := s.wait(t, c, h); got > 400*time.Millisecond {
			t.Errorf("Wait after Close: got %v, want 400ms at most", got)
		}
		s.Close()
	})
}

func TestWaitReturnsWhenTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		c := waiter(s.ids)
		h, _ := s.listening(t, c)
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, cause)
		defer cancel()
		began := time.Now()
		if err := s.Wait(ctx, c, h); err != cause || time.Since(began) != 50*time.Millisecond {
			t.Errorf("Wait: got %v after %v, want %v after 50ms", err, time.Since(began), cause)
		}
	})
}
