package pawl_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

// A holder hears a request with his next renewal, once, and keeps the lease.
func TestARequestIsHeardWithTheNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(nil)
		var heard atomic.Int32
		c := newClient(t, b, &pawl.Options{RenewEvery: 3 * time.Second, Observer: &pawl.Observer{
			Asked: func(*pawl.Lease, pawl.Notice) { heard.Add(1) },
		}})
		operator := newClient(t, b, &pawl.Options{Label: "operator"})
		defer operator.Close()
		defer c.Close()
		lease := acquire(t, c.Mutex("k"))
		began := time.Now()
		if lease.Notice() != nil {
			t.Errorf("a notice before anyone has asked: %+v", lease.Notice())
		}
		if err := operator.AskRelease(t.Context(), "k", "disk is full"); err != nil {
			t.Fatal(err)
		}
		<-lease.Revoked()
		if took := time.Since(began); took > 3*time.Second+3*time.Second/10 { // with its jitter
			t.Errorf("heard after %v, want with the first renewal", took)
		}
		if n := lease.Notice(); n == nil || n.By != "operator" || n.Why != "disk is full" || n.Force || !n.At.Equal(began) {
			t.Errorf("got %+v, want what the operator said at %v", n, began)
		}
		time.Sleep(time.Minute)
		if n := heard.Load(); n != 1 {
			t.Errorf("the observer heard %d requests, want 1", n)
		}
		if err := operator.AskRelease(t.Context(), "k", "now, please"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if n := lease.Notice(); heard.Load() != 2 || n.Why != "now, please" {
			t.Errorf("after a second request: got %d heard and %+v", heard.Load(), n)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("release: %v", err)
		}
	})
}

// Who is forced out is told so by the end of the lease, and not by a request.
func TestForceIsNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(nil), nil)
		defer c.Close()
		lease := acquire(t, c.Mutex("k"))
		if err := c.ForceRelease(t.Context(), "k", lease.Holder(), "hangs"); err != nil {
			t.Fatal(err)
		}
		<-lease.Context().Done()
		select {
		case <-lease.Revoked():
			t.Error("Revoked is closed, want it open: nothing was asked")
		default:
		}
		if lease.Notice() != nil {
			t.Errorf("got a request %+v, want none", lease.Notice())
		}
		lease.Release(t.Context())
	})
}

// The next in line has the key at the instant at which its holder is put out,
// who learns it with his next renewal and not at the end of his lease.
// Cases S01, S02.
func TestForceWakesTheNextAtOnce(t *testing.T) { // S01, S02
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(nil), &pawl.Options{TTL: time.Hour, RenewEvery: time.Minute})
		defer c.Close()
		stuck := acquire(t, c.Mutex("k"))
		next := make(chan *pawl.Lease, 1)
		go func() { next <- acquire(t, c.Mutex("k")) }()
		time.Sleep(30 * time.Second)
		began := time.Now()
		if err := c.ForceRelease(t.Context(), "k", stuck.Holder(), "hangs"); err != nil {
			t.Fatal(err)
		}
		lease := <-next
		if took := time.Since(began); took != 0 {
			t.Errorf("the next came after %v, want at once", took)
		}
		<-stuck.Context().Done()
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the holder was told after %v, want with its next renewal", took)
		}
		if !lease.Valid() {
			t.Error("the next holds no more: the renewal of who was put out undid it")
		}
		lease.Release(t.Context())
	})
}

// Whoever can't be asked is named, and the others are asked all the same.
func TestAskReleaseTellsWhatItCouldNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &revoker{Backend: memory.New(nil)}
		c := newClient(t, b, nil)
		defer c.Close()
		first, second := acquire(t, c.ReadLock("k")), acquire(t, c.ReadLock("k"))
		b.revoke = func(ctx context.Context, key, id string, n driver.Notice) error {
			if id == first.Holder() {
				return errDown
			}
			return b.Backend.Revoke(ctx, key, id, n)
		}
		err := c.AskRelease(t.Context(), "k", "")
		if !errors.Is(err, errDown) {
			t.Errorf("got %v, want the store's error", err)
		}
		wantOneError(t, err, "revoke")
		<-second.Revoked()

		b.revoke = nil
		b.foreign = true
		if err := c.AskRelease(t.Context(), "k", ""); !errors.Is(err, pawl.ErrUnsupported) {
			t.Errorf("a foreign holder: got %v, want ErrUnsupported", err)
		}
		for _, why := range []string{"a\nb", "\xff"} {
			if err := c.AskRelease(t.Context(), "k", why); !errors.Is(err, pawl.ErrInvalid) {
				t.Errorf("why %q: got %v, want ErrInvalid", why, err)
			}
		}
		if err := c.AskRelease(t.Context(), "", "why"); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("no key: got %v, want ErrInvalid", err)
		}
		first.Release(t.Context())
		second.Release(t.Context())
	})
}

// A revoker is a store that answers Revoke as told, and may say that all who hold
// are foreign.
type revoker struct {
	driver.Backend
	revoke  func(ctx context.Context, key, id string, n driver.Notice) error
	foreign bool
}

func (r *revoker) Revoke(ctx context.Context, key, id string, n driver.Notice) error {
	if r.revoke != nil {
		return r.revoke(ctx, key, id, n)
	}
	return r.Backend.Revoke(ctx, key, id, n)
}

func (r *revoker) Inspect(ctx context.Context, key string, limit int) (driver.State, error) {
	s, err := r.Backend.Inspect(ctx, key, limit)
	for i := range s.Holders {
		s.Holders[i].Foreign = r.foreign
	}
	return s, err
}
