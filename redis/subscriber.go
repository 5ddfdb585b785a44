package redis

import (
	"context"
	"maps"
	"slices"
	"strconv"
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

// A subscriber listens for calls, on one connection for all claims of the
// backend; in a cluster on one to each server that has keys they wait for. It
// connects when a claim waits.
//
// No call is lost. A claim has a latch from before its Acquire is sent,
// provided that the subscription was confirmed by then, and a call that comes
// before its Wait stays in the latch. When the connection breaks, or a channel
// moves to another server, the latches are set: any call may have been missed.
type subscriber struct {
	node Node

	mu       sync.Mutex          // never held across I/O
	latches  map[string]*latch   // by claim ID; guarded by mu
	sessions map[string]*session // by home, while somebody waits; guarded by mu
	homes    map[string]*session // by channel: the session that has it; guarded by mu
	freed    map[string]int64    // by channel of a key: when it was freed last, in µs of the store's clock; guarded by mu
	closed   bool                // guarded by mu
	running  sync.WaitGroup      // the goroutines of all sessions
}

// A latch keeps the last call for a claim until it waits.
type latch struct {
	calls   chan call // holds one
	expires time.Time // when its place in line is gone
	channel string
	session *session
}

// A session is a goroutine that keeps one connection.
type session struct {
	home     string // the server of a cluster, else ""
	ctx      context.Context
	cancel   context.CancelFunc
	conn     Subscription             // nil while down; guarded by subscriber.mu
	channels map[string]chan struct{} // closed once confirmed; guarded by subscriber.mu
	ending   map[string]bool          // channels whose end was asked for, not confirmed; guarded by subscriber.mu
	timer    *time.Timer              // ends the session when nobody waits any more
}

func newSubscriber(node Node) *subscriber {
	return &subscriber{
		node: node, latches: make(map[string]*latch),
		sessions: make(map[string]*session), homes: make(map[string]*session), freed: make(map[string]int64),
	}
}

// expect readies the latch of a claim whose Acquire is about to be sent. Without
// a confirmed subscription to channel there is none.
func (s *subscriber) expect(claim, channel string, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.homes[channel]
	if n == nil || !confirmed(n.channels[channel]) {
		delete(s.latches, claim)
		return
	}
	s.latches[claim] = &latch{calls: make(chan call, 1), expires: time.Now().Add(ttl), channel: channel, session: n}
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

// listen sees to it that channel is listened to, and reports whether that was
// confirmed before limit had passed.
func (s *subscriber) listen(ctx context.Context, channel string, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	home, err := s.node.Home(ctx, channel)
	if err != nil {
		return false
	}
	ready := s.join(channel, home)
	if ready == nil {
		return false
	}
	select {
	case <-ready:
		return true
	case <-ctx.Done():
		return false
	}
}

// join adds name to the channels of the session with home, begins one if there is
// none, and returns what is closed on confirmation: nil if s is closed.
func (s *subscriber) join(name, home string) <-chan struct{} {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	if n := s.homes[name]; n != nil && n.home != home {
		s.drop(n, name)
	}
	n := s.sessions[home]
	if n == nil {
		n = &session{home: home, channels: make(map[string]chan struct{}), ending: make(map[string]bool)}
		n.ctx, n.cancel = context.WithCancel(context.Background())
		n.timer = time.AfterFunc(rest, func() { s.retire(n) })
		s.sessions[home] = n
		s.running.Go(func() { s.run(n) })
	}
	ready := n.channels[name]
	var conn Subscription
	if ready == nil {
		ready = make(chan struct{})
		n.channels[name] = ready
		s.homes[name] = n
		if !n.ending[name] { // or the end would come after the beginning
			conn = n.conn
		}
	}
	s.mu.Unlock()
	if conn != nil {
		conn.Subscribe(n.ctx, name) // an error comes from Receive too, and ends the connection
	}
	return ready
}

// remove takes name, for which there are no latches, from n. The caller holds s.mu.
func (s *subscriber) remove(n *session, name string) {
	delete(n.channels, name)
	delete(s.homes, name)
	delete(s.freed, name)
}

// drop takes name from n, and sets the latches of those who wait for calls on it.
// The caller holds s.mu.
func (s *subscriber) drop(n *session, name string) {
	s.remove(n, name)
	for claim, l := range s.latches {
		if l.session == n && l.channel == name {
			l.set()
			delete(s.latches, claim)
		}
	}
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
	s.leaveMoved(n)
	names := s.names(n)
	if len(names) == 0 {
		return false
	}
	conn, err := s.node.Subscribe(n.ctx, n.home, names[0])
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
		if code(err) == "MOVED" {
			s.leaveUnconfirmed(n)
		}
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
	return slices.Collect(maps.Keys(n.channels))
}

// leaveMoved takes from n the channels that have another home now. Those who wait
// find it when they listen again.
func (s *subscriber) leaveMoved(n *session) {
	if n.home == "" {
		return
	}
	for _, name := range s.names(n) {
		if home, err := s.node.Home(n.ctx, name); err != nil || home == n.home {
			continue
		}
		s.mu.Lock()
		s.remove(n, name)
		s.mu.Unlock()
	}
	s.endUnlessNeeded(n)
}

// leaveUnconfirmed takes from n the channels that the server may have said it has
// not: it does not say which.
func (s *subscriber) leaveUnconfirmed(n *session) {
	s.mu.Lock()
	for name, ready := range n.channels {
		if !confirmed(ready) {
			s.remove(n, name)
		}
	}
	s.mu.Unlock()
	s.endUnlessNeeded(n)
}

// endUnlessNeeded ends n if it has lost all its channels.
func (s *subscriber) endUnlessNeeded(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(n.channels) == 0 {
		s.end(n)
	}
}

// end ends n, for which there are no latches. The caller holds s.mu.
func (s *subscriber) end(n *session) {
	if s.sessions[n.home] == n {
		delete(s.sessions, n.home)
	}
	for name := range n.channels {
		s.remove(n, name)
	}
	n.timer.Stop()
	n.cancel()
}

func (s *subscriber) receive(n *session, m Message) {
	s.mu.Lock()
	switch {
	case m.Confirmed:
		if ready := n.channels[m.Channel]; ready != nil && !confirmed(ready) && !n.ending[m.Channel] {
			close(ready)
		}
	case m.Ended && n.ending[m.Channel]:
		delete(n.ending, m.Channel)
		if conn := n.conn; conn != nil && n.channels[m.Channel] != nil { // wanted again
			s.mu.Unlock()
			conn.Subscribe(n.ctx, m.Channel)
			return
		}
	case m.Ended: // the cluster has moved it
		if n.channels[m.Channel] != nil {
			s.drop(n, m.Channel)
		}
	case isFreeChannel(m.Channel):
		s.free(m.Channel, m.Payload)
	default:
		s.call(m.Payload)
	}
	s.mu.Unlock()
}

// free calls all who wait for the key of channel. The caller holds s.mu.
func (s *subscriber) free(channel, payload string) {
	at, err := strconv.ParseInt(payload, 10, 64)
	if err != nil || s.homes[channel] == nil {
		return
	}
	s.freed[channel] = at
	for _, l := range s.latches {
		if l.channel == channel {
			l.set()
		}
	}
}

// freedAfter reports whether the key of channel is known to have been freed after
// t, on the store's clock.
func (s *subscriber) freedAfter(channel string, t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.freed[channel]
	return ok && at > t.UnixMicro()
}

// call hands a call on to whom it is for. The caller holds s.mu.
func (s *subscriber) call(payload string) {
	verb, claim, _ := strings.Cut(payload, " ")
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
	clear(n.ending)
	for name, ready := range n.channels {
		if confirmed(ready) {
			n.channels[name] = make(chan struct{})
		}
	}
	for claim, l := range s.latches {
		if l.session == n { // a newer session has latches of its own
			l.set()
			delete(s.latches, claim)
		}
	}
}

// retire ends n unless somebody has waited lately. Where channels are as many as
// keys, as in a cluster, it lets go of those that nobody needs.
func (s *subscriber) retire(n *session) {
	s.mu.Lock()
	if s.sessions[n.home] != n {
		s.mu.Unlock()
		return
	}
	now := time.Now()
	used := make(map[string]bool)
	for claim, l := range s.latches {
		switch {
		case l.session != n:
		case l.expires.Before(now):
			delete(s.latches, claim)
		default:
			used[l.channel] = true
		}
	}
	if len(used) == 0 {
		s.end(n)
		s.mu.Unlock()
		return
	}
	n.timer.Reset(rest)
	conn := n.conn
	var unused []string
	for name, ready := range n.channels {
		if (n.home != "" || isFreeChannel(name)) && conn != nil && !used[name] && confirmed(ready) {
			unused = append(unused, name)
			n.ending[name] = true
			s.remove(n, name)
		}
	}
	s.mu.Unlock()
	for _, name := range unused {
		conn.Unsubscribe(n.ctx, name) // an error comes from Receive too
	}
}

func (s *subscriber) close() {
	s.mu.Lock()
	s.closed = true
	for claim, l := range s.latches {
		l.set()
		delete(s.latches, claim)
	}
	for _, n := range s.sessions {
		s.end(n)
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
