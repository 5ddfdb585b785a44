package redis_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/redis"
)

// alphabet is a cluster of two: keys that begin with a are on one.
func alphabet(name string) (string, error) {
	if strings.Contains(name, "{lock:a") || strings.HasPrefix(name, "lock:a") {
		return "one", nil
	}
	return "two", nil
}

func waiterFor(ids *driver.Identity, key string) driver.Claim {
	c := waiter(ids)
	c.Key = key
	return c
}

func TestEachMasterHasOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShardedStage(t, time.Millisecond, alphabet)
		a1, a2, b := waiterFor(s.ids, "a1"), waiterFor(s.ids, "a2"), waiterFor(s.ids, "b")
		_, one := s.listening(t, a1)
		s.wait(t, a2, s.acquire(t, a2))
		_, two := s.listening(t, b)
		if len(s.subs) != 0 {
			t.Errorf("got %d connections more, want one for each of the two masters", len(s.subs))
		}
		// A master that is gone costs only those who wait for its keys.
		h1, h2, hb := s.acquire(t, a1), s.acquire(t, a2), s.acquire(t, b)
		one.Close()
		if got := s.wait(t, a1, h1); got > 100*time.Millisecond {
			t.Errorf("Wait over a broken connection: got %v, want 100ms at most", got)
		}
		if got := s.wait(t, a2, h2); got > 101*time.Millisecond {
			t.Errorf("the second Wait over a broken connection: got %v, want what it takes to connect again, 101ms, at most", got)
		}
		if got, want := s.wait(t, b, hb), 3200*time.Millisecond; got != want {
			t.Errorf("Wait over the other connection: got %v, want %v", got, want)
		}
		h := s.acquire(t, b)
		two.say("go", b.ID)
		if got := s.wait(t, b, h); got != 0 {
			t.Errorf("Wait of a claim that was called: got %v, want 0", got)
		}
	})
}

func TestAChannelThatMovesIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var home atomic.Value
		home.Store("one")
		s := newShardedStage(t, 0, func(string) (string, error) { return home.Load().(string), nil })
		c := waiterFor(s.ids, "k")
		id, _ := driver.ParseID(c.ID)
		h, one := s.listening(t, c)
		time.AfterFunc(70*time.Millisecond, func() {
			home.Store("two")
			one.messages <- redis.Message{Channel: "pawl:wake:{lock:k}:" + id.Client, Ended: true}
		})
		if got := s.wait(t, c, h); got != 70*time.Millisecond { // a call may have been missed
			t.Errorf("Wait over the move: got %v, want 70ms", got)
		}
		h, two := s.listening(t, c)
		two.say("go", c.ID)
		if got := s.wait(t, c, h); got != 0 {
			t.Errorf("Wait at the new master: got %v, want 0", got)
		}
		time.Sleep(c.TTL + 11*time.Second) // its place in line has ended
		for i, sub := range []*fakeSubscription{one, two} {
			select {
			case <-sub.closed:
			default:
				t.Errorf("connection %d is open though nobody waits", i)
			}
		}
	})
}

// The server says MOVED where a slot was when the map was drawn.
func TestAChannelWhoseMasterDoesNotKnowItIsAskedForElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var home atomic.Value
		home.Store("one")
		s := newShardedStage(t, time.Hour, func(string) (string, error) { return home.Load().(string), nil })
		c := waiterFor(s.ids, "k")
		h := s.acquire(t, c)
		time.AfterFunc(50*time.Millisecond, func() {
			one := <-s.subs
			home.Store("two")
			one.messages <- redis.Message{Payload: movedReply}
		})
		if got := s.wait(t, c, h); got != 400*time.Millisecond {
			t.Errorf("Wait without a confirmation: got %v, want 400ms", got)
		}
		s.wait(t, c, s.acquire(t, c))
		if two := <-s.subs; two == nil {
			t.Error("it was not asked for at the new master")
		}
	})
}

func TestChannelsThatNobodyNeedsAreLetGoOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShardedStage(t, time.Millisecond, func(string) (string, error) { return "one", nil })
		done, stays := waiterFor(s.ids, "done"), waiterFor(s.ids, "stays")
		_, sub := s.listening(t, done)
		s.wait(t, stays, s.acquire(t, stays))
		s.acquire(t, stays)
		if err := s.Release(t.Context(), done); err == nil {
			t.Fatal("the fake server answers all scripts alike")
		}
		time.Sleep(11 * time.Second)
		if got := sub.channels(); len(got) != 1 || !strings.HasPrefix(got[0], "pawl:wake:{lock:stays}:") {
			t.Errorf("channels after a while: got %q, want that of the key that is waited for", got)
		}
		h := s.acquire(t, done)
		s.wait(t, done, h) // listens again
		h = s.acquire(t, done)
		sub.say("go", done.ID)
		if got := s.wait(t, done, h); got != 0 {
			t.Errorf("Wait on a channel that was let go of and taken again: got %v, want 0", got)
		}
	})
}
