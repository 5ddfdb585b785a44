package pawl

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/pawlock/pawl/internal/term"
)

// A keeper looks after all leases of a client: it has them renewed when they
// are due and tells their loss when their time is over. It is one heap and one
// timer, and never waits for I/O: whatever the store is doing, the next lease
// gets its turn.
type keeper struct {
	client *Client
	mu     sync.Mutex
	queue  leaseQueue    // guarded by mu
	timer  *time.Timer   // guarded by mu
	armed  bool          // guarded by mu: timer is going to fire
	at     time.Duration // guarded by mu: when it fires
}

// add begins to look after l, unless it has ended already.
func (k *keeper) add(l *Lease, due time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.ctx.Err() != nil {
		return // whoever ends a lease cancels it before it is removed
	}
	l.due = due
	heap.Push(&k.queue, l)
	k.arm()
}

// move sets the time at which l is due next. A lease that was removed stays
// removed.
func (k *keeper) move(l *Lease, due time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index < 0 {
		return
	}
	l.due = due
	heap.Fix(&k.queue, l.index)
	k.arm()
}

// remove stops looking after l, for good. The timer is left as it is: to find
// nothing to do later costs less than to set it anew for every release.
func (k *keeper) remove(l *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index >= 0 {
		heap.Remove(&k.queue, l.index)
	}
}

// leases returns those that are looked after.
func (k *keeper) leases() []*Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]*Lease(nil), k.queue...)
}

// run is the timer's function: it gives each lease that is due its turn.
func (k *keeper) run() {
	now := k.client.now()
	var due []*Lease
	k.mu.Lock()
	k.armed = false
	for len(k.queue) > 0 && k.queue[0].due <= now.At {
		l := k.queue[0]
		due = append(due, l)
		l.due = now.At + time.Hour // until its turn is over, which moves it
		heap.Fix(&k.queue, 0)
	}
	k.mu.Unlock()
	for _, l := range due {
		l.turn(now)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.arm()
}

// glance is the longest that the timer is set for while there are leases, or a
// thirtieth of the TTL where that is longer. Timers stand still while the machine
// sleeps: a lease that it slept past the end of is told so within a glance of
// waking, and not when the timer would have fired.
const glance = time.Second

// arm sets the timer for the first lease. It is called with mu held.
func (k *keeper) arm() {
	if len(k.queue) == 0 {
		return
	}
	first := k.queue[0].due
	if k.armed && k.at <= first {
		return
	}
	now := k.client.now().At
	wait := min(max(0, first-now), max(glance, k.client.opts.TTL/30))
	k.armed, k.at = true, now+wait
	if k.timer == nil {
		k.timer = time.AfterFunc(wait, k.run)
		return
	}
	k.timer.Reset(wait)
}

// turn does what is due for l.
func (l *Lease) turn(now term.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch action, next := l.term.Due(now); action {
	case term.Lose:
		l.lose(&LostError{Reason: l.term.Reason()})
	case term.Renew:
		timeout := l.term.Try(now)
		l.client.keeper.move(l, l.term.Next())
		l.client.ask(func() {
			ctx, cancel := context.WithTimeout(l.ctx, timeout)
			defer cancel()
			_ = l.renew(ctx) // the observer has heard of it
		})
	default:
		if l.term.State() == term.Live {
			l.client.keeper.move(l, next)
		}
	}
}

// A leaseQueue is a heap of leases, the one that is due first on top.
type leaseQueue []*Lease

func (q leaseQueue) Len() int           { return len(q) }
func (q leaseQueue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q leaseQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *leaseQueue) Push(x any) {
	l := x.(*Lease)
	l.index = len(*q)
	*q = append(*q, l)
}

func (q *leaseQueue) Pop() any {
	old := *q
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	l.index = -1
	return l
}
