package sim

import "time"

// An event happens at a time.
type event struct {
	at  time.Duration
	seq int // events at the same time happen in the order they were made
	do  func()
}

// A queue is the events to come, and the true time.
type queue struct {
	now    time.Duration
	events []event // a heap, what is next on top
	seq    int
}

// at lets do happen at t.
func (q *queue) at(t time.Duration, do func()) {
	q.seq++
	q.push(event{max(t, q.now), q.seq, do})
}

// after lets do happen in d.
func (q *queue) after(d time.Duration, do func()) { q.at(q.now+d, do) }

// run lets happen what is due until t.
func (q *queue) run(t time.Duration) {
	for len(q.events) > 0 && q.events[0].at <= t {
		e := q.pop()
		q.now = e.at
		e.do()
	}
	q.now = max(q.now, t)
}

// push and pop are those of container/heap, without a conversion to any for each
// of the forty million events of ten thousand worlds.
func (q *queue) push(e event) {
	q.events = append(q.events, e)
	i := len(q.events) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(q.events[parent]) {
			break
		}
		q.events[i] = q.events[parent]
		i = parent
	}
	q.events[i] = e
}

func (q *queue) pop() event {
	top, n := q.events[0], len(q.events)-1
	last := q.events[n]
	q.events[n] = event{} // for the collector
	q.events = q.events[:n]
	if n == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= n {
			break
		}
		if child+1 < n && q.events[child+1].before(q.events[child]) {
			child++
		}
		if !q.events[child].before(last) {
			break
		}
		q.events[i] = q.events[child]
		i = child
	}
	q.events[i] = last
	return top
}

func (e event) before(o event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }
