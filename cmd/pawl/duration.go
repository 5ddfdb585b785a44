package main

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// forever is the --wait without an end.
const forever = time.Duration(math.MaxInt64)

// A durationFlag takes 30s, 5m, 1h30m, and bare or fractional numbers, which
// are seconds.
type durationFlag struct {
	value   *time.Duration
	forever bool // the word "forever" is allowed
}

// String implements pflag.Value.
func (f durationFlag) String() string {
	switch {
	case f.value == nil || *f.value == 0:
		return ""
	case *f.value == forever:
		return "forever"
	}
	return f.value.String()
}

// Set implements pflag.Value.
func (f durationFlag) Set(s string) error {
	if f.forever && s == "forever" {
		*f.value = forever
		return nil
	}
	d, err := parseDuration(s)
	if err != nil {
		return err
	}
	*f.value = d
	return nil
}

// Type implements pflag.Value.
func (f durationFlag) Type() string { return "duration" }

func parseDuration(s string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil {
		switch {
		case math.IsNaN(seconds):
			return 0, fmt.Errorf("%q is no number", s)
		case seconds < 0:
			return 0, fmt.Errorf("%q is negative", s)
		case seconds > float64(math.MaxInt64/int64(time.Second)):
			return 0, fmt.Errorf("%q is too long", s)
		}
		return time.Duration(seconds * float64(time.Second)), nil
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is no duration: write 30s, 5m, 1h30m or a number of seconds", s)
	case d < 0:
		return 0, fmt.Errorf("%q is negative", s)
	}
	return d, nil
}
