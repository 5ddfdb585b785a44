package zookeeper

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawlock/pawl/driver"
)

// authenticate tells the servers who we are. The client repeats on each
// connection what was said with success.
func (b *backend) authenticate() {
	if b.o.User == "" {
		close(b.authed)
		return
	}
	for {
		if err := b.conn.AddAuth("digest", []byte(b.o.User+":"+b.o.Password)); err == nil {
			close(b.authed)
			return
		}
		select {
		case <-b.stop:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// ready waits until requests may be sent: none goes before the user is known.
func (b *backend) ready(ctx context.Context) error {
	select {
	case <-b.authed:
		return nil
	default:
	}
	select {
	case <-b.authed:
		return nil
	case <-b.stop:
		return fmt.Errorf("%w: the backend is closed", driver.ErrRefused)
	case <-ctx.Done():
		return b.explain(fmt.Errorf("%w, and the caller's time is over", zk.ErrNoServer))
	}
}

// explain returns err as a caller may use it. What the client could not send,
// or the store refused, had no effect; a broken connection leaves that open.
func (b *backend) explain(err error) error {
	switch {
	case err == nil, errors.Is(err, driver.ErrRefused):
		return err
	case errors.Is(err, zk.ErrNoServer):
		if cause := b.link.failure.Load(); cause != nil {
			return fmt.Errorf("%w: no server can be reached: %w", driver.ErrRefused, *cause)
		}
		return fmt.Errorf("%w: no server can be reached: %w", driver.ErrRefused, err)
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("%w: the node belongs to another user, or the password is wrong: %w", driver.ErrRefused, err)
	case errors.Is(err, zk.ErrInvalidACL), errors.Is(err, zk.ErrAuthFailed):
		return fmt.Errorf("%w: the servers don't take that user or ACL: %w", driver.ErrRefused, err)
	}
	return err
}

// doubtful returns err as one that leaves open what was done.
func (b *backend) doubtful(err error) error {
	if err = b.explain(err); errors.Is(err, driver.ErrRefused) {
		return fmt.Errorf("after a part of it was done: %v", err)
	}
	return err
}

// A link dials, and reads what session time-out the servers agreed to, which the
// client keeps to itself. It gives up a connection that is silent for so long
// that a lease would end: the client waits for two thirds of the session.
type link struct {
	tls      *tls.Config
	patience func() time.Duration
	timeout  atomic.Int32          // milliseconds
	failure  atomic.Pointer[error] // the last one of a dial
}

// agreed returns the negotiated session time-out, 0 before there is one.
func (l *link) agreed() time.Duration { return time.Duration(l.timeout.Load()) * time.Millisecond }

func (l *link) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	c, err := net.DialTimeout(network, address, timeout)
	if err == nil && l.tls != nil {
		c, err = l.secure(c, address)
	}
	if err != nil {
		l.failure.Store(&err)
		return nil, err
	}
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

// A wire is a connection whose first answer is read along: length, protocol
// version and time-out, four bytes each. Every request has an answer.
type wire struct {
	net.Conn
	link *link
	head []byte // read by one goroutine at a time

	mu    sync.Mutex
	alarm *time.Timer
	asked bool // something was sent since the last answer; guarded by mu
}

// Write implements net.Conn.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	if !w.asked {
		w.asked = true
		w.alarm.Reset(w.link.patience())
	}
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
	if len(w.head) < 12 {
		w.head = append(w.head, p[:min(n, 12-len(w.head))]...)
		if len(w.head) == 12 {
			if ms := int32(binary.BigEndian.Uint32(w.head[8:])); ms > 0 { // 0: the session has expired
				w.link.timeout.Store(ms)
			}
		}
	}
	return n, err
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

// hosts are the servers, by name: each is looked up when it is dialled, and a
// certificate is compared with the name. It implements zk.HostProvider.
type hosts struct {
	mu    sync.Mutex
	list  []string // guarded by mu
	next  int      // guarded by mu
	tried int      // since the last success; guarded by mu
}

// Init implements zk.HostProvider.
func (h *hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = slices.Clone(servers)
	rand.Shuffle(len(h.list), func(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] })
	return nil
}

// Len implements zk.HostProvider.
func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.list)
}

// Next implements zk.HostProvider.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.list[h.next%len(h.list)]
	h.next++
	h.tried++
	return server, h.tried > len(h.list) && h.tried%len(h.list) == 1%len(h.list)
}

// Connected implements zk.HostProvider.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried = 0
}

type silence struct{}

func (silence) Printf(string, ...any) {}
