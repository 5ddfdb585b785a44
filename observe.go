package pawl

import (
	"log/slog"
	"time"
)

// An Observer is told what happens to the locks of a client. A nil func is off.
//
// The funcs are called from the goroutine that the event happens on, some of
// them while a lease waits for its renewal: they must return soon, may be
// called concurrently, and must not call the client.
type Observer struct {
	// Waiting is told once for each Acquire that finds the key held, and who
	// is in the way.
	Waiting func(key string, held *HeldError)

	// Acquired is told each grant, how long it took to come, and after how
	// many attempts: none if another goroutine of the client handed it over.
	Acquired func(lease *Lease, waited time.Duration, attempts int)

	// Renewed is told each renewal, how long it took, and how much of the
	// lease was left when it came: the early warning.
	Renewed func(lease *Lease, took, left time.Duration)

	// RenewFailed is told each renewal that was refused or whose outcome is
	// unknown. The lease goes on for left.
	RenewFailed func(lease *Lease, err error, left time.Duration)

	// Asked is told that somebody has asked for a lease, and what he said.
	Asked func(lease *Lease, n Notice)

	// Lost is told that a lease ended before it was released.
	Lost func(lease *Lease, err *LostError)

	// Released is told each release, how long the lease was held, and the
	// error that the release returned.
	Released func(lease *Lease, held time.Duration, err error)

	// Trouble is told each failure of the store that an Acquire is going to
	// try again, and each that left a claim to be withdrawn later.
	Trouble func(op, key string, err error)
}

func (o *Observer) waiting(key string, held *HeldError) {
	if o.Waiting != nil {
		o.Waiting(key, held)
	}
}

func (o *Observer) acquired(l *Lease, waited time.Duration, attempts int) {
	if o.Acquired != nil {
		o.Acquired(l, waited, attempts)
	}
}

func (o *Observer) renewed(l *Lease, took, left time.Duration) {
	if o.Renewed != nil {
		o.Renewed(l, took, left)
	}
}

func (o *Observer) renewFailed(l *Lease, err error, left time.Duration) {
	if o.RenewFailed != nil {
		o.RenewFailed(l, err, left)
	}
}

func (o *Observer) asked(l *Lease, n Notice) {
	if o.Asked != nil {
		o.Asked(l, n)
	}
}

func (o *Observer) lost(l *Lease, err *LostError) {
	if o.Lost != nil {
		o.Lost(l, err)
	}
}

func (o *Observer) released(l *Lease, held time.Duration, err error) {
	if o.Released != nil {
		o.Released(l, held, err)
	}
}

func (o *Observer) trouble(op, key string, err error) {
	if o.Trouble != nil {
		o.Trouble(op, key, err)
	}
}

// LogObserver returns an Observer that writes to log: renewals and grants at
// debug level, waiting and being asked at info, trouble at warn, loss at error.
func LogObserver(log *slog.Logger) *Observer {
	return &Observer{
		Waiting: func(key string, held *HeldError) {
			log.Info("pawl: waiting", "key", key, "holder", held.Holder.Label, "place", held.Place, "left", held.Left)
		},
		Acquired: func(l *Lease, waited time.Duration, attempts int) {
			log.Debug("pawl: acquired", "key", l.Key(), "token", l.Token(), "waited", waited, "attempts", attempts)
		},
		Renewed: func(l *Lease, took, left time.Duration) {
			log.Debug("pawl: renewed", "key", l.Key(), "token", l.Token(), "took", took, "left", left)
		},
		RenewFailed: func(l *Lease, err error, left time.Duration) {
			log.Warn("pawl: not renewed", "key", l.Key(), "token", l.Token(), "err", err, "left", left)
		},
		Asked: func(l *Lease, n Notice) {
			log.Info("pawl: asked for", "key", l.Key(), "token", l.Token(), "by", n.By, "why", n.Why)
		},
		Lost: func(l *Lease, err *LostError) {
			log.Error("pawl: lost", "key", l.Key(), "token", l.Token(), "reason", err.Reason)
		},
		Released: func(l *Lease, held time.Duration, err error) {
			if err != nil {
				log.Warn("pawl: released", "key", l.Key(), "token", l.Token(), "held", held, "err", err)
				return
			}
			log.Debug("pawl: released", "key", l.Key(), "token", l.Token(), "held", held)
		},
		Trouble: func(op, key string, err error) {
			log.Warn("pawl: store in trouble", "op", op, "key", key, "err", err)
		},
	}
}
