package pawl_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/memory"
)

// A stepped clock is that of a machine whose wall clock is set: the monotonic
// reading in its times goes on as if nothing had happened.
type stepped struct{ seconds atomic.Int64 }

func (s *stepped) Now() time.Time {
	now := time.Now()
	// There is no other way to such a time. The first word of one with a
	// monotonic reading has the wall clock's seconds above 30 bits of
	// nanoseconds; the test sees to it that this is so.
	wall := (*uint64)(unsafe.Pointer(&now))
	*wall += uint64(s.seconds.Load()) << 30
	return now
}

func (*stepped) Slept() time.Duration { return 0 }

// The wall clock of a client is set forward and back, while it holds and while it
// waits: nothing comes of it. This is on the real clock, since the times of a
// bubble have no monotonic reading.
// Case I01.
func TestAWallClockThatIsSetChangesNothing(t *testing.T) {
	clock := new(stepped)
	set := func(d time.Duration) {
		t.Helper()
		now := clock.Now()
		clock.seconds.Add(int64(d / time.Second))
		later := clock.Now()
		if got := later.Round(0).Sub(now.Round(0)); got < d || got > d+time.Minute {
			t.Fatalf("the wall clock was set by %v, and shows %v", d, got)
		}
		if got := later.Sub(now); got < 0 || got > time.Minute {
			t.Fatalf("the monotonic clock was set too, by %v", got)
		}
	}
	store := new(memory.Store)
	c := newClient(t, memory.New(store), &pawl.Options{Clock: clock, TTL: 10 * time.Minute})
	defer c.Close()
	other := newClient(t, memory.New(store), nil)
	defer other.Close()
	sound := func(lease *pawl.Lease, when string) {
		t.Helper()
		if !lease.Valid() {
			t.Fatalf("%s: lost: %v", when, context.Cause(lease.Context()))
		}
		if got := lease.Deadline().Sub(clock.Now()); got < 5*time.Minute || got > 10*time.Minute {
			t.Errorf("%s: the lease lasts %v, want 10 minutes, about", when, got)
		}
	}
	lease := acquire(t, c.Mutex("k"))
	for _, step := range []time.Duration{time.Hour, -time.Hour, -time.Hour, time.Hour} {
		set(step)
		sound(lease, "set by "+step.String())
		if err := lease.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		sound(lease, "renewed")
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}

		held := acquire(t, other.Mutex("k"))
		granted := make(chan *pawl.Lease, 1)
		go func() { granted <- acquire(t, c.Mutex("k")) }()
		for st, err := c.Inspect(t.Context(), "k"); st.Waiting == 0; st, err = c.Inspect(t.Context(), "k") {
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		set(-step)
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		lease = <-granted
		sound(lease, "set while it waited")
	}
	lease.Release(t.Context())
}
