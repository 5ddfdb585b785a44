package quorum

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/ballot"
)

// When the nodes are split between several that all came at once, none of them
// has the key: each lets go and tries again after a random pause, which grows.
const (
	maxSplits = 10
	minPause  = 500 * time.Microsecond
)

// Acquire implements driver.Backend. If the votes are split between claims that
// came at the same time it tries again by itself, so that ErrHeld means that
// somebody else has, or may have, a majority.
func (b *Backend) Acquire(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	if err := c.Validate(b.traits); err != nil {
		return driver.Grant{}, err
	}
	if !c.Exclusive() {
		return driver.Grant{}, fmt.Errorf("%w: a quorum keeps exclusive claims only, got %d of %d", driver.ErrUnsupported, c.Weight, c.Capacity)
	}
	if b.crew.closing.Load() {
		return driver.Grant{}, errClosed
	}
	if err := late(ctx); err != nil {
		return driver.Grant{}, err
	}
	e, err := b.enter(ctx, c.ID)
	if err != nil {
		return driver.Grant{}, err
	}
	defer e.leave()
	if _, end, ended := b.book.find(c.ID); ended {
		return driver.Grant{}, end.asLost()
	}
	if h := b.book.held(e); h != nil {
		return b.renew(ctx, "acquire", h, c) // again: the same grant, its TTL restarted
	}
	for splits := 0; ; splits++ {
		stuck := b.outlast(ctx, e, c)
		if stuck != nil && ctx.Err() != nil {
			return driver.Grant{}, fmt.Errorf("%w: %w", driver.ErrRefused, stuck)
		}
		began := b.now()
		g, split, err := b.try(ctx, e, c)
		if !split || stuck != nil || splits == maxSplits {
			return g, err
		}
		window := min(max(b.now()-began, minPause)<<splits, b.timeout(c.TTL))
		if pause(ctx, rand.N(window)) != nil {
			return g, err
		}
	}
}

var errClosed = fmt.Errorf("%w: the quorum is closed", driver.ErrRefused)

// asLost is the answer for a claim that has ended.
func (e ending) asLost() *driver.LostError {
	if e.lost != nil {
		return e.lost
	}
	return &driver.LostError{Reason: driver.Expired}
}

// try makes one attempt. It reports split if others were in the way of whom
// none has a majority either.
func (b *Backend) try(ctx context.Context, e *entry, c driver.Claim) (g driver.Grant, split bool, err error) {
	began := b.now()
	l := b.newCall(ctx, c.TTL)
	h, requests := b.begin(l, c)
	h.send(l, requests)
	outcome, rounds := h.decide(ctx, l, began)
	took := b.now() - began
	votes := h.votes()
	h.tell("acquire", outcome.String(), votes, rounds, took)
	b.learn(h)
	switch outcome {
	case ballot.Won:
		b.book.win(c.ID, e, h, b.now()+c.TTL+b.traits.MaxTTL)
		return h.grant(c), false, nil
	case ballot.Contended:
		// What was granted is let go before anyone sleeps, and before the caller
		// hears that nothing is left of it.
		_ = h.wait(ctx, max(took, minPause), func() bool { return !h.granted() })
		refusals := h.refusals()
		if b.inOurWay(c, refusals, votes) {
			b.book.lose(e, h, nil, b.now()+b.lingers(c))
			return g, true, h.noMajority("acquire", "an attempt of before is still being withdrawn", votes)
		}
		b.book.lose(e, h, refusals, b.now()+b.lingers(c))
		held := b.held(c, refusals, h.last())
		return g, b.split(refusals, c.TTL), held
	case ballot.Abandoned:
		b.book.lose(e, h, nil, b.now()+b.lingers(c))
		if ctx.Err() != nil {
			return g, false, fmt.Errorf("acquire: %w", context.Cause(ctx))
		}
	default:
		b.book.lose(e, h, nil, b.now()+b.lingers(c))
	}
	return g, false, h.noMajority("acquire", outcome.String(), votes)
}

// lingers is how long it may take until somebody waits for a claim that was
// refused, or asks again.
func (b *Backend) lingers(c driver.Claim) time.Duration {
	if c.Queue {
		return c.TTL
	}
	return time.Second
}

// begin starts an attempt with a nonce of its own: what is late of one attempt
// must never be taken for another's.
func (b *Backend) begin(l call, c driver.Claim) (*hold, []ballot.Request) {
	h := &hold{quorum: b, claim: c, errs: make([]error, len(b.seats))}
	h.number = b.nonces.Add(1)
	h.nonce = c.ID + "~" + strconv.FormatUint(h.number, 10)
	wall := b.time(b.clocks())
	candidate := ballot.Candidate(b.seen.get(c.Key), wall)
	if c.Floor <= uint64(wall.Add(time.Second).UnixMicro()) {
		candidate = max(candidate, c.Floor)
	}
	h.claim.Floor = candidate
	sent := b.now()
	left := time.Until(l.deadline)
	h.until = sent + left + settling + c.TTL
	var requests []ballot.Request
	h.attempt, requests = ballot.Begin(len(b.seats), sent, sent+left, c.TTL)
	h.overdue = time.AfterFunc(left, func() { h.feed(l, (*ballot.Attempt).Overdue) })
	return h, requests
}

// settling is how much later than its deadline a node may still carry out a
// request, as far as clocks may differ.
const settling = 50 * time.Millisecond

// decide waits until the attempt is decided, and returns how many rounds it took.
func (h *hold) decide(ctx context.Context, l call, began time.Duration) (o ballot.Outcome, rounds int) {
	var (
		confirms bool // guarded by mu
		hurried  bool // the rest have been given a time; guarded by mu
		patience <-chan time.Time
	)
	next := h.watch(func() bool {
		confirms = confirms || h.attempt.Phase() == ballot.Confirming
		return h.attempt.Outcome() != ballot.Open || !hurried && h.attempt.Phase() == ballot.Voting && h.attempt.Answered()
	})
	defer next.stop()
	end := time.NewTimer(2*time.Until(l.deadline) + settling) // no node is trusted to keep its deadline
	defer end.Stop()
	for {
		select {
		case <-next.met:
		case <-patience:
			h.feed(l, (*ballot.Attempt).Impatient)
		case <-ctx.Done():
			h.feed(l, (*ballot.Attempt).Abandon)
		case <-end.C:
			h.feed(l, (*ballot.Attempt).Abandon)
		}
		h.mu.Lock()
		o, rounds = h.attempt.Outcome(), 1
		if confirms {
			rounds = 2
		}
		if o == ballot.Open && !hurried {
			// A majority has spoken and it is not enough: the rest are given as
			// long again, and not until they wake up.
			hurried = true
			timer := time.NewTimer(max(h.quorum.now()-began, minPause))
			defer timer.Stop()
			patience = timer.C
		}
		h.mu.Unlock()
		if o != ballot.Open {
			return o, rounds
		}
	}
}

// votes returns what the nodes said to the acquire.
func (h *hold) votes() []ballot.Verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	votes := make([]ballot.Verdict, len(h.errs))
	for i := range votes {
		votes[i] = h.attempt.Vote(i)
	}
	return votes
}

// granted reports whether a node is known to have the attempt. mu is held.
func (h *hold) granted() bool {
	for i := range h.errs {
		if state, _ := h.attempt.Seat(i); state == ballot.Ours {
			return true
		}
	}
	return false
}

// learn remembers the tokens that the nodes told.
func (b *Backend) learn(h *hold) {
	if last := h.last(); last > 0 {
		b.seen.note(h.claim.Key, last, b.time(b.clocks()))
	}
}

func (h *hold) last() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lastSeen
}

// grant is what the caller gets for an attempt that was elected.
func (h *hold) grant(c driver.Claim) driver.Grant {
	h.mu.Lock()
	defer h.mu.Unlock()
	return driver.Grant{
		Token:  h.attempt.Token(),
		Block:  1,
		TTL:    c.TTL,
		Holder: c.ID,
		Ref:    h.ref(),
		Now:    h.nodeTime,
		Notice: h.notice,
	}
}

// pause sleeps for d unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// late reports a caller who has given up before anything was sent.
func late(ctx context.Context) error {
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		return fmt.Errorf("%w: it came after its sender's deadline", driver.ErrRefused)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", driver.ErrRefused, context.Cause(ctx))
	}
	return nil
}
