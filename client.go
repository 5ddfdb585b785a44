package pawl

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/workers"
)

// A Client takes locks in one store. It may be used by any number of
// goroutines; a process needs one for each store. Until it is closed a few goroutines
// of its own may stay for a second after a request.
type Client struct {
	backend  driver.Backend
	traits   driver.Traits
	opts     Options // complete
	identity *driver.Identity
	start    time.Time     // zero of the client's clock
	slept0   time.Duration // reading of Options.Clock.Slept at start
	keeper   keeper
	relays   relays
	workers  *workers.Workers // that make its requests

	closed context.Context // ends when Close is called
	close  context.CancelFunc
	mu     sync.Mutex
	done   bool          // guarded by mu: Close was called
	busy   int           // guarded by mu: acquires under way, and detached work
	idle   chan struct{} // closed when busy is 0 after Close was called
}

// Types of what Inspect and List return.
type (
	// A Holder is a claim on a key, seen from outside.
	Holder = driver.Holder
	// A State is who holds a key, and who waits.
	State = driver.State
)

// New returns a client that keeps its locks in b. Nil options are the defaults.
// It returns a [*FieldError] for options that the store can't honour, and does
// no I/O: a store that is down shows when a lock is wanted.
func New(b driver.Backend, opts *Options) (*Client, error) {
	if b == nil {
		return nil, &FieldError{Field: "Backend", Why: "is nil: make one with memory.New, file.New or goredis.New"}
	}
	traits := b.Traits()
	complete, err := opts.complete(traits)
	if err != nil {
		return nil, err
	}
	c := &Client{backend: b, traits: traits, opts: complete, identity: driver.NewIdentity(complete.Label)}
	c.start, c.slept0 = c.opts.Clock.Now(), c.opts.Clock.Slept()
	c.closed, c.close = context.WithCancel(context.Background())
	c.idle = make(chan struct{})
	c.keeper.client = c
	c.workers = workers.New(c.closed.Done(), restTime)
	return c, nil
}

// Mutex returns the lock of key for one holder at a time.
func (c *Client) Mutex(key string) *Lock {
	return &Lock{client: c, key: key, weight: 1, capacity: 1}
}

// Semaphore returns the lock of key for n holders at a time. Clients should
// agree on n: each is granted by its own.
func (c *Client) Semaphore(key string, n int) *Lock {
	return &Lock{client: c, key: key, weight: 1, capacity: n}
}

// ReadLock returns the lock of key for any number of readers, as long as nobody
// holds its [Client.WriteLock]. Where the store is fair, all are served in order
// of arrival: a writer that waits keeps out later readers, and readers that wait
// keep out later writers, so that neither starve.
func (c *Client) ReadLock(key string) *Lock {
	return &Lock{client: c, key: key, weight: 1, capacity: driver.Unlimited}
}

// WriteLock returns the lock of key for one writer and no reader. It is the
// same as the [Client.Mutex] of key.
func (c *Client) WriteLock(key string) *Lock {
	return &Lock{client: c, key: key, weight: driver.Unlimited, capacity: driver.Unlimited}
}

// Weighted returns the lock of key, which has capacity units, for a holder who
// takes weight of them: a large job that counts for three small ones, or the
// gigabytes of a machine. Weight is 1 to capacity. All of them is to be alone on
// the key, as with [Client.Mutex]. Clients should agree on capacity: each is
// granted by its own.
func (c *Client) Weighted(key string, weight, capacity int) *Lock {
	return &Lock{client: c, key: key, weight: weight, capacity: capacity}
}

// inspectLimit bounds what Inspect returns: enough to see who is in the way.
const inspectLimit = 100

// Inspect tells who holds key and who waits, holders first, at most 100 of
// them. It returns an [*Error] if the store can't be asked.
func (c *Client) Inspect(ctx context.Context, key string) (State, error) {
	if err := driver.ValidateKey(key); err != nil {
		return State{}, c.fail("inspect", key, err)
	}
	s, err := c.backend.Inspect(ctx, key, inspectLimit)
	return s, c.fail("inspect", key, err)
}

// List yields the holders of all keys that begin with prefix, in no order. It
// does not stop the store, and so may miss what changes meanwhile. An error
// ends it.
func (c *Client) List(ctx context.Context, prefix string) iter.Seq2[Holder, error] {
	return func(yield func(Holder, error) bool) {
		for h, err := range c.backend.List(ctx, prefix) {
			if !yield(h, c.fail("list", prefix, err)) {
				return
			}
		}
	}
}

// closeTimeout bounds how long Close waits for claims to be withdrawn.
const closeTimeout = 5 * time.Second

// Close ends the client: what waits returns [ErrClosed], and each lease that is
// still held ends with a [*LostError] of reason "closed" and is released. It
// waits for that, and for claims that are being withdrawn, for up to 5 seconds;
// what could not be released by then is named in the error and ends with its
// TTL. The backend and its connections stay open: they are the caller's.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.done {
		c.mu.Unlock()
		return nil
	}
	c.done = true
	c.busy++ // until its own releases are done
	c.mu.Unlock()
	c.close()

	var mu sync.Mutex
	var failed []error
	var releases sync.WaitGroup
	for _, l := range c.keeper.leases() {
		releases.Go(func() {
			if err := l.endClosed(); err != nil {
				mu.Lock()
				failed = append(failed, err)
				mu.Unlock()
			}
		})
	}
	go func() {
		releases.Wait()
		c.end()
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-c.idle:
	case <-timer.C:
		return errors.New("pawl: close: the store did not confirm every release within 5s; what it still holds ends with its TTL")
	}
	return errors.Join(failed...)
}

// restTime is how long a goroutine that has made a request waits for the next one,
// if the client is not closed before. A test in a bubble of testing/synctest has to
// close its client, or sleep for so long, before it returns.
const restTime = time.Second

// ask runs f, which makes a request, on a goroutine that nobody waits for.
func (c *Client) ask(f func()) { c.workers.Start(f) }

// detach runs f on a goroutine that Close waits for. After Close it still runs:
// what f does is to clean up, and nobody else would.
func (c *Client) detach(f func()) {
	c.begin()
	go func() {
		defer c.end()
		f()
	}()
}

// begin notes that work has begun which Close is to wait for: an acquire that
// it interrupts may have a claim to withdraw.
func (c *Client) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy++
}

func (c *Client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
	if c.busy > 0 || !c.done {
		return
	}
	select {
	case <-c.idle: // it was closed before: this began after Close
	default:
		close(c.idle)
	}
}
