package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/ballot"
)

// Renew implements driver.Backend. It takes a majority of the nodes that granted
// the claim; on those that did it lifts the counter to the token, so that all
// agree on the next one.
func (b *Backend) Renew(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	if err := driver.ValidateTTL("TTL", c.TTL, b.traits); err != nil {
		return driver.Grant{}, err
	}
	h, err := b.holdOf(c)
	if err != nil {
		return driver.Grant{}, err
	}
	return b.renew(ctx, "renew", h, c)
}

// holdOf returns the hold that c was granted, here or in another process.
func (b *Backend) holdOf(c driver.Claim) (*hold, error) {
	e, end, ended := b.book.find(c.ID)
	if ended {
		return nil, end.asLost()
	}
	if e != nil {
		if h := b.book.held(e); h != nil {
			if h.token() != c.Grant.Token {
				return nil, &driver.LostError{Reason: driver.Expired}
			}
			return h, nil
		}
	}
	h, err := b.resume(c)
	if err != nil {
		return nil, err
	}
	if h == nil {
		return nil, &driver.LostError{Reason: driver.Expired}
	}
	return h, nil
}

func (h *hold) token() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.attempt.Token()
}

// renew restarts the TTL of h at the nodes that have it.
func (b *Backend) renew(ctx context.Context, op string, h *hold, c driver.Claim) (driver.Grant, error) {
	l := b.newCall(ctx, c.TTL)
	began := b.now()
	left := time.Until(l.deadline)
	h.mu.Lock()
	h.claim.TTL = c.TTL
	h.until = max(h.until, began+left+settling+c.TTL)
	floor := uint64(0)
	if op == "renew" {
		floor = c.Floor
	}
	round, requests := h.attempt.Renew(floor, began)
	h.mu.Unlock()
	h.send(l, requests)
	err := h.wait(ctx, left+settling, func() bool { return round.Result() != ballot.Pending })

	h.mu.Lock()
	result, votes := round.Result(), append([]ballot.Verdict(nil), round.Votes()...)
	h.mu.Unlock()
	h.tell(op, resultWords(result), votes, 1, b.now()-began)
	switch result {
	case ballot.Carried:
		b.book.win(c.ID, nil, h, b.now()+c.TTL+b.traits.MaxTTL)
		b.learn(h)
		return h.grant(c), nil
	case ballot.Denied:
		lost := h.lost()
		b.book.end(c.ID, ending{lost})
		h.feed(l, (*ballot.Attempt).Abandon) // what a minority still has is let go
		return driver.Grant{}, lost
	}
	if err != nil && ctx.Err() != nil {
		return driver.Grant{}, errors.Join(err, h.noMajority(op, "too few answered in time", votes))
	}
	return driver.Grant{}, h.noMajority(op, "too few answered", votes)
}

func resultWords(r ballot.Result) string {
	return [...]string{"undecided", "done", "lost", "outage"}[r]
}

// lost says why the nodes do not have h any more: the reason that most give,
// unless it was forced.
func (h *hold) lost() *driver.LostError {
	h.mu.Lock()
	defer h.mu.Unlock()
	count := make(map[string]int)
	reason := driver.Expired
	for _, err := range h.errs {
		lost := (*driver.LostError)(nil)
		if !errors.As(err, &lost) {
			continue
		}
		if lost.Reason == driver.Forced {
			return &driver.LostError{Reason: driver.Forced, Notice: lost.Notice}
		}
		if count[lost.Reason]++; count[lost.Reason] > count[reason] {
			reason = lost.Reason
		}
	}
	return &driver.LostError{Reason: reason}
}
