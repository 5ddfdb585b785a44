package quorum

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawlock/pawl/driver"
)

// A book has the claims that this backend has a hand in, by ID.
type book struct {
	mu     sync.Mutex
	claims map[string]*entry // guarded by mu
	swept  int               // number of claims at which those of the past are dropped; guarded by mu
	ended  map[string]ending // claims that have ended, the last few; guarded by mu
	order  []string          // of ended, a ring; guarded by mu
	oldest int               // of order; guarded by mu
}

// An entry is a claim: what it holds, or why not.
type entry struct {
	turn chan struct{} // holds a token while an Acquire is under way

	// The rest is guarded by book.mu.
	hold   *hold               // that was elected, nil if none was
	past   []*hold             // attempts that failed and may have left something
	refuse []*driver.HeldError // by node, of the last attempt; nil where it was not refused
	losses int                 // attempts in a row that others won
	until  time.Duration       // nobody asks for it after that
}

// An ending is how a claim ended.
type ending struct {
	lost *driver.LostError // nil: it was released
}

const (
	maxEnded = 4096 // claims whose end is remembered
	minSwept = 1024
)

// enter waits until no other Acquire of the ID is under way, and returns its
// entry.
func (b *Backend) enter(ctx context.Context, id string) (*entry, error) {
	k := &b.book
	k.mu.Lock()
	e := k.claims[id]
	if e == nil {
		e = k.add(id, b.now())
	}
	k.mu.Unlock()
	select {
	case e.turn <- struct{}{}:
		return e, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// leave lets the next one enter.
func (e *entry) leave() { <-e.turn }

// add makes an entry, and drops those of the past once there are twice as many
// as after the last time. mu is held.
func (k *book) add(id string, now time.Duration) *entry {
	if k.claims == nil {
		k.claims = make(map[string]*entry)
		k.swept = minSwept
	}
	if len(k.claims) >= k.swept {
		for id, e := range k.claims {
			if len(e.turn) == 0 && now > e.until {
				delete(k.claims, id)
			}
		}
		k.swept = max(minSwept, 2*len(k.claims))
	}
	e := &entry{turn: make(chan struct{}, 1), until: now + time.Minute}
	k.claims[id] = e
	return e
}

// find returns the entry of id and how the claim ended, if it did.
func (k *book) find(id string) (*entry, ending, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	end, ended := k.ended[id]
	return k.claims[id], end, ended
}

// win notes that h is what the claim holds.
func (k *book) win(id string, e *entry, h *hold, until time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ended := k.ended[id]; ended {
		return // released while it was being renewed
	}
	switch {
	case k.claims[id] != nil:
		e = k.claims[id]
	case e != nil:
		k.claims[id] = e
	default:
		e = k.add(id, until)
	}
	e.hold, e.refuse, e.losses, e.until = h, nil, 0, until
}

// lose notes that h failed, and who was in the way.
func (k *book) lose(e *entry, h *hold, refuse []*driver.HeldError, until time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e.past = slices.DeleteFunc(append(e.past, h), (*hold).settled)
	e.refuse, e.until = refuse, until
	if refuse != nil {
		e.losses++
	}
}

// held returns the hold of the entry, nil if it has none.
func (k *book) held(e *entry) *hold {
	k.mu.Lock()
	defer k.mu.Unlock()
	return e.hold
}

// end notes that the claim has ended, and how. What was noted first stays.
func (k *book) end(id string, how ending) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.claims, id)
	if k.ended == nil {
		k.ended = make(map[string]ending)
	}
	if _, ok := k.ended[id]; ok {
		return
	}
	if len(k.order) < maxEnded {
		k.order = append(k.order, id)
	} else {
		delete(k.ended, k.order[k.oldest])
		k.order[k.oldest] = id
		k.oldest = (k.oldest + 1) % maxEnded
	}
	k.ended[id] = how
}

// drop forgets a claim that holds nothing.
func (k *book) drop(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.claims, id)
}
