package pawl

import (
	"fmt"
	"os"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/term"
)

// Options configure a [Client]. The zero value of each field means the default
// that the field names, so that a nil *Options is a sound choice.
type Options struct {
	TTL        time.Duration // how long a lock outlives a holder that has vanished. Default 10s
	RenewEvery time.Duration // between renewals, at most half the TTL. Default TTL/3
	Drift      float64       // share of the TTL given away to clocks of unequal rate, below 0.5. Default 0.01
	Grace      time.Duration // the store keeps the key so much longer than the holder: a lock-delay after an unclean end. Default 0
	MaxHold    time.Duration // a lease ends so long after its grant, renewed or not. Default 0: no limit
	MinHold    time.Duration // a key stays taken so long after its grant, released or not. Default 0
	Handover   int           // how many goroutines of this client in a row share one exclusive claim of the store, each with a token of its own; 1 is none. Default 16
	Label      string        // names this process to whoever inspects, at most 512 bytes. Default host:pid
	Observer   *Observer     // is told what happens. Default none
	Clock      Clock         // for simulations. Default the real one
}

// The bounds of a TTL, whatever the store could keep: the shortest that leaves
// anything after the margin and the allowance for clocks, and one that can be
// added to a clock without overflow.
const (
	minTTL = 10 * time.Millisecond
	maxTTL = 10 * 365 * 24 * time.Hour
)

// minRenewEvery keeps renewals from being a load of their own.
const minRenewEvery = time.Millisecond

// complete returns o with its defaults filled in, or a *FieldError for the first
// field that can't be used. It is the one place where options are checked.
func (o *Options) complete(t driver.Traits) (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.TTL == 0 {
		opts.TTL = max(10*time.Second, t.MinTTL)
	}
	if opts.RenewEvery == 0 {
		opts.RenewEvery = opts.TTL / 3
	}
	if opts.Drift == 0 {
		opts.Drift = 0.01
	}
	if opts.Handover == 0 {
		opts.Handover = 16
	}
	if opts.Label == "" {
		opts.Label = defaultLabel()
	}
	if opts.Observer == nil {
		opts.Observer = new(Observer)
	}
	if opts.Clock == nil {
		opts.Clock = realClock{newSleepMeter()}
	}
	return opts, opts.validate(t)
}

func (o *Options) validate(t driver.Traits) error {
	if err := driver.ValidateTTL("TTL", o.TTL, t); err != nil {
		return err
	}
	longest := longestTTL(t)
	switch {
	case o.TTL < minTTL:
		return &FieldError{Field: "TTL", Why: fmt.Sprintf("is %v: at least %v is needed", o.TTL, minTTL)}
	case o.TTL > longest:
		return &FieldError{Field: "TTL", Why: fmt.Sprintf("is %v: at most %v can be kept", o.TTL, longest)}
	case o.RenewEvery < minRenewEvery || o.RenewEvery > o.TTL/2:
		return &FieldError{Field: "RenewEvery", Why: fmt.Sprintf("is %v: it must be at least %v and at most half the TTL of %v", o.RenewEvery, minRenewEvery, o.TTL)}
	case !(o.Drift > 0 && o.Drift < 0.5): // also refuses NaN
		return &FieldError{Field: "Drift", Why: fmt.Sprintf("is %v: it must be above 0 and below 0.5", o.Drift)}
	case o.Handover < 1 || o.Handover > driver.MaxBlock:
		return &FieldError{Field: "Handover", Why: fmt.Sprintf("is %d: it must be 1 to %d", o.Handover, driver.MaxBlock)}
	case o.Grace < 0:
		return &FieldError{Field: "Grace", Why: fmt.Sprintf("is %v: it must not be negative", o.Grace)}
	case o.Grace > longest-o.TTL:
		return &FieldError{Field: "Grace", Why: fmt.Sprintf("is %v: with the TTL of %v it is more than can be kept, %v", o.Grace, o.TTL, longest)}
	case o.MinHold < 0:
		return &FieldError{Field: "MinHold", Why: fmt.Sprintf("is %v: it must not be negative", o.MinHold)}
	case o.MinHold > longest:
		return &FieldError{Field: "MinHold", Why: fmt.Sprintf("is %v: at most %v can be kept", o.MinHold, longest)}
	case o.MaxHold < 0 || o.MaxHold > 0 && o.MaxHold < minTTL:
		return &FieldError{Field: "MaxHold", Why: fmt.Sprintf("is %v: it must be 0, or at least %v", o.MaxHold, minTTL)}
	case o.MaxHold > 0 && o.MinHold > o.MaxHold:
		return &FieldError{Field: "MinHold", Why: fmt.Sprintf("is %v: it must not exceed the MaxHold of %v", o.MinHold, o.MaxHold)}
	}
	return driver.ValidateLabel(o.Label)
}

// longestTTL returns what a store with the traits t keeps at most.
func longestTTL(t driver.Traits) time.Duration {
	if t.MaxTTL > 0 {
		return min(maxTTL, t.MaxTTL)
	}
	return maxTTL
}

func (o *Options) term() term.Config {
	return term.Config{RenewEvery: o.RenewEvery, Grace: o.Grace, Drift: o.Drift, MaxHold: o.MaxHold}
}

func defaultLabel() string {
	host, err := os.Hostname()
	if err != nil || driver.ValidateLabel(host) != nil || len(host) > driver.MaxLabel/2 {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}
