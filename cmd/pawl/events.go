package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlock/pawl"
)

// An event is a line of --status-fd. Fields that do not belong to its kind are
// left out.
type event struct {
	Schema string `json:"schema"`
	Event  string `json:"event"` // waiting, acquired, started, renewed, renew_failed, suspended, resumed, lost, child_exit, released
	Seq    int    `json:"seq"`   // from 1, without gaps
	Time   string `json:"time"`  // RFC 3339, UTC
	Lock   string `json:"lock"`

	Fence    uint64      `json:"fence,omitempty"`
	HolderID string      `json:"holder_id,omitempty"`
	Holder   *holderJSON `json:"held_by,omitempty"`          // waiting: who is in the way
	Place    int         `json:"place,omitempty"`            // waiting: in line, 1 is the next
	Waited   *int64      `json:"waited_ms,omitempty"`        // acquired
	EndsIn   *int64      `json:"lease_ends_in_ms,omitempty"` // acquired, renewed, renew_failed, suspended, resumed
	PID      int         `json:"pid,omitempty"`              // started: of the command
	Reason   string      `json:"reason,omitempty"`           // lost, renew_failed: why
	Code     *int        `json:"code,omitempty"`             // child_exit: as a shell has it
	Signal   int         `json:"signal,omitempty"`           // child_exit: what the command died of
	Error    string      `json:"error,omitempty"`            // released: why the store has not confirmed it
}

// Events writes what happens to a run for a program to read. A reader that does
// not read delays nothing: the lines wait in memory, and for a second at the
// end. A nil *events writes nothing.
type events struct {
	lock string // LOCK, where an event is of no other of several

	mu     sync.Mutex
	seq    int           // guarded by mu
	lines  chan []byte   // guarded by mu: nil when closed
	ended  chan struct{} // closed when all has been written
	failed error         // written before ended is closed
}

// Lines that wait to be read. A run of days renews ten thousand times; a reader
// that is so far behind gets no more.
const eventsKept = 4096

func newEvents(lock string, f *os.File) *events {
	e := &events{lock: lock, lines: make(chan []byte, eventsKept), ended: make(chan struct{})}
	go func(lines <-chan []byte) {
		defer close(e.ended)
		for line := range lines {
			if e.failed == nil {
				_, e.failed = f.Write(line)
			}
		}
	}(e.lines)
	return e
}

func (e *events) tell(v event) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seq++
	v.Schema, v.Seq, v.Time = schema, e.seq, time.Now().UTC().Format(time.RFC3339Nano)
	if v.Lock == "" {
		v.Lock = e.lock
	}
	b, _ := json.Marshal(v) // strings and numbers: it can't fail
	select {
	case e.lines <- append(b, '\n'): // never, once it is nil
	default:
		e.seq--
	}
}

// close waits until what was told has been written, if somebody reads.
func (e *events) close() {
	if e == nil {
		return
	}
	e.mu.Lock()
	if e.lines != nil {
		close(e.lines)
		e.lines = nil
	}
	e.mu.Unlock()
	select {
	case <-e.ended:
	case <-time.After(time.Second):
	}
}

// observe has the events of the waiting and of renewals told beside what o does.
func (e *events) observe(o *pawl.Observer) {
	if e == nil {
		return
	}
	o.Waiting = func(key string, held *pawl.HeldError) {
		h := holderToJSON(held.Holder)
		h.Lock = key
		e.tell(event{Event: "waiting", Lock: key, Holder: &h, Place: held.Place})
	}
	o.Acquired = func(l *pawl.Lease, waited time.Duration, _ int) {
		e.tell(event{Event: "acquired", Lock: l.Key(), Fence: l.Token(), HolderID: l.Holder(), Waited: milliseconds(waited), EndsIn: milliseconds(max(0, time.Until(l.Deadline())))})
	}
	renewed, failed := o.Renewed, o.RenewFailed
	o.Renewed = func(l *pawl.Lease, took, left time.Duration) {
		renewed(l, took, left)
		e.tell(event{Event: "renewed", Lock: l.Key(), Fence: l.Token(), EndsIn: milliseconds(max(0, time.Until(l.Deadline())))})
	}
	o.RenewFailed = func(l *pawl.Lease, err error, left time.Duration) {
		failed(l, err, left)
		e.tell(event{Event: "renew_failed", Lock: l.Key(), Fence: l.Token(), Reason: reason(err), EndsIn: milliseconds(max(0, left))})
	}
	o.Released = func(l *pawl.Lease, _ time.Duration, err error) {
		v := event{Event: "released", Lock: l.Key(), Fence: l.Token()}
		if err != nil {
			v.Error = reason(err)
		}
		e.tell(v)
	}
}

// openStatus returns where --status-fd or --status-file lead, nil if there is
// neither.
func openStatus(fd int, name string) (*os.File, error) {
	switch {
	case fd >= 0:
		// One that was inherited is not closed by exec, or it would not be
		// here. The others are the runtime's own.
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			return nil, usage("--status-fd %d: it is not open; write %d>FILE after the command line", fd, fd)
		}
		if mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || mode&unix.O_ACCMODE == unix.O_RDONLY {
			return nil, usage("--status-fd %d: it is not open for writing", fd)
		}
		if fd > 2 {
			unix.CloseOnExec(fd) // it is not for the command
		}
		return os.NewFile(uintptr(fd), fmt.Sprintf("fd %d", fd)), nil
	case name != "":
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, 0o644)
		if err != nil {
			return nil, fail(exitConfig, "cannot write --status-file: %v", err)
		}
		return f, nil
	}
	return nil, nil
}
