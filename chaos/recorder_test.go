package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
	"github.com/pawlock/pawl/fence"
)

// A recorder keeps what the clients of a round saw, and is the resource that they
// write to.
type recorder struct {
	began   time.Time
	history drivertest.History
	guard   fence.Memory

	mu       sync.Mutex
	ops      map[string][]op      // by key; guarded by mu
	answered map[string]time.Time // when the last grant was; guarded by mu
}

func newRecorder() *recorder {
	return &recorder{began: time.Now(), ops: make(map[string][]op), answered: make(map[string]time.Time)}
}

func (r *recorder) since(t time.Time) time.Duration { return t.Sub(r.began) }

// granted records a grant. Its end is told by the function that it returns.
func (r *recorder) granted(key, id string, token uint64, sent, answered time.Time) (ended func(time.Time)) {
	// What the store promises for is not known here: the end is always told.
	c := driver.Claim{Key: key, ID: id, Weight: 1, Capacity: 1, Grant: driver.Grant{Token: token, TTL: time.Hour}}
	hold := r.history.Granted(c, sent, answered)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops[key] = append(r.ops[key], op{opAcquire, token, false, r.since(sent), r.since(answered)})
	if answered.After(r.answered[key]) {
		r.answered[key] = answered
	}
	return func(at time.Time) {
		r.history.Ended(hold, at)
		r.mu.Lock()
		defer r.mu.Unlock()
		// A lease that was over when it was answered is free from then on.
		r.ops[key] = append(r.ops[key], op{opFree, token, false, max(r.since(at), r.since(answered)), forever})
	}
}

// write is the guarded resource. What the guard lets pass is recorded by the write
// itself, and so in the order of the writes.
func (r *recorder) write(key string, token uint64, call time.Time) bool {
	err := r.guard.Do(context.Background(), key, pawl.Token{Key: key, Number: token}, func(context.Context) error {
		r.wrote(key, token, true, call)
		return nil
	})
	if err != nil {
		r.wrote(key, token, false, call)
	}
	return err == nil
}

func (r *recorder) wrote(key string, token uint64, accepted bool, call time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Wrote(drivertest.Write{Key: key, Token: token, Accepted: accepted})
	r.ops[key] = append(r.ops[key], op{opWrite, token, accepted, r.since(call), r.since(time.Now())})
}

func (r *recorder) lastAnswer(key string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answered[key]
}

// check returns what is wrong with the history, and how many holds overlapped
// where that was not promised.
func (r *recorder) check(exclusive bool) (wrong []string, overlaps int) {
	for _, v := range r.history.Check() {
		if v.Property == drivertest.NoOverlap && !exclusive {
			overlaps++
			continue
		}
		wrong = append(wrong, v.String())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, ops := range r.ops {
		if got := linearizable(ops, exclusive); got != porcupine.Ok {
			wrong = append(wrong, fmt.Sprintf(modelSays+"the %d operations on %q are %v", len(ops), key, got))
		}
	}
	return wrong, overlaps
}

// modelSays begins what the model found; the rest is of the direct invariants.
const modelSays = "model: "

func isOfModel(w string) bool { return strings.HasPrefix(w, modelSays) }

// String lists the operations in the order in which they were called.
func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for key, ops := range r.ops {
		ops = slices.Clone(ops)
		slices.SortFunc(ops, func(x, y op) int { return int(x.call - y.call) })
		for _, o := range ops {
			fmt.Fprintf(&b, "%s: %v to %v: %s\n", key, o.call, o.ret, lockModel(true).DescribeOperation(o, nil))
		}
	}
	return b.String()
}

// endOf returns when the promise of a lease ends that is released, or was lost,
// now.
func endOf(lease *pawl.Lease) time.Time {
	now := time.Now()
	if d := lease.Deadline(); d.Before(now) {
		return d
	}
	return now
}
