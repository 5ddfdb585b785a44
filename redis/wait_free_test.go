package redis_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/redis"
)

// attempt returns a claim as a quorum has it at its nodes.
func attempt(ids *driver.Identity) driver.Claim {
	return driver.Claim{Key: "k", ID: ids.Next() + "~1", Weight: 1, Capacity: 1, TTL: time.Minute}
}

// refused makes an attempt that finds no room; it stays in no line.
func (s *stage) refused(t *testing.T, c driver.Claim) *driver.HeldError {
	t.Helper()
	h := s.acquire(t, c)
	h.Place = 0
	return h
}

func freed(at time.Time) string { return strconv.FormatInt(at.UnixMicro(), 10) }

func TestAReleaseEndsTheWaitsOfAllAttemptsOfQuorums(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, time.Millisecond)
		a, b := attempt(s.ids), attempt(s.ids)
		ha, hb := s.refused(t, a), s.refused(t, b)
		time.AfterFunc(70*time.Millisecond, func() { (<-s.subs).publish("pawl:free:lock:k", freed(time.Now())) })
		took := make(chan time.Duration, 1)
		go func() { took <- s.wait(t, b, hb) }()
		if x, y := s.wait(t, a, ha), <-took; x != 70*time.Millisecond || y != x {
			t.Errorf("Waits of two attempts: got %v and %v, want 70ms", x, y)
		}
	})
}

func TestAReleaseBeforeTheWaitOfAnAttemptIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		c := attempt(s.ids)
		if got := s.wait(t, c, s.refused(t, c)); got != 400*time.Millisecond {
			t.Errorf("Wait that nobody ends: got %v, want 400ms", got)
		}
		sub := <-s.subs
		h := s.refused(t, c)
		h.Now = time.Now()
		sub.publish("pawl:free:lock:k", freed(h.Now.Add(time.Microsecond)))
		synctest.Wait()
		if got := s.wait(t, c, h); got != 0 {
			t.Errorf("Wait after a release: got %v, want 0", got)
		}
		h.Now = h.Now.Add(time.Microsecond) // refused after the release
		if got := s.wait(t, c, h); got != 400*time.Millisecond {
			t.Errorf("Wait after a release that came before the refusal: got %v, want 400ms", got)
		}
		sub.publish("pawl:free:lock:other", freed(time.Now()))
		sub.publish("pawl:free:lock:k", "nonsense")
		if got := s.wait(t, c, h); got != 400*time.Millisecond {
			t.Errorf("Wait while another key is freed: got %v, want 400ms", got)
		}
	})
}

func TestTheChannelOfAKeyIsLeftWhenNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		c := waiter(s.ids) // who keeps the connection
		_, sub := s.listening(t, c)
		x := attempt(s.ids)
		s.wait(t, x, s.refused(t, x))
		time.Sleep(11 * time.Second)
		if got := sub.channels(); len(got) != 1 || got[0] == "pawl:free:lock:k" {
			t.Errorf("channels when nobody waits for the key: got %q, want the other's alone", got)
		}
	})
}

func (s *fakeSubscription) publish(channel, payload string) {
	s.messages <- redis.Message{Channel: channel, Payload: payload}
}
