// Package zookeeper keeps locks in Apache ZooKeeper 3.5 or later.
//
// A key is a container node, and each claim on it an ephemeral sequential node
// below, named as Curator's InterProcessMutex names them: the order in which they
// were made is the line. A claim holds once it has confirmed that, in one
// transaction that also raises the last token kept in the key's node. Nobody
// confirms while a claim ahead has not, so grants come in order of creation, and
// the czxid of a claim's node is its token. The recipe is that of ZooKeeper's
// documentation with a confirmation added; docs/protocol.md has the argument.
//
// A claim that is not renewed ends in one of three ways: this backend deletes its
// node; if the process is dead, whoever waits behind it does, once it has seen
// for a whole TTL that nobody renewed; and if nobody waits, the store does when
// the session of the dead process times out.
package zookeeper

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawlock/pawl/driver"
)

// Options say how a backend uses its ensemble. The zero value is sound.
type Options struct {
	// Root is the path below which keys are kept, a chroot of ours. It is made
	// if it is not there. Default "/pawl".
	Root string

	// SessionTimeout is how long the store keeps the claims of a process that is
	// gone while nobody waits for them, and bounds the TTL of claims, to four fifths
	// of it less a tick. Servers clamp it, by default to 2 to 20 of their ticks: a
	// grant tells what is left of its TTL then. Default 40s.
	SessionTimeout time.Duration

	// TickTime is the servers' tickTime: how late their leader may hear of a
	// session's signs of life. Default 2s.
	TickTime time.Duration

	// User and Password are for the digest scheme. With them, only that user may
	// touch what the backend makes, unless ACL says otherwise.
	User, Password string

	// ACL is that of all nodes. Default everything for the user, or for everybody
	// where there is no user.
	ACL []zk.ACL

	// TLS is for the servers' secureClientPort. Without a ServerName, that is the
	// host as it was given. Nil: plain connections.
	TLS *tls.Config
}

type backend struct {
	o       Options
	servers int // how many
	conn    *zk.Conn
	link    *link

	authed  chan struct{} // closed when the user has been told to the server
	stop    chan struct{} // closed by Close
	running sync.WaitGroup

	mu      sync.Mutex
	own     map[string]*own                // claims that this process keeps, by path; guarded by mu
	ended   graveyard                      // guarded by mu
	seen    map[string]map[string]sighting // the claims of others, by key and path; guarded by mu
	watches map[string]*watch              // by path; guarded by mu
	offset  time.Duration                  // of the store's clock against ours; guarded by mu
	using   int                            // releases under way; guarded by mu
	closed  bool                           // guarded by mu
}

// New returns a backend on the ensemble of servers, host:port each. It dials in
// the background, so that an ensemble which is down shows when it is first
// needed. It returns an error of kind driver.ErrInvalid for options that can't be.
func New(servers []string, o *Options) (driver.Backend, error) {
	b := &backend{
		servers: len(servers),
		authed:  make(chan struct{}),
		stop:    make(chan struct{}),
		own:     make(map[string]*own),
		seen:    make(map[string]map[string]sighting),
		watches: make(map[string]*watch),
	}
	if o != nil {
		b.o = *o
	}
	if err := b.o.complete(servers); err != nil {
		return nil, err
	}
	b.link = &link{tls: b.o.TLS, patience: b.patience}
	conn, events, err := zk.Connect(servers, b.o.SessionTimeout, zk.WithDialer(b.link.dial), zk.WithHostProvider(new(hosts)),
		zk.WithLogger(silence{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	b.conn = conn
	b.running.Go(func() {
		for range events { // closed with the connection; it must not run full
		}
	})
	b.running.Go(b.authenticate)
	b.running.Go(b.beat)
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
			o.ACL = zk.DigestACL(zk.PermAll, o.User, o.Password)
		}
	}
	switch {
	case len(servers) == 0 || slices.Contains(servers, ""):
		return &driver.FieldError{Field: "servers", Why: fmt.Sprintf("is %q: name the servers of the ensemble, host:port each", servers)}
	case !validRoot(o.Root):
		return &driver.FieldError{Field: "Root", Why: fmt.Sprintf("is %q: it must be a path like /pawl, of ZooKeeper's", o.Root)}
	case o.TickTime < 0 || o.SessionTimeout < 2*o.TickTime || o.SessionTimeout*4/5-o.TickTime < minTTL:
		return &driver.FieldError{Field: "SessionTimeout", Why: fmt.Sprintf("is %v: it must be at least twice the tick time, %v, and more than a moment", o.SessionTimeout, o.TickTime)}
	case strings.Contains(o.User, ":"):
		return &driver.FieldError{Field: "User", Why: "has a colon, which ends the name of a user in the digest scheme"}
	}
	return nil
}

// Traits implements driver.Backend.
func (b *backend) Traits() driver.Traits {
	return driver.Traits{
		Name:     "zookeeper",
		Fencing:  true,
		Durable:  true,
		Fair:     true,
		Counting: true,
		MinTTL:   minTTL,
		MaxTTL:   b.o.SessionTimeout*4/5 - b.o.TickTime,
	}
}

const minTTL = 100 * time.Millisecond

// beat asks the servers something ten times in a session, as a sign of life: the
// client's pings are so far apart that a third of the session could not be relied on.
func (b *backend) beat() {
	for {
		session := b.o.SessionTimeout
		if agreed := b.link.agreed(); agreed > 0 {
			session = min(session, agreed)
		}
		select {
		case <-b.stop:
			return
		case <-time.After(session / 10):
			b.conn.Exists(b.o.Root) // what the answer is does not matter
		}
	}
}

// Close implements driver.Backend. The session goes on until the claims that it
// keeps have ended by their TTL.
func (b *backend) Close() error {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	b.mu.Unlock()
	if first {
		close(b.stop)
	}
	b.closeIfIdle()
	return nil
}

// done reports whether a backend that was closed has nothing more to do. It is called
// with mu held.
func (b *backend) done() bool { return b.closed && len(b.own) == 0 && b.using == 0 }

// use keeps a closed backend from ending its session before the func that it returns
// is called.
func (b *backend) use() (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.using++
	return func() {
		b.mu.Lock()
		b.using--
		last := b.done()
		b.mu.Unlock()
		if last {
			go b.closeIfIdle()
		}
	}
}

// closeIfIdle ends the session of a backend that was closed once it keeps
// nothing any more. It may take seconds if the servers are down.
func (b *backend) closeIfIdle() {
	b.mu.Lock()
	idle := b.done()
	b.mu.Unlock()
	if idle {
		b.conn.Close()
		b.running.Wait()
	}
}
