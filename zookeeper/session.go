package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
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
		return errClosed
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
