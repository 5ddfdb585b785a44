// Package fence protects a resource from those who have lost its lock and don't
// know yet.
//
// A process can be paused at any point: between looking at its lease and
// writing, say, for longer than the lease lasts. No lock can reach it then. The
// resource can: each hold of a lock has a token, greater than those before, and
// a resource that has seen a token refuses a smaller one. A [Guard] does that:
//
//	err := client.Mutex("invoice/42").Do(ctx, func(ctx context.Context, lease *pawl.Lease) error {
//		return fence.Do(ctx, guard, "invoice/42", func(ctx context.Context) error {
//			return write(ctx) // not called if another has written under a later hold
//		})
//	})
//
// The token is checked, and remembered, in one step with the write, as durably
// as what is written. So a guard has to be where the data is: [Memory] for what
// is in this process, and the packages beneath for what is elsewhere.
package fence

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlock/pawl"
)

// A Guard stands before resources. All guards keep the same promises, which
// package fencetest tests:
//
//   - A token is accepted if its number is equal to the highest that the resource
//     has seen, or greater. A holder may write as often as it likes.
//   - A smaller one is refused with a [*StaleError], and nothing is written.
//   - Those who share a lock do not fence each other, since they hold it at the
//     same time and write in any order. They fence, and are fenced by, those who
//     hold it exclusively.
//   - Check, memory and write are one step. Between two writes of one resource
//     there is an order, and the tokens rise in it.
//   - A resource belongs to one lock, the one whose token it saw first: numbers of
//     different locks have no order. The token of another is refused with an
//     [*OtherLockError].
//   - Every other error leaves open whether something was written, unless the
//     guard says more. It never means that the token is stale.
type Guard interface {
	// Do calls write unless token is stale for resource, and returns its error.
	// What write changes under the context it is given is what the guard
	// protects. If it fails, the token may have been remembered all the same;
	// it always has been if a part of the write may have stayed.
	//
	// Two Do on one resource wait for each other, until ctx ends at most. A Do
	// inside the write of another on the same resource would wait for itself, and
	// is [ErrNested].
	Do(ctx context.Context, resource string, token pawl.Token, write func(ctx context.Context) error) error
}

// Do is g.Do with the token that ctx carries, see [pawl.TokenFromContext]. It is
// [ErrNoToken] if there is none.
func Do(ctx context.Context, g Guard, resource string, write func(ctx context.Context) error) error {
	token, ok := pawl.TokenFromContext(ctx)
	if !ok {
		return fmt.Errorf("%w: the write to %q was not tried", ErrNoToken, resource)
	}
	return g.Do(ctx, resource, token, write)
}

// Sentinels to decide on with errors.Is.
var (
	// ErrStale: the resource has seen a later hold of the lock. The lock was
	// lost, whatever the lease says. errors.As to a [*StaleError] tells the rest.
	ErrStale = errors.New("fence: the token is stale")

	// ErrOtherLock: the resource is protected by another lock. errors.As to an
	// [*OtherLockError] names both.
	ErrOtherLock = errors.New("fence: the token is of another lock")

	// ErrNoToken: the context carries no token, since it does not come from a
	// lease.
	ErrNoToken = errors.New("fence: the context carries no token")

	// ErrNested: the write of one Do has called another on the same resource,
	// which would wait for itself.
	ErrNested = errors.New("fence: nested in a write to the same resource, it would wait for itself")
)

// A StaleError tells which hold has written to the resource since.
// errors.Is(err, ErrStale) holds.
type StaleError struct {
	Resource string
	Token    pawl.Token // that was refused
	Highest  pawl.Token // that the resource has seen
}

// Error implements the error interface.
func (e *StaleError) Error() string {
	return fmt.Sprintf("%v: %q refuses %s, for it has seen %s: the lock was lost, nothing was written", ErrStale, e.Resource, e.Token, e.Highest)
}

// Unwrap makes errors.Is(err, ErrStale) hold.
func (e *StaleError) Unwrap() error { return ErrStale }

// An OtherLockError tells which lock protects the resource.
// errors.Is(err, ErrOtherLock) holds.
type OtherLockError struct {
	Resource string
	Token    pawl.Token // that was refused
	Key      string     // of the lock whose tokens the resource takes
}

// Error implements the error interface.
func (e *OtherLockError) Error() string {
	return fmt.Sprintf("%v: %q is protected by the lock %q, and refuses %s: nothing was written", ErrOtherLock, e.Resource, e.Key, e.Token)
}

// Unwrap makes errors.Is(err, ErrOtherLock) hold.
func (e *OtherLockError) Unwrap() error { return ErrOtherLock }
