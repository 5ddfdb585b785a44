package zookeeper

import (
	"sync"
	"time"
)

// signs are the signs of life that a session has given to the server it is
// connected to, those of the last minute at least.
//
// Sessions end on the clock of the leader, and a follower tells it whose signs it
// had only when the leader asks, twice in a tick; not when it hands on a request. So
// what a follower had just before it was lost never was, and the session may end a
// time-out after the sign before.
type signs struct {
	mu   sync.Mutex
	list []sign // of this connection, oldest first; guarded by mu
}

// A sign was sent, and the server had it when it answered.
type sign struct {
	sent, answered time.Time
	led            bool // it went through the leader: that one began or moved the session
}

// apart is the least time between two signs of the list, and recent for how long
// they are of use, which is longer than anybody waits for a grant.
const (
	apart  = 250 * time.Millisecond
	recent = time.Minute
)

// connected notes that the session has a new connection, which was asked for at sent.
// What the server before had may never have come to the leader.
func (s *signs) connected(sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = []sign{{sent: sent, led: true}}
}

// answered notes the answer to what was sent at sent.
func (s *signs) answered(sent, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.list); n > 0 && at.Sub(s.list[n-1].answered) < apart {
		return
	}
	s.list = append(s.list, sign{sent: sent, answered: at})
	for len(s.list) > 1 && at.Sub(s.list[1].answered) > recent {
		s.list = s.list[1:]
	}
}

// told returns when the last sign was sent of which the leader knew when it had a
// request on this connection that was sent at sent or later, given that its
// followers tell it once in a tick at the latest. It is zero if none is known.
func (s *signs) told(sent time.Time, tick time.Duration) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.list) - 1; i >= 0; i-- {
		if g := s.list[i]; g.led || sent.Sub(g.answered) >= tick {
			return g.sent
		}
	}
	return time.Time{}
}
