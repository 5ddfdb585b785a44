package quorum

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/ballot"
)

// Release implements driver.Backend. It returns once a majority has confirmed;
// the other nodes are told in the background, until they confirm or the TTL is
// over. A node that has not answered the acquire is told after it has, or when
// it can't grant it any more.
func (b *Backend) Release(ctx context.Context, c driver.Claim) error {
	e, end, ended := b.book.find(c.ID)
	if ended {
		if end.lost != nil && c.Grant.Token != 0 {
			return end.lost
		}
		return nil
	}
	if e != nil {
		// An Acquire that is under way is let end: what it may bring has to go too.
		select {
		case e.turn <- struct{}{}:
			defer e.leave()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if h := b.book.held(e); h != nil {
			err := b.release(ctx, h, c)
			if err == nil {
				// What earlier attempts have left is being withdrawn. It is given its
				// time, so that whoever looks next does not take it for a hold; if
				// that is too short it goes on in the background.
				_ = b.outlast(ctx, e, c)
			}
			return err
		}
		if err := b.forget(ctx, e, c); err != nil || c.Grant.Token == 0 {
			return err
		}
	}
	h, err := b.resume(c)
	if h == nil || err != nil {
		return err
	}
	return b.release(ctx, h, c)
}

// release ends h at the nodes.
func (b *Backend) release(ctx context.Context, h *hold, c driver.Claim) error {
	l := b.newCall(ctx, h.ttl())
	began := b.now()
	h.mu.Lock()
	if c.Keep > 0 && h.kept == 0 {
		h.claim.Keep, h.kept = c.Keep, began+c.Keep
		h.until = max(h.until, h.kept)
	}
	round, requests := h.attempt.Release(began)
	h.wake()
	h.mu.Unlock()
	h.send(l, requests)
	settled := func() bool { return round.Result() != ballot.Pending }
	enough := func() bool { return settled() || h.attempt.Left() <= len(b.seats)-b.majority() }
	if err := h.wait(ctx, b.timeout(h.ttl())+settling, enough); err == nil {
		took := b.now() - began
		_ = h.wait(ctx, max(took, minPause), settled)
		// A majority may be nodes that never had it, because they are down; each
		// of the others is then needed by whoever comes next.
		_ = h.wait(ctx, b.timeout(h.ttl()), h.free)
		// The rest are given half as long again, so that whoever comes next finds
		// the key free at all nodes, and none of them is waited for.
		_ = h.wait(ctx, took/2, func() bool { return !round.Open() })
	}

	h.mu.Lock()
	round.Impatient()
	result, votes := round.Result(), append([]ballot.Verdict(nil), round.Votes()...)
	h.mu.Unlock()
	h.tell("release", resultWords(result), votes, 1, b.now()-began)
	switch {
	case result == ballot.Carried:
		b.book.end(c.ID, ending{})
		return nil
	case result == ballot.Denied:
		lost := h.lost()
		b.book.end(c.ID, ending{lost})
		return lost
	case ctx.Err() != nil:
		return errors.Join(context.Cause(ctx), h.noMajority("release", "too few answered in time", votes))
	}
	return h.noMajority("release", "too few answered", votes)
}

// free reports whether enough nodes are up and have nothing of an ended hold for
// others to get a majority. mu is held.
func (h *hold) free() bool {
	taken := 0
	for i, err := range h.errs {
		down := err != nil && !errors.Is(err, driver.ErrHeld) && !errors.Is(err, driver.ErrLost)
		if down || h.attempt.Has(i) {
			taken++
		}
	}
	return taken <= len(h.errs)-h.quorum.majority()
}

// forget drops a claim of which nothing but failed attempts is known, once those
// have left nothing that keeps others from a majority.
func (b *Backend) forget(ctx context.Context, e *entry, c driver.Claim) error {
	if err := b.outlast(ctx, e, c); err != nil {
		return err
	}
	b.book.drop(c.ID)
	return nil
}

// outlast waits until nothing that failed attempts have left keeps others from a
// majority, the next attempt of the same claim included.
func (b *Backend) outlast(ctx context.Context, e *entry, c driver.Claim) error {
	b.book.mu.Lock()
	past := e.past
	b.book.mu.Unlock()
	end := b.now() + b.timeout(c.TTL) + settling
	for _, h := range past {
		if err := h.wait(ctx, end-b.now(), h.clear); err != nil {
			return fmt.Errorf("release of a failed attempt: %w", err)
		}
	}
	return nil
}
