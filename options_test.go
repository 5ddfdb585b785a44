package pawl_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
)

// A store with the limits of its traits.
type limited struct {
	driver.Backend
	traits driver.Traits
}

func (l limited) Traits() driver.Traits { return l.traits }

// Cases B17, J02, J05, J07, J11.
func TestOptionsThatCanNotBeHonouredAreNamed(t *testing.T) {
	const longest = math.MaxInt64
	day := 24 * time.Hour
	for _, tt := range []struct {
		opts  pawl.Options
		field string
	}{
		{pawl.Options{TTL: -1}, "TTL"},
		{pawl.Options{TTL: 1}, "TTL"},
		{pawl.Options{TTL: 10*time.Millisecond - 1}, "TTL"},
		{pawl.Options{TTL: 366 * day}, "TTL"},
		{pawl.Options{TTL: longest}, "TTL"},
		{pawl.Options{RenewEvery: -1}, "RenewEvery"},
		{pawl.Options{RenewEvery: 1}, "RenewEvery"},
		{pawl.Options{RenewEvery: 5*time.Second + 1}, "RenewEvery"},
		{pawl.Options{RenewEvery: 10 * time.Second}, "RenewEvery"},
		{pawl.Options{RenewEvery: longest}, "RenewEvery"},
		{pawl.Options{TTL: time.Second, RenewEvery: time.Second}, "RenewEvery"},
		{pawl.Options{Drift: -0.01}, "Drift"},
		{pawl.Options{Drift: 0.5}, "Drift"},
		{pawl.Options{Drift: math.NaN()}, "Drift"},
		{pawl.Options{Drift: math.Inf(1)}, "Drift"},
		{pawl.Options{Grace: -1}, "Grace"},
		{pawl.Options{Grace: 365 * day}, "Grace"},
		{pawl.Options{Grace: longest}, "Grace"},
		{pawl.Options{MinHold: -1}, "MinHold"},
		{pawl.Options{MinHold: longest}, "MinHold"},
		{pawl.Options{MinHold: 2 * time.Hour, MaxHold: time.Hour}, "MinHold"},
		{pawl.Options{MaxHold: -1}, "MaxHold"},
		{pawl.Options{MaxHold: 1}, "MaxHold"},
		{pawl.Options{Label: "a\nb"}, "Label"},
		{pawl.Options{Label: "a\x00b"}, "Label"},
		{pawl.Options{Label: "\xff"}, "Label"},
		{pawl.Options{Label: strings.Repeat("x", driver.MaxLabel+1)}, "Label"},
	} {
		c, err := pawl.New(memory.New(nil), &tt.opts)
		var field *pawl.FieldError
		if c != nil || !errors.Is(err, pawl.ErrInvalid) || !errors.As(err, &field) || field.Field != tt.field {
			t.Errorf("%+v: got %v, want a FieldError that names %s", tt.opts, err, tt.field)
		}
	}
	for _, opts := range []pawl.Options{ // that contradict each other
		{TTL: 7 * time.Second, RenewEvery: 5 * time.Second},
		{MinHold: 7 * time.Second, MaxHold: 5 * time.Second},
	} {
		if _, err := pawl.New(memory.New(nil), &opts); err == nil || !strings.Contains(err.Error(), "7s") || !strings.Contains(err.Error(), "5s") {
			t.Errorf("%+v: got %v, want an error that tells both values", opts, err)
		}
	}
	if _, err := pawl.New(nil, nil); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("no backend: got %v, want ErrInvalid", err)
	}
}

// The store's limits count, also where it has none.
// Case J10.
func TestTheStoreLimitsTheTTL(t *testing.T) {
	coarse := driver.Traits{Name: "coarse", MinTTL: 15 * time.Second, MaxTTL: time.Hour}
	endless := driver.Traits{Name: "endless"}
	for _, tt := range []struct {
		traits driver.Traits
		opts   pawl.Options
		ok     bool
	}{
		{coarse, pawl.Options{}, true}, // the default is what the store needs
		{coarse, pawl.Options{TTL: 10 * time.Second}, false},
		{coarse, pawl.Options{TTL: time.Hour}, true},
		{coarse, pawl.Options{TTL: time.Hour, Grace: 1}, false},
		{coarse, pawl.Options{MinHold: 2 * time.Hour}, false},
		{endless, pawl.Options{}, true},
		{endless, pawl.Options{TTL: math.MaxInt64}, false},
		{endless, pawl.Options{TTL: math.MaxInt64 / 2, Grace: math.MaxInt64 / 2}, false},
	} {
		if _, err := pawl.New(limited{memory.New(nil), tt.traits}, &tt.opts); (err == nil) != tt.ok {
			t.Errorf("%s, %+v: got %v, want ok %v", tt.traits.Name, tt.opts, err, tt.ok)
		}
	}
}

// The extremes that are allowed work.
// Cases J01, J07.
func TestTheExtremesOfTheOptionsWork(t *testing.T) {
	for name, opts := range map[string]*pawl.Options{
		"nil":             nil,
		"zero":            {},
		"shortest TTL":    {TTL: 10 * time.Millisecond},
		"longest TTL":     {TTL: 365 * 24 * time.Hour},
		"rare renewals":   {RenewEvery: 5 * time.Second},
		"much drift":      {Drift: 0.499, RenewEvery: 5 * time.Second},
		"longest grace":   {Grace: 364 * 24 * time.Hour},
		"longest MaxHold": {MaxHold: math.MaxInt64},
		"longest MinHold": {MinHold: 365 * 24 * time.Hour},
		"label":           {Label: strings.Repeat("ü/", driver.MaxLabel/3)},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, memory.New(nil), opts)
			defer c.Close()
			lease := acquire(t, c.Mutex("k"))
			for range 100 {
				if opts != nil && opts.TTL > time.Hour {
					time.Sleep(opts.TTL / 10)
				} else {
					time.Sleep(10 * time.Millisecond)
				}
				if !lease.Valid() {
					t.Fatalf("%s: lost: %v", name, lease.Check(0))
				}
			}
			st, err := c.Inspect(t.Context(), "k")
			if err != nil || len(st.Holders) != 1 || st.Holders[0].ID != lease.Holder() || st.Holders[0].Label == "" {
				t.Errorf("%s: inspect: got %+v, %v, want the one holder", name, st, err)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
