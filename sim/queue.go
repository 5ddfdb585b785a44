package sim

import (
	"container/heap"
	"time"
)

// An event happens at a time.
type event struct {
	at  time.Duration
	seq int // events at the same time happen in the order they were made
	do  func()
}

// A queue is the events to come, and the true time.
type queue struct {
	now    time.Duration
	events events
	seq    int
}

// at lets do happen at t.
func (q *queue) at(t time.Duration, do func()) {
	q.seq++
	heap.Push(&q.events, event{max(t, q.now), q.seq, do})
}

// after lets do happen in d.
func (q *queue) after(d time.Duration, do func()) { q.at(q.now+d, do) }

// run lets happen what is due until t.
func (q *queue) run(t time.Duration) {
	for len(q.events) > 0 && q.events[0].at <= t {
		e := heap.Pop(&q.events).(event)
		q.now = e.at
		e.do()
	}
	q.now = max(q.now, t)
}

type events []event

func (e events) Len() int      { return len(e) }
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e *events) Push(x any) { *e = append(*e, x.(event)) }

func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	old[len(old)-1] = event{}
	*e = old[:len(old)-1]
	return x
}
