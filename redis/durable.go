package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlock/pawl/driver"
)

// A Durability says where a grant or a renewal has to have arrived before it
// counts. The zero value asks for nothing.
//
// It narrows the window in which a failover or a crash loses a lock, and does not
// close it: which replica is promoted is another question, and so is a replica's
// clock, by which the lock may have expired there. Releases are not waited for:
// one that is lost brings the lock back until its TTL is over.
type Durability struct {
	// Replicas is how many replicas have to have acknowledged it. Default 0.
	Replicas int

	// Disk asks for it to be in the append-only file of the server, and of as
	// many replicas. Redis 7.2 can do that, with appendonly yes. Default false.
	Disk bool

	// Timeout bounds the wait. It is cut to a third of the TTL, and to a part of
	// the time that the caller has. Default a tenth of the TTL, at least 50ms and
	// at most 1s.
	Timeout time.Duration
}

// A DurabilityError says that a grant or a renewal was not acknowledged where it
// had to be, in time. A grant was taken back, and errors.Is(err,
// driver.ErrRefused) holds. A renewal was not, and neither was a grant that the
// claim had before: the TTL may have been restarted, and the caller must not
// count on it.
type DurabilityError struct {
	Asked    Durability
	Replicas int  // that have acknowledged it
	Disk     bool // whether the server has it on disk, if that was asked for
	Undone   bool // nothing is left of it
}

// Error implements the error interface.
func (e *DurabilityError) Error() string {
	if e.Asked.Disk {
		return fmt.Sprintf("not durable: on disk at the server (%v) and %d of %d replicas", e.Disk, e.Replicas, e.Asked.Replicas)
	}
	return fmt.Sprintf("not durable: acknowledged by %d of %d replicas", e.Replicas, e.Asked.Replicas)
}

// Is makes errors.Is(err, driver.ErrRefused) hold for what was undone.
func (e *DurabilityError) Is(target error) bool { return target == driver.ErrRefused && e.Undone }

// validate returns a *driver.FieldError for what can't be waited for.
func (d Durability) validate() error {
	switch {
	case d.Replicas < 0:
		return &driver.FieldError{Field: "Durability.Replicas", Why: fmt.Sprintf("is %d: it must be 0 or more", d.Replicas)}
	case d.Timeout < 0:
		return &driver.FieldError{Field: "Durability.Timeout", Why: fmt.Sprintf("is %v: it must be positive", d.Timeout)}
	}
	return nil
}

// none reports whether there is nothing to wait for.
func (d Durability) none() bool { return d.Replicas == 0 && !d.Disk }

// patience returns how long to wait for a write of this TTL. Some of the caller's
// time is left to undo it. It is never 0, which would be for ever.
func (d Durability) patience(ctx context.Context, ttl time.Duration) time.Duration {
	p := d.Timeout
	if p == 0 {
		p = min(max(ttl/10, 50*time.Millisecond), time.Second)
	}
	p = min(p, ttl/3)
	if deadline, ok := ctx.Deadline(); ok {
		p = min(p, time.Until(deadline)*2/3)
	}
	return max(p, time.Millisecond)
}

// durably calls f, which asks for a grant of c, and has what it wrote
// acknowledged. The server counts what came over one connection, so that f must
// use the one that it gets: any other would be told that all is well.
func (b *backend) durably(ctx context.Context, c driver.Claim, k keys, f func(Evaluator) (driver.Grant, error)) (driver.Grant, error) {
	if b.durability.none() {
		return f(b.node)
	}
	conn, err := b.node.Pin(ctx, k.lock)
	if err != nil {
		return driver.Grant{}, pinError(err)
	}
	defer conn.Close()
	g, err := f(conn)
	if err != nil {
		return g, err
	}
	short, err := b.await(ctx, conn, c.TTL)
	switch {
	case err == nil && short == nil:
		return g, nil
	case err != nil && code(err) == "":
		return driver.Grant{}, fmt.Errorf("waiting for replicas: %w", err) // it may or may not last
	case c.Grant.Token == g.Token: // it is not ours to take back
		if err == nil {
			return driver.Grant{}, short
		}
		return driver.Grant{}, fmt.Errorf("waiting for replicas: %v", err)
	}
	if undoing := b.undo(ctx, conn, k, g); undoing != nil {
		return driver.Grant{}, fmt.Errorf("undo a grant that is not durable: %v", undoing)
	}
	if err != nil {
		return driver.Grant{}, cannotWait(err)
	}
	short.Undone = true
	return driver.Grant{}, short
}

// await waits until what conn wrote has arrived where it has to. It returns a
// *DurabilityError if it has not, in time.
func (b *backend) await(ctx context.Context, conn Conn, ttl time.Duration) (*DurabilityError, error) {
	d := b.durability
	e := &DurabilityError{Asked: d}
	var err error
	if d.Disk {
		e.Disk, e.Replicas, err = conn.WaitAOF(ctx, d.Replicas, d.patience(ctx, ttl))
	} else {
		e.Replicas, err = conn.Wait(ctx, d.Replicas, d.patience(ctx, ttl))
	}
	if err != nil || e.Replicas >= d.Replicas && e.Disk == d.Disk {
		return nil, err
	}
	return e, nil
}

// undo takes back a grant that nobody has been told of.
func (b *backend) undo(ctx context.Context, conn Conn, k keys, g driver.Grant) error {
	r, err := runOn(ctx, conn, releaseScript, k, g.Holder, g.Token, 0)
	if err != nil {
		return err
	}
	if code := r.int(); r.err == nil && code != codeDone && code != codeLost {
		return r.unknown(code)
	}
	return r.err
}

// cannotWait is the error for a server that does not do what it takes to wait,
// when nothing is left of what was to be waited for.
func cannotWait(err error) error {
	text := err.Error()
	if strings.Contains(text, "unknown command") || strings.Contains(text, "WAITAOF cannot be used") {
		return fmt.Errorf("%w: the server can't tell what is on disk: it takes Redis 7.2 and appendonly yes (%w)", driver.ErrUnsupported, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrRefused, err)
}

// pinError is the error for a connection that could not be had.
func pinError(err error) error {
	if errors.Is(err, driver.ErrUnsupported) || errors.Is(err, driver.ErrRefused) {
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrRefused, err)
}
