package pawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlock/pawl/driver"
)

// A Notice is what someone else has to say to the holder of a lock: who, why
// and when.
type Notice = driver.Notice

// AskRelease asks those who hold key to release it, and leaves it to them. Each
// hears of it with its next renewal, within [Options].RenewEvery: its
// [Lease.Revoked] is closed, and [Lease.Notice] has why and the label of this
// client.
//
// A key that nobody holds is no error, nor is a holder who lets go meanwhile. A
// lock of another program can't be asked for: that is [ErrUnsupported]. If the
// store fails some may have been asked, and asking again does no harm.
func (c *Client) AskRelease(ctx context.Context, key, why string) error {
	n, err := c.notice(key, why)
	if err != nil {
		return c.fail("revoke", key, err)
	}
	s, err := c.backend.Inspect(ctx, key, driver.Unlimited)
	if err != nil {
		return c.fail("revoke", key, err)
	}
	var failed []error
	for _, h := range s.Holders {
		switch {
		case !h.Held:
		case h.Foreign:
			failed = append(failed, fmt.Errorf("%w: another program holds the key, and hears no notice", driver.ErrUnsupported))
		default:
			if err := c.backend.Revoke(ctx, key, h.ID, n); err != nil && !errors.Is(err, driver.ErrLost) {
				failed = append(failed, err)
			}
		}
	}
	return c.fail("revoke", key, errors.Join(failed...))
}

// ForceRelease ends the claim that holder, an ID from [Client.Inspect], has on
// key, and the next in line gets it at once. The holder is told with its next
// renewal, together with why and the client's label: until then it may go on
// working, and only a fencing token stops its writes. Who forced what, and why,
// stays in [State].Notices for an hour. It returns ErrLost if holder does not
// hold key any more.
//
// What ends is the claim. If it goes from one goroutine to the next meanwhile
// ([Options].Handover), whoever has it at the next renewal is told.
func (c *Client) ForceRelease(ctx context.Context, key, holder, why string) error {
	n, err := c.notice(key, why)
	if err != nil {
		return c.fail("revoke", key, err)
	}
	n.Force = true
	return c.fail("revoke", key, c.backend.Revoke(ctx, key, holder, n))
}

// notice is what this client has to say to a holder of key.
func (c *Client) notice(key, why string) (Notice, error) {
	if err := driver.ValidateKey(key); err != nil {
		return Notice{}, err
	}
	if err := driver.ValidateLabel(why); err != nil {
		return Notice{}, &FieldError{Field: "why", Why: err.Error()}
	}
	return Notice{By: c.opts.Label, Why: why}, nil
}

// Revoked is closed once somebody has asked for the lease with
// [Client.AskRelease]. The lease goes on: whoever holds it may finish what must
// not stay half done, and should release it then. It stays open when the lease
// ends, be it by force; [Lease.Context] tells that.
func (l *Lease) Revoked() <-chan struct{} { return l.asked }

// Notice returns the last request for the lease: who asked and why. It is nil as
// long as [Lease.Revoked] is open.
func (l *Lease) Notice() *Notice {
	if l.root != nil {
		return l.root.Notice()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.notice
}

// hear takes the notice that came with a renewal, and reports whether it is
// news. The store repeats a notice with each renewal. It is called with mu held.
func (l *Lease) hear(n *Notice) bool {
	if n == nil || n.Force {
		return false
	}
	if l.notice == nil {
		close(l.asked)
	} else if *l.notice == *n {
		return false
	}
	heard := *n
	l.notice = &heard
	return true
}
