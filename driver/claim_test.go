package driver_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
)

func sound() driver.Claim {
	return driver.Claim{Key: "k", ID: "id", Label: "host:1", Weight: 1, Capacity: 1, TTL: time.Second}
}

var limits = driver.Traits{Name: "test", MinTTL: 100 * time.Millisecond, MaxTTL: time.Hour}

func TestValidateNamesTheField(t *testing.T) {
	for name, bad := range map[string]struct {
		field string
		spoil func(*driver.Claim)
	}{
		"no ID":                    {"ID", func(c *driver.Claim) { c.ID = "" }},
		"weight 0":                 {"Weight", func(c *driver.Claim) { c.Weight = 0 }},
		"weight beyond Unlimited":  {"Weight", func(c *driver.Claim) { c.Weight, c.Capacity = driver.Unlimited+1, driver.Unlimited+1 }},
		"capacity 0":               {"Capacity", func(c *driver.Claim) { c.Capacity = 0 }},
		"capacity below weight":    {"Capacity", func(c *driver.Claim) { c.Weight = 2 }},
		"capacity beyond":          {"Capacity", func(c *driver.Claim) { c.Capacity = driver.Unlimited + 1 }},
		"negative block":           {"Block", func(c *driver.Claim) { c.Block = -1 }},
		"block beyond MaxBlock":    {"Block", func(c *driver.Claim) { c.Block = driver.MaxBlock + 1 }},
		"no key":                   {"Key", func(c *driver.Claim) { c.Key = "" }},
		"key beyond MaxKey":        {"Key", func(c *driver.Claim) { c.Key = strings.Repeat("x", driver.MaxKey+1) }},
		"key of bytes":             {"Key", func(c *driver.Claim) { c.Key = strings.Repeat("x", 100) + "\xc3" }},
		"label beyond MaxLabel":    {"Label", func(c *driver.Claim) { c.Label = strings.Repeat("x", driver.MaxLabel+1) }},
		"label of bytes":           {"Label", func(c *driver.Claim) { c.Label = "\xff" }},
		"label with a line break":  {"Label", func(c *driver.Claim) { c.Label = "a\nb" }},
		"label with an escape":     {"Label", func(c *driver.Claim) { c.Label = "\x1b[31m" }},
		"label with a DEL":         {"Label", func(c *driver.Claim) { c.Label = "\x7f" }},
		"TTL 0":                    {"TTL", func(c *driver.Claim) { c.TTL = 0 }},
		"TTL below 0":              {"TTL", func(c *driver.Claim) { c.TTL = -1 }},
		"TTL far below 0":          {"TTL", func(c *driver.Claim) { c.TTL = math.MinInt64 }},
		"TTL just below MinTTL":    {"TTL", func(c *driver.Claim) { c.TTL = limits.MinTTL - 1 }},
		"TTL just above MaxTTL":    {"TTL", func(c *driver.Claim) { c.TTL = limits.MaxTTL + 1 }},
		"TTL as long as they come": {"TTL", func(c *driver.Claim) { c.TTL = math.MaxInt64 }},
	} {
		c := sound()
		bad.spoil(&c)
		err := c.Validate(limits)
		var field *driver.FieldError
		if !errors.As(err, &field) || !errors.Is(err, driver.ErrInvalid) || field.Field != bad.field {
			t.Errorf("%s: got %v, want a *FieldError that names %s", name, err, bad.field)
			continue
		}
		if !strings.HasPrefix(err.Error(), bad.field+" ") || len(err.Error()) > 200 {
			t.Errorf("%s: got %q, want a short message that begins with %q", name, err, bad.field)
		}
	}
}

func TestValidateTakesTheLimits(t *testing.T) {
	for name, c := range map[string]func(*driver.Claim){
		"as it is":      func(*driver.Claim) {},
		"no label":      func(c *driver.Claim) { c.Label = "" },
		"longest label": func(c *driver.Claim) { c.Label = strings.Repeat("é", driver.MaxLabel/2) },
		"longest key":   func(c *driver.Claim) { c.Key = strings.Repeat("x", driver.MaxKey) },
		"key of a NUL":  func(c *driver.Claim) { c.Key = "\x00" },
		"MinTTL":        func(c *driver.Claim) { c.TTL = limits.MinTTL },
		"MaxTTL":        func(c *driver.Claim) { c.TTL = limits.MaxTTL },
		"largest block": func(c *driver.Claim) { c.Block = driver.MaxBlock },
		"writer":        func(c *driver.Claim) { c.Weight, c.Capacity = driver.Unlimited, driver.Unlimited },
		"reader":        func(c *driver.Claim) { c.Capacity = driver.Unlimited },
	} {
		claim := sound()
		c(&claim)
		if err := claim.Validate(limits); err != nil {
			t.Errorf("%s: got %v, want nil", name, err)
		}
	}
	forever := sound()
	forever.TTL = math.MaxInt64
	if err := forever.Validate(driver.Traits{Name: "test"}); err != nil {
		t.Errorf("the longest TTL in a store without a limit: got %v, want nil", err)
	}
}

func TestExclusiveClaimsCountAsUnlimited(t *testing.T) {
	for _, test := range []struct {
		weight, capacity, units int
		exclusive               bool
	}{
		{1, 1, driver.Unlimited, true},
		{5, 5, driver.Unlimited, true},
		{driver.Unlimited, driver.Unlimited, driver.Unlimited, true},
		{1, 2, 1, false},
		{3, 5, 3, false},
		{1, driver.Unlimited, 1, false},
	} {
		c := driver.Claim{Weight: test.weight, Capacity: test.capacity}
		if c.Exclusive() != test.exclusive || c.Units() != test.units {
			t.Errorf("%d of %d: got exclusive %v and %d units, want %v and %d", test.weight, test.capacity, c.Exclusive(), c.Units(), test.exclusive, test.units)
		}
	}
}

func TestErrorsSayWhatWasThere(t *testing.T) {
	notice := &driver.Notice{Force: true, By: "ops", Why: "deploy"}
	for _, test := range []struct {
		err  error
		is   error
		text string
	}{
		{&driver.HeldError{}, driver.ErrHeld, "held by another"},
		{&driver.HeldError{Holder: driver.Holder{Claim: driver.Claim{Label: "host:1"}}}, driver.ErrHeld, "held by host:1"},
		{&driver.HeldError{Holder: driver.Holder{Foreign: true}}, driver.ErrHeld, "held by a foreign client"},
		{&driver.LostError{Reason: driver.Expired}, driver.ErrLost, "lost: expired"},
		{&driver.LostError{Reason: driver.Forced, Notice: notice}, driver.ErrLost, "lost: forced by ops (deploy)"},
		{&driver.LostError{Reason: driver.Forced, Notice: &driver.Notice{By: "ops"}}, driver.ErrLost, "lost: forced by ops"},
		{&driver.FieldError{Field: "TTL", Why: "is 0s"}, driver.ErrInvalid, "TTL is 0s"},
	} {
		if !errors.Is(test.err, test.is) || test.err.Error() != test.text {
			t.Errorf("got %q, want %q, which is %v", test.err, test.text, test.is)
		}
	}
}
