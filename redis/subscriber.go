package redis

import (
	"context"
	"strings"
	"sync"
	"time"
)

// A call is what the store has to say to a claim that waits.
type call int

const (
	callGo   call = iota + 1 // there is room: ask again
	callNext                 // it comes after the one that was called
)

const (
	rest       = 10 * time.Second // a session that nobody needs for so long ends
	minBackoff = 100 * time.Millisecond
	maxBackoff = 3 * time.Second
)

// channel returns where the store calls the claims of a client.
func channel(client string) string { return "pawl:wake:" + client }

// A subscriber listens for calls, on one connection for all claims of the
// backend. It connects when a claim waits.
//
// No call is lost. A claim has a latch from before its Acquire is sent,
// provided that the subscription was confirmed by then, and a call that comes
// before its Wait stays in the latch. When the connection breaks all latches
// are set, since any call may have been missed.
type subscriber struct {
	node Node

	mu      sync.Mutex        // never held across I/O
	latches map[string]*latch // by claim ID; guarded by mu
	session *session          // nil while nobody waits; guarded by mu
	closed  bool              // guarded by mu
	running sync.WaitGroup    // the goroutines of all sessions
}

// A latch keeps the last call for a claim until it waits.
type latch struct {
	calls   chan call // holds one
	expires time.Time // when its place in line is gone
}

// A session is a goroutine that keeps one connection.
type session struct {
	ctx      context.Context
	cancel   context.CancelFunc
	conn     Subscription             // nil while down; guarded by subscriber.mu
	channels map[string]chan struct{} // closed once confirmed; guarded by subscriber.mu
	timer    *time.Timer              // ends the session when nobody waits any more
}

func newSubscriber(node Node) *subscriber {
	return &subscriber{node: node, latches: make(map[string]*latch)}
}

// expect readies the latch of a claim whose Acquire is about to be sent. Without
// a confirmed subscription there is none.
func (s *subscriber) expect(claim, client string, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil || !confirmed(s.session.channels[channel(client)]) {
		delete(s.latches, claim)
		return
	}
	s.latches[claim] = &latch{calls: make(chan call, 1), expires: time.Now().Add(ttl)}
}

// forget drops the latch of a claim that waits no more.
func (s *subscriber) forget(claim string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.latches, claim)
}

// calls returns the calls for a claim since before its last Acquire was sent,
// and false if they can't be known.
func (s *subscriber) calls(claim string) (<-chan call, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.latches[claim]
	if l == nil {
		return nil, false
	}
	return l.calls, true
}

// listen sees to it that the channel of client is listened to, and reports
// whether that was confirmed before limit had passed.
func (s *subscriber) listen(ctx context.Context, client string, limit time.Duration) bool {
	ready := s.join(channel(client))
	if ready == nil {
		return false
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ready:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// join adds name to the channels of the session, begins one if there is none,
// and returns what is closed on confirmation: nil if s is closed.
func (s *subscriber) join(name string) <-chan struct{} {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	n := s.session
	if n == nil {
		n = &session{channels: make(map[string]chan struct{})}
		n.ctx, n.cancel = context.WithCancel(context.Background())
		n.timer = time.AfterFunc(rest, func() { s.retire(n) })
		s.session = n
		s.running.Go(func() { s.run(n) })
	}
	ready := n.channels[name]
	var conn Subscription
	if ready == nil {
		ready = make(chan struct{})
		n.channels[name] = ready
		conn = n.conn
	}
	s.mu.Unlock()
	if conn != nil {
		conn.Subscribe(n.ctx, name) // an error comes from Receive too, and ends the connection
	}
	return ready
}

// run keeps the connection of n until n is cancelled.
func (s *subscriber) run(n *session) {
	backoff := minBackoff
	for n.ctx.Err() == nil {
		worked := s.connect(n)
		s.broken(n)
		if worked {
			backoff = minBackoff
		}
		select {
		case <-n.ctx.Done():
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// connect opens a connection and hands on what it receives until it breaks. It
// reports whether anything came.
func (s *subscriber) connect(n *session) (worked bool) {
	names := s.names(n)
	conn, err := s.node.Subscribe(n.ctx, names[0])
	if err != nil {
		return false
	}
	defer conn.Close()
	s.mu.Lock()
	n.conn = conn
	s.mu.Unlock()
	defer context.AfterFunc(n.ctx, func() { conn.Close() })()
	for _, name := range s.names(n) {
		if name != names[0] && conn.Subscribe(n.ctx, name) != nil {
			return false
		}
	}
	for {
		m, err := conn.Receive(n.ctx)
		if err != nil {
			return worked
		}
		worked = true
		s.receive(n, m)
	}
}

func (s *subscriber) names(n *session) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(n.channels))
	for name := range n.channels {
		names = append(names, name)
	}
	return names
}

func (s *subscriber) receive(n *session, m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Confirmed {
		if ready := n.channels[m.Channel]; ready != nil && !confirmed(ready) {
			close(ready)
		}
		return
	}
	verb, claim, _ := strings.Cut(m.Payload, " ")
	l := s.latches[claim]
	if l == nil {
		return
	}
	switch verb {
	case "go":
		l.set()
	case "next":
		select {
		case l.calls <- callNext:
		default:
		}
	}
}

// broken takes note that the connection of n has ended.
func (s *subscriber) broken(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.conn = nil
	for name, ready := range n.channels {
		if confirmed(ready) {
			n.channels[name] = make(chan struct{})
		}
	}
	if s.session != n {
		return // a newer session has latches of its own
	}
	for claim, l := range s.latches {
		l.set()
		delete(s.latches, claim)
	}
}

// retire ends n unless somebody has waited lately.
func (s *subscriber) retire(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != n {
		return
	}
	now := time.Now()
	for claim, l := range s.latches {
		if l.expires.Before(now) {
			delete(s.latches, claim)
		}
	}
	if len(s.latches) > 0 {
		n.timer.Reset(rest)
		return
	}
	s.session = nil
	n.cancel()
}

func (s *subscriber) close() {
	s.mu.Lock()
	s.closed = true
	if n := s.session; n != nil {
		s.session = nil
		n.timer.Stop()
		n.cancel()
	}
	for claim, l := range s.latches {
		l.set()
		delete(s.latches, claim)
	}
	s.mu.Unlock()
	s.running.Wait()
}

// set calls the claim. Only the subscriber sends, under its mutex, so that there
// is room once what was there has been taken.
func (l *latch) set() {
	select {
	case <-l.calls:
	default:
	}
	l.calls <- callGo
}

func confirmed(ready chan struct{}) bool {
	select {
	case <-ready:
		return true
	default:
		return false
	}
}
