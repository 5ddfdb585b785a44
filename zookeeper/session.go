package zookeeper

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawlock/pawl/driver"
)

// Options say how a backend uses its ensemble. The zero value is sound.
type Options struct {
	// Root is the path below which keys are kept, a chroot of ours. It is made
	// if it is not there. Default "/pawl".
	Root string

	// SessionTimeout is how long the store waits for a process that is gone, and
	// bounds the TTL of claims. Servers clamp it, by default to 2 to 20 of their
	// ticks. Default 40s.
	SessionTimeout time.Duration

	// TickTime is the servers' tickTime, by which a session may end early when a
	// server dies. Default 2s.
	TickTime time.Duration

	// User and Password are for the digest scheme. With them, only that user may
	// touch what the backend makes, unless ACL says otherwise.
	User, Password string

	// ACL is that of all nodes. Default everything for the user, or for everybody
	// where there is no user.
	ACL []zk.ACL

	// TLS is for the servers' secureClientPort. Nil: plain connections.
	TLS *tls.Config
}

// New returns a backend on the ensemble of servers, host:port each. It dials in
// the background, so that an ensemble which is down shows when it is first
// needed. It returns an error of kind driver.ErrInvalid for options that can't be.
func New(servers []string, o *Options) (driver.Backend, error) {
	b := &backend{ends: make(map[string]*end), watches: make(map[string]chan struct{})}
	if o != nil {
		b.o = *o
	}
	if err := b.o.complete(servers); err != nil {
		return nil, err
	}
	b.link = &link{tls: b.o.TLS}
	conn, events, err := zk.Connect(servers, b.o.SessionTimeout, zk.WithDialer(b.link.dial), zk.WithLogger(silence{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	b.conn = conn
	go func() {
		for range events { // closed with the connection; it must not run full
		}
	}()
	if b.o.User != "" {
		go conn.AddAuth("digest", []byte(b.o.User+":"+b.o.Password)) // it waits for a connection, and is repeated on each
	}
	return b, nil
}

func (o *Options) complete(servers []string) error {
	if o.SessionTimeout == 0 {
		o.SessionTimeout = 40 * time.Second
	}
	if o.TickTime == 0 {
		o.TickTime = 2 * time.Second
	}
	if o.Root == "" {
		o.Root = "/pawl"
	}
	if o.ACL == nil {
		o.ACL = zk.WorldACL(zk.PermAll)
		if o.User != "" {
			o.ACL = zk.AuthACL(zk.PermAll)
		}
	}
	switch {
	case len(servers) == 0:
		return &driver.FieldError{Field: "servers", Why: "is empty: name the servers of the ensemble"}
	case !strings.HasPrefix(o.Root, "/") || strings.HasSuffix(o.Root, "/") || strings.Contains(o.Root, "//"):
		return &driver.FieldError{Field: "Root", Why: fmt.Sprintf("is %q: it must be a path like /pawl", o.Root)}
	case o.TickTime < 0 || o.SessionTimeout < 2*o.TickTime:
		return &driver.FieldError{Field: "SessionTimeout", Why: fmt.Sprintf("is %v: it must be at least twice the tick time, %v", o.SessionTimeout, o.TickTime)}
	}
	return nil
}

// makeDir makes the node of a key: a container, which the store drops when it
// has been empty for a while, or a plain node where it knows no containers.
func (b *backend) makeDir(dir string) error {
	for i := 1; i < len(b.o.Root); i++ {
		if next := strings.IndexByte(b.o.Root[i:], '/'); next >= 0 {
			i += next
		} else {
			i = len(b.o.Root)
		}
		if _, err := b.conn.Create(b.o.Root[:i], nil, 0, b.o.ACL); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	_, err := b.conn.CreateContainer(dir, nil, zk.FlagContainer, b.o.ACL)
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// An end is the moment at which a claim of this backend ends unless renewed.
type end struct {
	timer *time.Timer
	over  bool // the claim is being deleted
}

// endAfter deletes the node at path after d, unless it is called again.
func (b *backend) endAfter(path string, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.ends[path]
	if e == nil {
		e = new(end)
		b.ends[path] = e
	} else if e.over {
		return
	} else {
		e.timer.Stop()
	}
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		b.mu.Lock()
		if b.ends[path] != e || e.timer != timer {
			b.mu.Unlock()
			return
		}
		e.over = true
		b.mu.Unlock()
		b.expire(path)
	})
	e.timer = timer
}

// hush stops the end of path while a request about it is under way. It returns
// false if it is too late: the node is being deleted, and what is written to it
// must not count.
func (b *backend) hush(path string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.ends[path]
	if e == nil {
		return true
	}
	if e.over {
		return false
	}
	e.timer.Stop()
	e.timer = nil
	e.timer = time.AfterFunc(time.Hour, func() {}) // replaced by endAfter
	return true
}

// expire deletes the node at path, again and again until the session that keeps
// it must have ended too.
func (b *backend) expire(path string) {
	for until := time.Now().Add(2 * b.o.SessionTimeout); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if err := b.conn.Delete(path, -1); err == nil || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrClosing) {
			break
		}
	}
	b.forget(path)
}

// remove deletes the node at path.
func (b *backend) remove(path string) error {
	if err := b.conn.Delete(path, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	b.forget(path)
	return nil
}

func (b *backend) forget(path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.ends[path]; e != nil {
		e.timer.Stop()
		delete(b.ends, path)
	}
	if b.closed && len(b.ends) == 0 {
		go b.conn.Close()
	}
}

// Close implements driver.Backend. The session goes on until the claims that it
// keeps have ended by their TTL.
func (b *backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed && len(b.ends) == 0 {
		go b.conn.Close() // it may wait a second for a server that is down
	}
	b.closed = true
	return nil
}

// A link dials, and reads what session time-out the servers agreed to: the
// client keeps that to itself.
type link struct {
	tls     *tls.Config
	timeout atomic.Int32 // milliseconds
}

func (l *link) agreed() time.Duration { return time.Duration(l.timeout.Load()) * time.Millisecond }

func (l *link) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	d := &net.Dialer{Timeout: timeout}
	var (
		c   net.Conn
		err error
	)
	if l.tls != nil {
		c, err = tls.DialWithDialer(d, network, address, l.tls)
	} else {
		c, err = d.Dial(network, address)
	}
	if err != nil {
		return nil, err
	}
	return &greeting{Conn: c, link: l}, nil
}

// A greeting is a connection whose first answer is read along: length, protocol
// version and time-out, four bytes each.
type greeting struct {
	net.Conn
	link *link
	once sync.Once
	head []byte
}

// Read implements net.Conn.
func (g *greeting) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if len(g.head) < 12 {
		g.head = append(g.head, p[:min(n, 12-len(g.head))]...)
	}
	if len(g.head) == 12 {
		g.once.Do(func() {
			if ms := int32(binary.BigEndian.Uint32(g.head[8:])); ms > 0 { // 0: the session has expired
				g.link.timeout.Store(ms)
			}
		})
	}
	return n, err
}

type silence struct{}

func (silence) Printf(string, ...any) {}
