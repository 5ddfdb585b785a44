package pawl_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

// A recorder notes the claims that a backend was asked for.
type recorder struct {
	mu     sync.Mutex
	claims []driver.Claim
}

func (r *recorder) note(c driver.Claim) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims = append(r.claims, c)
	return len(r.claims)
}

func (r *recorder) all() []driver.Claim {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.claims)
}

// The store grants and the answer is lost: the same claim is asked for again,
// and its grant is found rather than waited for.
// Cases H01, T5.
func TestALostAnswerIsAskedForAgain(t *testing.T) {
	for name, lose := range map[string]func(context.Context){
		"reset":     func(context.Context) {},
		"blackhole": func(ctx context.Context) { <-ctx.Done() },
	} {
		synctest.Test(t, func(t *testing.T) {
			var tries recorder
			var first atomic.Uint64
			b := &faulty{Backend: memory.New(nil)}
			b.acquire = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
				n := tries.note(c)
				g, err := b.Backend.Acquire(ctx, c)
				if n == 1 {
					first.Store(g.Token)
					lose(ctx)
					return driver.Grant{}, errDown
				}
				return g, err
			}
			c := newClient(t, b, nil)
			defer c.Close()
			start := time.Now()
			lease := acquire(t, c.Mutex("k"))
			claims := tries.all()
			if len(claims) != 2 || claims[0].ID != claims[1].ID {
				t.Fatalf("%s: got %d attempts, want 2 with one ID", name, len(claims))
			}
			if lease.Token() != first.Load() {
				t.Errorf("%s: token: got %d, want that of the first grant, %d", name, lease.Token(), first.Load())
			}
			// The blackhole costs a third of the TTL, and a pause.
			if got := time.Since(start); got > 10*time.Second/3+30*time.Millisecond {
				t.Errorf("%s: took %v", name, got)
			}
			lease.Release(t.Context())
		})
	}
}

// The time for an attempt does not grow with the TTL: a long lease is no reason
// to wait long for a lost answer.
func TestALongTTLDoesNotMeanLongAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries recorder
		var healed atomic.Bool
		b := &faulty{Backend: memory.New(nil)}
		b.acquire = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			if tries.note(c) == 1 {
				<-ctx.Done()
				return driver.Grant{}, context.Cause(ctx)
			}
			return b.Backend.Acquire(ctx, c)
		}
		b.release = func(ctx context.Context, c driver.Claim) error {
			if healed.Load() {
				return b.Backend.Release(ctx, c)
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}
		c := newClient(t, b, &pawl.Options{TTL: 24 * time.Hour})
		start := time.Now()
		lease := acquire(t, c.Mutex("k"))
		if got := time.Since(start); got > 6*time.Second {
			t.Errorf("granted after %v, want about 5s", got)
		}
		start = time.Now()
		if err := lease.Release(t.Context()); err == nil {
			t.Error("a release that nobody answered is a success")
		}
		if got := time.Since(start); got > 7*time.Second {
			t.Errorf("Release took %v, want about 5s", got)
		}
		healed.Store(true)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A store that never answers is trouble, never contention, and Acquire says so
// when it has lasted for a TTL.
// Case D16.
func TestAnOutageEndsAfterATTL(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{
		"refuses":   func(context.Context) error { return driver.ErrRefused },
		"reset":     func(context.Context) error { return errDown },
		"blackhole": func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
		"deaf":      func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Minute); return errDown },
		"lost":      func(context.Context) error { return &driver.LostError{Reason: driver.Expired} },
	} {
		synctest.Test(t, func(t *testing.T) {
			var tries recorder
			b := down()
			b.acquire = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
				tries.note(c)
				return driver.Grant{}, fail(ctx)
			}
			troubles := 0
			c := newClient(t, b, &pawl.Options{Observer: &pawl.Observer{Trouble: func(op, _ string, _ error) {
				if op == "acquire" {
					troubles++
				}
			}}})
			start := time.Now()
			_, err := c.Mutex("k").Acquire(t.Context())
			if got := time.Since(start); got < 10*time.Second || got > 14*time.Second {
				t.Errorf("%s: gave up after %v, want 10s and what an attempt may take", name, got)
			}
			if err == nil || errors.Is(err, pawl.ErrHeld) {
				t.Errorf("%s: got %v, want trouble and not contention", name, err)
			}
			wantOneError(t, err, "acquire")
			n := len(tries.all())
			if n < 3 || n > 30 {
				t.Errorf("%s: %d attempts in %v, want 3 to 30", name, n, time.Since(start))
			}
			ids := map[string]bool{}
			for _, claim := range tries.all() {
				ids[claim.ID] = true
			}
			if want := map[bool]int{true: n, false: 1}[name == "lost"]; len(ids) != want {
				t.Errorf("%s: %d IDs in %d attempts, want %d: one that has ended is of no use", name, len(ids), n, want)
			}
			if troubles != n-1 {
				t.Errorf("%s: the observer was told %d times of %d failures that were tried again", name, troubles, n-1)
			}
			time.Sleep(2 * time.Minute) // the claim is being withdrawn
			c.Close()
		})
	}
}

// Trouble is what lasts: one answer, and the time starts anew.
func TestAnAnswerEndsTheTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := down()
		start := time.Now()
		b.acquire = func(context.Context, driver.Claim) (driver.Grant, error) {
			if s := time.Since(start); s > 7*time.Second && s < 9*time.Second { // longer than any pause
				return driver.Grant{}, &driver.HeldError{}
			}
			return driver.Grant{}, errDown
		}
		b.wait = func(context.Context, driver.Claim, *driver.HeldError) error { return errDown }
		c := newClient(t, b, nil)
		_, err := c.Mutex("k").Acquire(t.Context())
		if got := time.Since(start); got < 19*time.Second || got > 21*time.Second {
			t.Errorf("gave up after %v, want 10s after the last answer at 9s", got)
		}
		if !errors.Is(err, errDown) || errors.Is(err, pawl.ErrHeld) {
			t.Errorf("got %v, want the store's error alone", err)
		}
		time.Sleep(time.Minute)
		c.Close()
	})
}

// A grant of which nothing is left when it comes is given back, and another is
// asked for under another name.
// Case A10.
func TestAGrantThatCameTooLateIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory.Store)
		var tries, released recorder
		b := &faulty{Backend: memory.New(store)}
		b.acquire = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			n := tries.note(c)
			g, err := b.Backend.Acquire(ctx, c)
			if n == 1 {
				g.TTL = time.Millisecond // the store keeps less than it was asked for
			}
			return g, err
		}
		b.release = func(ctx context.Context, c driver.Claim) error {
			released.note(c)
			return b.Backend.Release(ctx, c)
		}
		c := newClient(t, b, nil)
		defer c.Close()
		lease := acquire(t, c.Mutex("k"))
		claims, given := tries.all(), released.all()
		if len(claims) < 2 || claims[0].ID == claims[1].ID {
			t.Fatalf("got %d attempts, want a second one with an ID of its own", len(claims))
		}
		if len(given) != 1 || given[0].ID != claims[0].ID || given[0].Grant.Token == 0 {
			t.Errorf("got releases %+v, want that of the late grant", given)
		}
		if !lease.Valid() || lease.Holder() != claims[len(claims)-1].ID {
			t.Errorf("holder: got %q, valid %v", lease.Holder(), lease.Valid())
		}
		lease.Release(t.Context())
		wantFree(t, store, "k")

		b.acquire = func(ctx context.Context, c driver.Claim) (driver.Grant, error) {
			g, err := b.Backend.Acquire(ctx, c)
			g.TTL = time.Millisecond
			return g, err
		}
		if lease, err := c.Mutex("k").TryAcquire(t.Context()); err == nil {
			t.Errorf("try: got a lease until %v, want an error", lease.Deadline())
		}
		synctest.Wait()
		wantFree(t, store, "k")
	})
}

// A caller's mistake is told at once, and by name.
func TestMistakesAreToldByField(t *testing.T) {
	c := newClient(t, memory.New(nil), nil)
	defer c.Close()
	for _, tt := range []struct {
		lock  *pawl.Lock
		field string
	}{
		{c.Mutex(""), "Key"},
		{c.Mutex("\xff\xfe"), "Key"},
		{c.Mutex(string(make([]byte, driver.MaxKey+1))), "Key"},
		{c.Semaphore("k", 0), "Capacity"},
		{c.Semaphore("k", -1), "Capacity"},
		{c.Semaphore("k", driver.Unlimited+1), "Capacity"},
	} {
		_, err := tt.lock.Acquire(t.Context())
		var field *pawl.FieldError
		if !errors.Is(err, pawl.ErrInvalid) || !errors.As(err, &field) || field.Field != tt.field {
			t.Errorf("got %v, want a FieldError that names %s", err, tt.field)
		}
		wantOneError(t, err, "acquire")
	}
	if _, err := c.Inspect(t.Context(), ""); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("inspect of no key: got %v, want ErrInvalid", err)
	}
	if err := c.ForceRelease(t.Context(), "k", "id", "because\n"); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("force-release with a control character: got %v, want ErrInvalid", err)
	}
	if err := c.ForceRelease(t.Context(), "k", "id", ""); !errors.Is(err, pawl.ErrLost) {
		t.Errorf("force-release of nobody: got %v, want ErrLost", err)
	}
}
