// Package driver is the contract between the core of pawl and the stores that
// keep its locks. Users of pawl have no business here: they hand a [Backend] to
// pawl.New and never call it. It is for those who write a backend.
//
// # The one rule
//
// A resource is a key with a number of units, its capacity, and a line of
// claims in order of arrival. A claim takes some of the units, its weight, and
// holds when the claims ahead of it leave room:
//
//	weight of all live claims ahead + its own weight <= capacity
//
// A mutex is 1 of 1, a semaphore 1 of n, a reader 1 of [Unlimited] and a writer
// Unlimited of Unlimited. A backend implements the rule and knows no recipes.
// A claim whose weight is its capacity is exclusive: it needs nothing live
// ahead of it, and counts as Unlimited for all others, whatever their capacity.
// Any other claim is a share. [Line] is the rule in Go.
//
// # Identity before I/O
//
// The caller draws the ID of a claim before it sends anything, so that an
// Acquire whose answer was lost can be repeated (it gets the same grant) or
// withdrawn. An error other than [ErrHeld], [ErrLost], [ErrRefused],
// [ErrUnsupported] and [ErrInvalid] means that the outcome is unknown.
//
// The package drivertest has the conformance suite that every backend passes.
package driver

import (
	"context"
	"errors"
	"iter"
	"time"
)

// A Backend keeps claims in a store. All methods may be called concurrently,
// and each but Wait is one exchange with the store.
//
// No method need honour its context at once: the core never waits for a
// backend beyond the context's end. A backend that has started work for a call
// must let it end by itself.
type Backend interface {
	// Acquire makes one attempt to have c granted. It never waits for room.
	//
	// An ID that is granted gets the same grant again, its TTL restarted; a
	// smaller Weight than before downgrades it. An ID that has ended gets
	// [ErrLost]. If there is no room Acquire returns a [*HeldError], having
	// left c in line if c.Queue is set and the backend is fair, and having
	// left no trace of c otherwise. Nothing is granted after the deadline of
	// ctx, also if the request reaches the store later: that is [ErrRefused].
	Acquire(ctx context.Context, c Claim) (Grant, error)

	// Wait returns when another Acquire of c may succeed; early is allowed,
	// and so is an error, which costs the caller no more than an attempt.
	// Room that came since the Acquire that returned h was sent counts: no
	// wake-up is lost between the two calls.
	Wait(ctx context.Context, c Claim, h *HeldError) error

	// Renew restarts the TTL of c.Grant, comparing ID and token, and raises
	// the counter of the key to c.Floor. The token stays. It returns
	// [ErrLost] if c is not granted, or was released with a Keep, and never
	// grants again.
	Renew(ctx context.Context, c Claim) (Grant, error)

	// Release withdraws c, granted or in line. With c.Keep > 0 a granted c
	// can't be renewed any more and ends after Keep. Releasing again is not
	// an error, nor is releasing what was never granted (c.Grant.Token 0).
	// A c that was granted and is known to have ended in another way gets
	// [ErrLost], and nobody else's claim is touched.
	Release(ctx context.Context, c Claim) error

	// Revoke asks the holder id to let go of key (its next Renew brings n)
	// or, if n.Force is set, ends its claim now; the holder then learns from
	// ErrLost who did it, and why. It returns [ErrLost] if id does not hold
	// key: the holder has changed since the caller looked.
	Revoke(ctx context.Context, key, id string, n Notice) error

	// Inspect tells who holds key and who waits, at most limit of them in
	// order of arrival, holders first. A key nobody holds is no error.
	Inspect(ctx context.Context, key string, limit int) (State, error)

	// List yields the holders of all keys that begin with prefix, in no
	// order. It never blocks the store: what changes meanwhile may be
	// missed. It ends after the first error.
	List(ctx context.Context, prefix string) iter.Seq2[Holder, error]

	// Traits returns what the backend promises. It does no I/O and always
	// returns the same.
	Traits() Traits

	// Close frees what the backend itself started. It never closes a client
	// that it was given, and leaves claims to their TTL.
	Close() error
}

// A Claim is a request for a share of a key, or for all of it.
type Claim struct {
	Key      string        // any non-empty UTF-8 string up to [MaxKey] bytes; distinct keys are distinct locks
	ID       string        // made by an [Identity] before any I/O; never used again once its release was sent
	Label    string        // who asks, for those who inspect
	Weight   int           // units taken, 1 to Capacity
	Capacity int           // units that Key has, up to [Unlimited]; Weight == Capacity is exclusive
	TTL      time.Duration // how long a grant, or a place in line, outlives its last renewal
	Keep     time.Duration // for Release: how long the claim goes on without its holder
	Queue    bool          // stay in line when there is no room
	Block    int           // tokens wanted; 0 counts as 1. The store keeps the first
	Floor    uint64        // in Acquire a candidate token, ignored if beyond the store's clock + 1s; in Renew a floor
	Grant    Grant         // the last grant, for Renew and Release
}

// A Grant is a store's yes to a claim.
type Grant struct {
	Token  uint64        // greater than every token granted before on the key; Token to Token+Block-1 belong to this grant
	Block  int           // tokens in the grant; 1 where the store has no blocks
	TTL    time.Duration // as the store keeps it, counted from the moment the request was sent and not from the answer
	Holder string        // the claim's ID as Inspect shows it
	Ref    string        // opaque to the core: what the backend needs to find the grant again
	Now    time.Time     // the store's clock when it granted
	Notice *Notice       // what a Revoke left for the holder, nil if nothing
}

// A Notice is what someone else has to say to the holder of a claim.
type Notice struct {
	Force bool      // the claim has been ended, not just asked back
	By    string    // who
	Why   string    // why, in their words
	At    time.Time // when, on the store's clock
}

// A Holder is a claim seen from outside.
type Holder struct {
	Claim                 // Grant.Token is 0 for a claim that waits; Label is empty where the store has none
	Held    bool          // it holds; otherwise it waits
	Foreign bool          // written by another program: ID is whatever stands in the store
	Left    time.Duration // until it ends unless renewed; negative if it never does
	Age     time.Duration // since it was granted or, while it waits, came; negative if unknown
}

// State is what Inspect sees of a key.
type State struct {
	Holders []Holder // those who hold, then those who wait, in order of arrival
	Waiting int      // how many wait, also beyond the limit of Inspect
	Last    uint64   // the last token granted on the key, 0 if none is known
	Notices []Notice // what revocations on the key are still remembered, newest last
}

// Traits are what a backend promises. The conformance suite tests each that is
// claimed, in its subtests Fencing, Durability, Fairness, Counting and Blocks.
type Traits struct {
	Name     string        // of the store, for errors: "redis", "memory"
	Fencing  bool          // tokens rise with every grant on a key
	Durable  bool          // grants survive a crash of the store
	Fair     bool          // claims are granted in order of arrival
	Counting bool          // shares are counted: capacities other than 1 are exact
	Blocks   bool          // a grant has as many tokens as were wanted
	MinTTL   time.Duration // shorter ones are [ErrInvalid]
	MaxTTL   time.Duration // longer ones are [ErrInvalid]
}

// Sentinels to decide on with errors.Is. Any other error of a backend means
// that the outcome of the call is unknown.
var (
	ErrHeld        = errors.New("held by another")             // no room now
	ErrLost        = errors.New("lost")                        // the claim was granted and is not any more
	ErrRefused     = errors.New("refused, nothing was done")   // read-only, loading, out of memory, quarantine, late
	ErrUnsupported = errors.New("not supported by this store") // the store can't keep that claim safely
	ErrInvalid     = errors.New("invalid")                     // the caller's mistake, see [FieldError]
)

// A HeldError says that there was no room. errors.Is(err, ErrHeld) holds.
type HeldError struct {
	Place  int           // place in line, 1 is the next; 0 for a claim that left no trace
	Left   time.Duration // until the claim in the way ends unless renewed; negative if it never does
	Last   uint64        // the last token granted on the key, 0 if unknown
	Now    time.Time     // the store's clock
	Holder Holder        // a claim in the way
}

// Error implements the error interface.
func (e *HeldError) Error() string {
	switch {
	case e.Holder.Foreign:
		return "held by a foreign client"
	case e.Holder.Label != "":
		return "held by " + e.Holder.Label
	default:
		return ErrHeld.Error()
	}
}

// Unwrap makes errors.Is(err, ErrHeld) hold.
func (e *HeldError) Unwrap() error { return ErrHeld }

// Reasons of a [LostError].
const (
	Expired   = "expired"   // it was not renewed in time
	Stolen    = "stolen"    // someone else holds the key
	Forced    = "forced"    // someone ended it: see the notice
	Deleted   = "deleted"   // the store has no trace of it: deleted, evicted, or gone with a failover
	MaxHold   = "max-hold"  // the holder's own limit ended it
	Suspended = "suspended" // the process slept past the end of the lease
	Closed    = "closed"    // the holder closed its client
)

// A LostError says that a claim which was granted is not any more.
// errors.Is(err, ErrLost) holds.
type LostError struct {
	Reason string  // one of the reasons above
	Notice *Notice // who forced it, nil unless Reason is Forced
}

// Error implements the error interface.
func (e *LostError) Error() string {
	if n := e.Notice; n != nil {
		s := "lost: forced by " + n.By
		if n.Why != "" {
			s += " (" + n.Why + ")"
		}
		return s
	}
	return "lost: " + e.Reason
}

// Unwrap makes errors.Is(err, ErrLost) hold.
func (e *LostError) Unwrap() error { return ErrLost }
