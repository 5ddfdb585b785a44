package drivertest

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/pawlock/pawl/driver"
)

// validation: what can't be kept is refused before anything is done, by name.
func validation() []check {
	var all []check
	for _, bad := range []struct {
		name, field string
		spoil       func(driver.Traits, *driver.Claim)
	}{
		{"ttl_zero", "TTL", func(_ driver.Traits, c *driver.Claim) { c.TTL = 0 }},                // G08, J01
		{"ttl_negative", "TTL", func(_ driver.Traits, c *driver.Claim) { c.TTL = -time.Second }}, // G08
		{"ttl_most_negative", "TTL", func(_ driver.Traits, c *driver.Claim) { c.TTL = math.MinInt64 }},
		{"ttl_below_the_least", "TTL", func(t driver.Traits, c *driver.Claim) { c.TTL = t.MinTTL - 1 }}, // J02, J10
		{"ttl_above_the_most", "TTL", func(t driver.Traits, c *driver.Claim) { c.TTL = t.MaxTTL + 1 }},
		{"ttl_huge", "TTL", func(_ driver.Traits, c *driver.Claim) { c.TTL = math.MaxInt64 }}, // J05
		{"key_empty", "Key", func(_ driver.Traits, c *driver.Claim) { c.Key = "" }},
		{"key_not_utf8", "Key", func(_ driver.Traits, c *driver.Claim) { c.Key += "\xff" }},                             // K03
		{"key_too_long", "Key", func(_ driver.Traits, c *driver.Claim) { c.Key += strings.Repeat("x", driver.MaxKey) }}, // K08
		{"id_empty", "ID", func(_ driver.Traits, c *driver.Claim) { c.ID = "" }},
		{"label_not_utf8", "Label", func(_ driver.Traits, c *driver.Claim) { c.Label = "\xff" }},
		{"label_of_two_lines", "Label", func(_ driver.Traits, c *driver.Claim) { c.Label = "a\nb" }},
		{"label_too_long", "Label", func(_ driver.Traits, c *driver.Claim) { c.Label = strings.Repeat("x", driver.MaxLabel+1) }},
		{"weight_zero", "Weight", func(_ driver.Traits, c *driver.Claim) { c.Weight = 0 }},
		{"weight_negative", "Weight", func(_ driver.Traits, c *driver.Claim) { c.Weight = -1 }},
		{"weight_huge", "Weight", func(_ driver.Traits, c *driver.Claim) { c.Weight, c.Capacity = math.MaxInt, math.MaxInt }},
		{"capacity_zero", "Capacity", func(_ driver.Traits, c *driver.Claim) { c.Capacity = 0 }},
		{"capacity_below_the_weight", "Capacity", func(_ driver.Traits, c *driver.Claim) { c.Weight, c.Capacity = 3, 2 }},
		{"capacity_huge", "Capacity", func(_ driver.Traits, c *driver.Claim) { c.Capacity = math.MaxInt }},
		{"block_negative", "Block", func(_ driver.Traits, c *driver.Claim) { c.Block = -1 }},
		{"block_huge", "Block", func(_ driver.Traits, c *driver.Claim) { c.Block = driver.MaxBlock + 1 }},
	} {
		all = append(all, check{bad.name, func(s *stage) {
			c := queued(s.a.mutex(s.key("k")))
			bad.spoil(s.traits, &c)
			if c.TTL > 0 && (s.traits.MaxTTL == 0 || c.TTL <= s.traits.MaxTTL) && bad.field == "TTL" && c.TTL >= s.traits.MinTTL {
				s.Skipf("%s has no such limit", s.traits.Name)
			}
			_, err := s.a.try(c)
			var field *driver.FieldError
			switch {
			case !errors.Is(err, driver.ErrInvalid):
				s.Errorf("Acquire with a bad %s: got %v, want ErrInvalid", bad.field, describe(err))
			case !errors.As(err, &field) || field.Field != bad.field:
				s.Errorf("Acquire with a bad %s: got %#v, want a *FieldError that names it", bad.field, err)
			}
			if bad.field != "Key" {
				s.b.empty(c.Key)
				s.b.take(s.b.mutex(c.Key))
			}
		}})
	}
	return append(all, check{"the_limits", func(s *stage) { // J05
		c := s.a.mutex(s.key("k"))
		c.Label = strings.Repeat("é", driver.MaxLabel/2)
		c.Block = driver.MaxBlock
		if c.TTL = s.traits.MinTTL; c.TTL == 0 {
			c.TTL = 1
		}
		s.a.take(c)
		if s.traits.MaxTTL > 0 {
			h := s.a.take(lasting(s.traits.MaxTTL, s.a.mutex(s.key("max"))))
			s.b.refuse(s.b.mutex(h.Key))
			s.a.stillHolds(&h)
			s.a.drop(h.Claim)
		}
	}})
}

// traits: what a backend says of itself never changes.
func traits() []check {
	return []check{
		{"constant", func(s *stage) {
			want := s.traits
			s.a.drop(s.a.take(s.a.mutex(s.key("k"))).Claim)
			p := s.process("another")
			for _, p := range []*process{s.a, s.b, p} {
				if got := p.Traits(); got != want {
					s.Errorf("Traits: got %+v, want %+v as before", got, want)
				}
			}
			p.close()
			if got := p.Traits(); got != want {
				s.Errorf("Traits after Close: got %+v, want %+v as before", got, want)
			}
		}},
		{"sound", func(s *stage) {
			t := s.traits
			if t.Name == "" || strings.ContainsAny(t.Name, " \t\n") {
				s.Errorf("Name: got %q, want one word", t.Name)
			}
			if t.MinTTL < 0 || t.MaxTTL < 0 || t.MaxTTL > 0 && t.MaxTTL < t.MinTTL {
				s.Errorf("MinTTL %v and MaxTTL %v leave no TTL", t.MinTTL, t.MaxTTL)
			}
			if s.ttl < t.MinTTL || t.MaxTTL > 0 && t.MaxTTL < 30*s.ttl {
				s.Errorf("TTL of the harness: got %v, want one from MinTTL, %v, to a thirtieth of MaxTTL, %v", s.ttl, t.MinTTL, t.MaxTTL)
			}
		}},
	}
}
