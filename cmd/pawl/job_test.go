package main

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

// A slowBackend answers late.
type slowBackend struct {
	driver.Backend
	acquire, renew time.Duration
}

func (b slowBackend) Acquire(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	defer time.Sleep(b.acquire)
	return b.Backend.Acquire(ctx, c)
}

func (b slowBackend) Renew(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	defer time.Sleep(b.renew)
	return b.Backend.Renew(ctx, c)
}

// A grant that comes so late that the command would be stopped at once is
// renewed before the command starts, and given up if that is as slow.
func TestSlowGrantIsRenewedBeforeTheCommandStarts(t *testing.T) {
	const (
		ttl       = 12 * time.Second
		slow      = 1700 * time.Millisecond
		killAfter = 8 * time.Second
	)
	for _, test := range []struct {
		renew time.Duration
		code  int
	}{
		{0, exitOK},
		{slow, exitUnreachable},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &store{Backend: slowBackend{memory.New(nil), slow, test.renew}, name: "mem://"}
			j := job{program: &program{err: io.Discard}, timing: timing{killAfter: killAfter, renewEvery: time.Second}}
			client, err := pawl.New(s, &pawl.Options{TTL: ttl, RenewEvery: time.Second, Observer: j.observer()})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			lease, err := client.Mutex("k").Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer lease.Release(t.Context())
			if lease.Check(killAfter) == nil {
				t.Fatalf("got %v left of the lease, want less than %v", time.Until(lease.Deadline()), killAfter)
			}
			j.hold = &hold{lease, client, s, []*pawl.Lease{lease}}
			err = j.refresh()
			if test.code == exitOK {
				if err != nil || lease.Check(killAfter) != nil {
					t.Errorf("renewals take %v: got %v and %v left, want the lease renewed", test.renew, err, time.Until(lease.Deadline()))
				}
				return
			}
			var f *failure
			if !errors.As(err, &f) || f.code != test.code {
				t.Errorf("renewals take %v: got %v, want a failure with exit code %d", test.renew, err, test.code)
			}
			if state, err := client.Inspect(t.Context(), "k"); err != nil || held(state) {
				t.Errorf("renewals take %v: got %+v, %v, want the lock released", test.renew, state, err)
			}
		})
	}
}

// U06: a signal that came after the lock, and before the command, keeps the
// command from being started.
func TestStopSignalBeforeTheStartReleases(t *testing.T) {
	s := &store{Backend: memory.New(nil), name: "mem://"}
	j := job{program: &program{err: io.Discard}, path: "/no/such/command", argv: []string{"x"}}
	client, err := pawl.New(s, &pawl.Options{Observer: j.observer()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	lease, err := client.Mutex("k").Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal, 2)
	signals <- syscall.SIGWINCH
	signals <- syscall.SIGTERM
	err = j.run(&hold{lease, client, s, []*pawl.Lease{lease}}, signals)
	var f *failure
	if !errors.As(err, &f) || f.death == nil || f.death.Signal != syscall.SIGTERM {
		t.Errorf("got %v, want death by TERM", err)
	}
	if state, err := client.Inspect(t.Context(), "k"); err != nil || held(state) {
		t.Errorf("got %+v, %v, want the lock released", state, err)
	}
}

// V13: two hours of waiting are two hours.
func TestALongWaitIsWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memory.New(nil)
		client, err := pawl.New(backend, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		lease, err := client.Mutex("k").Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release(t.Context())
		p := &program{err: io.Discard}
		began := time.Now()
		const wait = 2 * time.Hour
		_, err = p.acquire(&store{Backend: backend, name: "mem://"}, request{keys: []string{"k"}, slots: 1, wait: wait, conflict: exitBusy}, nil)
		var f *failure
		if !errors.As(err, &f) || f.code != exitBusy {
			t.Errorf("got %v, want a failure with exit code %d", err, exitBusy)
		}
		if got := time.Since(began); got != wait {
			t.Errorf("it gave up after %v, want %v", got, wait)
		}
	})
}

// Two renewals fit in before TERM would be sent, so that one that fails does
// not stop a healthy command.
func TestRenewalsComeBeforeTerm(t *testing.T) {
	for _, test := range []struct {
		ttl, killAfter time.Duration // 0: not chosen
		want           timing
	}{
		{30 * time.Second, 0, timing{5 * time.Second, 500 * time.Millisecond, 10 * time.Second}},
		{2 * time.Second, 0, timing{500 * time.Millisecond, 200 * time.Millisecond, 540 * time.Millisecond}},
		{30 * time.Second, 25 * time.Second, timing{25 * time.Second, 500 * time.Millisecond, 1600 * time.Millisecond}},
		{30 * time.Second, time.Millisecond, timing{500 * time.Millisecond, 500 * time.Millisecond, 10 * time.Second}},
	} {
		f := runFlags{claimFlags: claimFlags{ttl: test.ttl}, killAfter: test.killAfter}
		got, err := f.timing(test.killAfter != 0)
		if err != nil || got != test.want {
			t.Errorf("--ttl %v --kill-after %v: got %+v, %v, want %+v", test.ttl, test.killAfter, got, err, test.want)
		}
	}
}
