package main

import (
	"fmt"
	"strings"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
	"github.com/pawlock/pawl/cmd/pawl/internal/who"
	"github.com/pawlock/pawl/driver"
)

// holderOf returns who h is and for how long: alice@web-3 pid 4711 for 7m13s.
func holderOf(h pawl.Holder) string {
	s := processOf(h)
	if h.Age >= 0 && (h.ID != "" || h.Foreign) {
		s += " for " + plain.Duration(h.Age)
	}
	return s
}

func processOf(h pawl.Holder) string {
	if h.Foreign {
		return "a foreign client (" + plain.Quote(cut(h.ID, 60)) + ")"
	}
	label := labelOf(h)
	if l, ok := who.Parse(label); ok {
		return l.Process()
	}
	if label == "" {
		return "an unknown holder"
	}
	return plain.Text(label)
}

// labelOf returns the label of h. A store may keep it nowhere but in the ID.
func labelOf(h pawl.Holder) string {
	if h.Label != "" || h.Foreign {
		return h.Label
	}
	id, _ := driver.ParseID(h.ID)
	return id.Label
}

// detailsOf returns what h does: running deploy.sh · reason "release 2.41" ·
// fence 1287.
func detailsOf(h pawl.Holder, last uint64) string {
	var parts []string
	if l, ok := who.Parse(labelOf(h)); ok && !h.Foreign {
		if d := l.Details(); d != "" {
			parts = append(parts, d)
		}
	}
	switch {
	case h.Grant.Token != 0:
		parts = append(parts, fmt.Sprintf("fence %d", h.Grant.Token))
	case last != 0 && h.Held && !h.Foreign && h.Exclusive():
		parts = append(parts, fmt.Sprintf("fence %d", last))
	}
	return strings.Join(parts, " · ")
}

// leaseOf returns what is known of the lease of h.
func leaseOf(h pawl.Holder) string {
	if h.Left < 0 {
		return "never ends by itself"
	}
	s := "ends in " + plain.Duration(h.Left) + " unless renewed"
	// A holder renews every third of its TTL. When two thirds are gone it may
	// be in trouble, or dead.
	if h.TTL > 0 && h.Left < h.TTL/3 && !h.Foreign {
		s = fmt.Sprintf("not renewed for %s of %s; if the holder is gone the lock frees itself in %s, no need to force it",
			plain.Duration(h.TTL-h.Left), plain.Duration(h.TTL), plain.Duration(h.Left))
	}
	return s
}

// shortID returns a name for the claim of h that people can type: 8 digits of
// the client, and the rest that tells its claims apart.
func shortID(h pawl.Holder) string {
	id, ok := driver.ParseID(h.ID)
	if !ok {
		return h.ID
	}
	return id.Client[:8] + "." + id.Tail
}

// modeOf returns how much of its key h has.
func modeOf(h pawl.Holder) string {
	switch {
	case h.Exclusive():
		return "exclusive"
	case h.Capacity == driver.Unlimited:
		return "shared"
	case h.Capacity == 0:
		return "unknown"
	}
	return fmt.Sprintf("%d of %d", h.Weight, h.Capacity)
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
