// Package pawl is a distributed lock that tells the truth: who holds a key, for
// how long that is certain, and with which fencing token.
//
//	client, err := pawl.New(goredis.New(rdb), nil)
//	...
//	err = client.Mutex("invoice/42").Do(ctx, func(ctx context.Context, lease *pawl.Lease) error {
//		return store.Write(ctx, lease.Token(), invoice) // ctx ends when the lease does
//	})
//
// A [Client] joins a program to a store through a backend: package memory for
// tests, file for one machine, redis for many. A [Lock] is a name and how much
// of it is wanted; it has no state and may be shared by any number of
// goroutines. A [Lease] is one hold of a lock. It is renewed in the background
// until it is released or lost.
//
// # What a lease promises
//
// The lease of a process that vanishes frees itself within [Options].TTL. A
// lease that can't be renewed ends for its holder before the store gives the
// key to anyone else: [Lease.Context] is cancelled, with the reason as its
// cause, a margin before that moment, whatever the network is doing.
//
// # What no lease can promise
//
// A process that is paused between looking at its lease and writing to the
// resource does not know that it was paused. No lock can stop such a write;
// the resource can, by refusing a token smaller than one it has seen. That is
// what [Lease.Token] is for: tokens on a key rise with every grant. Package
// fence has guards that check them, and find the token in the context, see
// [TokenFromContext]. Code that has no guard to write through calls
// [Lease.Check] right before each side effect, which makes the window small, but
// does not close it.
//
// # Errors
//
// Three kinds want three treatments. [ErrHeld] is an answer: someone else holds
// the key. [ErrLost] is an event: the lease ended before it was released. Any
// other error of a store is trouble with the store, and is never reported as
// one of these two. Each comes wrapped in one [*Error] that says which
// operation failed, on which key and in which store.
package pawl
