package zookeeper

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A link dials, and reads along what the client keeps to itself: what session
// time-out the servers agreed to, and when they have heard of us. It gives up a
// connection that is silent for so long that a lease would end: the client waits
// for two thirds of the session.
type link struct {
	tls      *tls.Config
	patience func() time.Duration
	timeout  atomic.Int32          // milliseconds
	failure  atomic.Pointer[error] // the last one of a dial
	signs    signs
	last     net.Conn // the one that was dialled last, by one goroutine
}

// agreed returns the negotiated session time-out, 0 before there is one.
func (l *link) agreed() time.Duration { return time.Duration(l.timeout.Load()) * time.Millisecond }

func (l *link) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	if l.last != nil {
		l.last.Close() // the client forgets it where the session has expired
	}
	c, err := net.DialTimeout(network, address, timeout)
	if err == nil && l.tls != nil {
		c, err = l.secure(c, address)
	}
	if err != nil {
		l.failure.Store(&err)
		return nil, err
	}
	l.last = c
	w := &wire{Conn: c, link: l}
	w.alarm = time.AfterFunc(time.Hour, func() { c.Close() })
	w.alarm.Stop()
	return w, nil
}

// handshake bounds what a server may take to agree to TLS: a busy one needs longer
// for that than to accept a connection.
const handshake = 5 * time.Second

func (l *link) secure(c net.Conn, address string) (net.Conn, error) {
	config := l.tls
	if config.ServerName == "" {
		name, _, err := net.SplitHostPort(address)
		if err != nil {
			name = address
		}
		config = config.Clone()
		config.ServerName = name
	}
	ctx, cancel := context.WithTimeout(context.Background(), handshake)
	defer cancel()
	s := tls.Client(c, config)
	if err := s.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("TLS with %s: %w", address, err)
	}
	return s, nil
}

// A wire is a connection on which every request has an answer, in order, and which
// brings events besides.
type wire struct {
	net.Conn
	link *link

	// What was read of the packet that is being read, by one goroutine at a time.
	greeted bool // the first packet has been read
	head    []byte
	rest    int // bytes of it behind the head

	mu     sync.Mutex
	alarm  *time.Timer
	asked  bool        // something was sent since the last answer; guarded by mu
	unsure []time.Time // when what has no answer yet was sent; guarded by mu
}

// Write implements net.Conn. Each call is one request.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	if !w.asked {
		w.asked = true
		w.alarm.Reset(w.link.patience())
	}
	w.unsure = append(w.unsure, time.Now())
	w.mu.Unlock()
	return w.Conn.Write(p)
}

// Read implements net.Conn.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.mu.Lock()
	if w.asked && n > 0 || err != nil {
		w.asked = false
		w.alarm.Stop()
	}
	w.mu.Unlock()
	w.follow(p[:n])
	return n, err
}

// headSize is the part of a packet that tells what it is: its length, and two
// numbers more. None is shorter.
const headSize = 12

// follow reads along what came.
func (w *wire) follow(p []byte) {
	for len(p) > 0 {
		if n := min(len(p), headSize-len(w.head)); n > 0 {
			w.head, p = append(w.head, p[:n]...), p[n:]
			if len(w.head) == headSize {
				w.rest = int(binary.BigEndian.Uint32(w.head)) + 4 - headSize
				w.came()
			}
			continue
		}
		n := min(len(p), w.rest)
		if p, w.rest = p[n:], w.rest-n; w.rest <= 0 {
			w.head, w.greeted = w.head[:0], true
		}
	}
}

// came is called for each packet: the first, with the protocol's version and the
// time-out; events, of the number -1; and the answers, each of which says that the
// server had the first request that has none, whosever it is.
func (w *wire) came() {
	now := time.Now()
	if w.greeted && int32(binary.BigEndian.Uint32(w.head[4:])) == -1 {
		return
	}
	w.mu.Lock()
	if len(w.unsure) == 0 {
		w.mu.Unlock()
		return
	}
	sent := w.unsure[0]
	w.unsure = w.unsure[1:]
	w.mu.Unlock()
	if w.greeted {
		w.link.signs.answered(sent, now)
		return
	}
	if ms := int32(binary.BigEndian.Uint32(w.head[8:])); ms > 0 { // 0: the session has expired
		w.link.timeout.Store(ms)
		w.link.signs.connected(sent)
	}
}

// patience is how long a server may be silent: a part of the shortest TTL that
// is at stake where there is another server to turn to, and longer where the next
// connection would be to the same.
func (b *backend) patience() time.Duration {
	if b.servers == 1 {
		return max(b.o.SessionTimeout/6, time.Second)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	shortest := b.o.SessionTimeout
	for _, o := range b.own {
		shortest = min(shortest, o.data.TTL)
	}
	return min(max(shortest/4, time.Second), 3*time.Second)
}
