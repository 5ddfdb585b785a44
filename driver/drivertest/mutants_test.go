package drivertest_test

import (
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pawlock/pawl/driver"
)

// A mutant is a plain backend with one mistake, of the kind that lock
// services have been seen to make.
type mutant struct {
	name    string   // as in docs/testing.md
	killers []string // the guarantees whose subtests fail
	flaws   flaws
	amnesia bool // the store forgets everything when it crashes
}

type (
	line  = driver.Line
	claim = driver.Claim
	act   = func() (*driver.Grant, *error) // the operation itself
)

// on plants f around one operation.
func on(op string, f func(l *line, c *claim, now *driver.Instant, do act)) flaws {
	return flaws{around: func(got string, l *driver.Line, c *driver.Claim, now *driver.Instant, do func() (*driver.Grant, *error)) {
		if got == op {
			f(l, c, now, do)
			return
		}
		do()
	}}
}

// entry returns the entry of id, or nil.
func entry(l *line, id string) *driver.Entry {
	for i := range l.Entries {
		if l.Entries[i].Claim.ID == id {
			return &l.Entries[i]
		}
	}
	return nil
}

func holds(l *line, id string) bool {
	e := entry(l, id)
	return e != nil && e.Held
}

func keyed(f func(string) string) flaws { return flaws{key: f} }

func mutants() []mutant {
	return []mutant{
		// Whose claim is it?
		{name: "release by key", killers: []string{"Ownership", "History"}, flaws: on("release", func(l *line, c *claim, _ *driver.Instant, do act) {
			do()
			l.Entries = slices.DeleteFunc(l.Entries, func(e driver.Entry) bool { return e.Held })
		})},
		{name: "release by token", killers: []string{"Ownership"}, flaws: on("release", func(l *line, c *claim, _ *driver.Instant, do act) {
			do()
			l.Entries = slices.DeleteFunc(l.Entries, func(e driver.Entry) bool { return e.Held && e.Claim.Grant.Token == c.Grant.Token })
		})},
		{name: "renew by ID alone", killers: []string{"Ownership"}, flaws: on("renew", func(l *line, c *claim, _ *driver.Instant, do act) {
			if e := entry(l, c.ID); e != nil && e.Held {
				c.Grant.Token = e.Claim.Grant.Token
			}
			do()
		})},
		{name: "renew by token alone", killers: []string{"Ownership"}, flaws: on("renew", func(l *line, c *claim, _ *driver.Instant, do act) {
			for _, e := range l.Entries {
				if e.Held && e.Claim.Grant.Token == c.Grant.Token {
					c.ID = e.Claim.ID
				}
			}
			do()
		})},
		{name: "renew re-creates", killers: []string{"Renewal"}, flaws: on("renew", func(l *line, c *claim, now *driver.Instant, do act) {
			if g, err := do(); *err != nil && len(l.Entries) == 0 && c.Grant.Token != 0 {
				l.Entries = append(l.Entries, driver.Entry{Claim: *c, Held: true, Expires: now.Clock + c.TTL, Since: now.Clock})
				*g, *err = c.Grant, nil
			}
		})},
		{name: "renew grants the next in line", killers: []string{"Renewal"}, flaws: on("renew", func(l *line, c *claim, now *driver.Instant, do act) {
			if e := entry(l, c.ID); e != nil && !e.Held {
				e.Held = true
			}
			do()
		})},
		{name: "renew makes a new token", killers: []string{"Renewal"}, flaws: on("renew", func(l *line, c *claim, _ *driver.Instant, do act) {
			if g, err := do(); *err == nil {
				l.Last++
				g.Token = l.Last
				entry(l, c.ID).Claim.Grant.Token = l.Last
			}
		})},
		{name: "renew keeps the old deadline", killers: []string{"Renewal"}, flaws: on("renew", func(l *line, c *claim, _ *driver.Instant, do act) {
			before := time.Duration(0)
			if e := entry(l, c.ID); e != nil {
				before = e.Expires
			}
			if _, err := do(); *err == nil {
				entry(l, c.ID).Expires = before
			}
		})},

		// The same request again, or too late.
		{name: "a repeated acquire is refused", killers: []string{"Idempotence"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			if holds(l, c.ID) {
				c.ID += "1"
			}
			do()
		})},
		{name: "a repeated acquire is a new grant", killers: []string{"Idempotence"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			if holds(l, c.ID) {
				l.Entries = slices.DeleteFunc(l.Entries, func(e driver.Entry) bool { return e.Claim.ID == c.ID })
				l.LastID = ""
			}
			do()
		})},
		{name: "a repeated acquire keeps the old deadline", killers: []string{"Idempotence"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			if e := entry(l, c.ID); e != nil && e.Held {
				before := e.Expires
				do()
				entry(l, c.ID).Expires = before
				return
			}
			do()
		})},
		{name: "an ended ID is granted anew", killers: []string{"Idempotence", "Keep"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			l.LastID = ""
			if e := entry(l, c.ID); e != nil {
				e.Kept = false
			}
			do()
		})},
		{name: "a request in line twice stands there twice", killers: []string{"Idempotence"}, flaws: on("acquire", func(l *line, c *claim, now *driver.Instant, do act) {
			if e := entry(l, c.ID); e != nil && !e.Held {
				twin := *e
				twin.Claim.ID += "1"
				l.Entries = append(l.Entries, twin)
			}
			do()
		})},
		{name: "a late request is granted", killers: []string{"LateRequest"}, flaws: flaws{late: true}},
		{name: "read and write are two steps", killers: []string{"Exclusion", "Counting", "History"}, flaws: flaws{torn: true}},

		// Time.
		{name: "nothing expires", killers: []string{"Expiry", "Ownership", "Renewal"}, flaws: flaws{
			around: func(_ string, _ *line, _ *claim, now *driver.Instant, do func() (*driver.Grant, *error)) {
				now.Clock = 0
				do()
			}}},
		{name: "claims expire early", killers: []string{"Expiry", "History"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			asked := c.TTL
			c.TTL = asked * 9 / 10
			g, _ := do()
			g.TTL = asked
		})},
		{name: "renewed claims expire early", killers: []string{"Renewal", "History"}, flaws: on("renew", func(l *line, c *claim, _ *driver.Instant, do act) {
			asked := c.TTL
			c.TTL = asked * 9 / 10
			g, _ := do()
			g.TTL = asked
		})},
		{name: "less TTL is kept than asked for", killers: []string{"Expiry", "Exclusion"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			c.TTL /= 2
			do()
		})},
		{name: "keep is ignored", killers: []string{"Keep"}, flaws: on("release", func(l *line, c *claim, _ *driver.Instant, do act) {
			c.Keep = 0
			do()
		})},
		{name: "keep only shortens", killers: []string{"Keep"}, flaws: on("release", func(l *line, c *claim, _ *driver.Instant, do act) {
			end := time.Duration(math.MaxInt64)
			if e := entry(l, c.ID); e != nil {
				end = e.Expires
			}
			do()
			if e := entry(l, c.ID); e != nil {
				e.Expires = min(e.Expires, end)
			}
		})},
		{name: "a kept claim can be renewed", killers: []string{"Keep"}, flaws: on("release", func(l *line, c *claim, _ *driver.Instant, do act) {
			do()
			if e := entry(l, c.ID); e != nil {
				e.Kept = false
			}
		})},
		{name: "a second release ends the kept claim", killers: []string{"Keep"}, flaws: on("release", func(l *line, c *claim, _ *driver.Instant, do act) {
			if e := entry(l, c.ID); e != nil && e.Kept {
				e.Kept = false
			}
			do()
		})},
		{name: "keep holds a place in line", killers: []string{"Keep"}, flaws: on("release", func(l *line, c *claim, _ *driver.Instant, do act) {
			if e := entry(l, c.ID); e != nil && !e.Held && c.Keep > 0 {
				e.Expires = math.MaxInt64
				return
			}
			do()
		})},

		// Shares.
		{name: "writers ignore readers", killers: []string{"ReaderWriter", "History"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			if c.Exclusive() {
				held := l.Entries
				l.Entries = slices.DeleteFunc(slices.Clone(held), func(e driver.Entry) bool {
					return e.Held && !e.Claim.Exclusive() && e.Claim.Capacity == driver.Unlimited
				})
				gone := len(held) - len(l.Entries)
				do()
				if gone > 0 {
					l.Entries = append(slices.DeleteFunc(held, func(e driver.Entry) bool { return entry(l, e.Claim.ID) != nil }), l.Entries...)
				}
				return
			}
			do()
		})},
		{name: "readers ignore writers", killers: []string{"ReaderWriter", "History"}, flaws: on("acquire", func(l *line, c *claim, now *driver.Instant, do act) {
			if !c.Exclusive() && entry(l, c.ID) == nil && len(l.Entries) > 0 && l.Entries[0].Held && l.Entries[0].Claim.Exclusive() {
				held := l.Entries
				l.Entries = nil
				do()
				l.Entries = append(held, l.Entries...)
				return
			}
			do()
		})},
		{name: "releases are counted, not claims", killers: []string{"ReaderWriter", "Counting"}, flaws: on("release", func(l *line, c *claim, _ *driver.Instant, do act) {
			if entry(l, c.ID) == nil && c.Grant.Token != 0 {
				if i := slices.IndexFunc(l.Entries, func(e driver.Entry) bool { return e.Held && !e.Claim.Exclusive() }); i >= 0 {
					l.Entries = slices.Delete(l.Entries, i, i+1)
				}
			}
			do()
		})},
		{name: "a reader's release ends the writer", killers: []string{"ReaderWriter"}, flaws: on("release", func(l *line, c *claim, _ *driver.Instant, do act) {
			if !c.Exclusive() && c.Capacity == driver.Unlimited {
				l.Entries = slices.DeleteFunc(l.Entries, func(e driver.Entry) bool { return e.Held && e.Claim.Exclusive() })
			}
			do()
		})},
		{name: "a release of nothing gives a unit back", killers: []string{"Counting"}, flaws: on("release", func(l *line, c *claim, _ *driver.Instant, do act) {
			if entry(l, c.ID) == nil && c.Grant.Token == 0 {
				if i := slices.IndexFunc(l.Entries, func(e driver.Entry) bool { return e.Held && !e.Claim.Exclusive() }); i >= 0 {
					l.Entries = slices.Delete(l.Entries, i, i+1)
				}
			}
			do()
		})},
		{name: "a reader's renewal renews all", killers: []string{"ReaderWriter"}, flaws: on("renew", func(l *line, c *claim, _ *driver.Instant, do act) {
			if _, err := do(); *err == nil {
				for i := range l.Entries {
					l.Entries[i].Expires = max(l.Entries[i].Expires, entry(l, c.ID).Expires)
				}
			}
		})},
		{name: "the newest reader's TTL is that of all", killers: []string{"ReaderWriter"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			if _, err := do(); *err == nil {
				for i := range l.Entries {
					l.Entries[i].Expires = entry(l, c.ID).Expires
				}
			}
		})},
		{name: "one unit too many", killers: []string{"Counting", "History"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			if !c.Exclusive() && c.Capacity < driver.Unlimited {
				c.Capacity++
			}
			do()
		})},
		{name: "weights count as one", killers: []string{"Counting", "History"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			if !c.Exclusive() {
				c.Weight = 1
			}
			do()
		})},
		{name: "inexact, and not refused", killers: []string{"Counting"}, flaws: flaws{traits: func(t driver.Traits) driver.Traits {
			t.Counting = false
			return t
		}}},
		{name: "a downgrade changes nothing", killers: []string{"Downgrade"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			if e := entry(l, c.ID); e != nil && e.Held {
				c.Weight, c.Capacity = e.Claim.Weight, e.Claim.Capacity
			}
			do()
		})},
		{name: "one of one is less than two of three", killers: []string{"Downgrade"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			if e := entry(l, c.ID); e != nil && e.Held && c.Weight < e.Claim.Weight {
				e.Claim.Weight, e.Claim.Capacity = c.Weight, c.Capacity
			}
			do()
		})},
		{name: "a downgrade lets go", killers: []string{"Downgrade"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			if e := entry(l, c.ID); e != nil && e.Held && c.Weight < e.Claim.Weight {
				do()
				l.Entries = slices.DeleteFunc(l.Entries, func(e driver.Entry) bool { return e.Claim.ID == c.ID })
				return
			}
			do()
		})},
		{name: "a share grows into a writer", killers: []string{"Downgrade"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			if e := entry(l, c.ID); e != nil && e.Held && c.Weight > e.Claim.Weight {
				e.Claim.Weight, e.Claim.Capacity = c.Weight, c.Capacity
			}
			do()
		})},

		// The line.
		{name: "a refused claim stays in line", killers: []string{"Withdrawal"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			c.Queue = true
			do()
		})},
		{name: "a withdrawn claim stays in line", killers: []string{"Withdrawal", "Wakeup"}, flaws: on("release", func(l *line, c *claim, _ *driver.Instant, do act) {
			if e := entry(l, c.ID); e != nil && !e.Held {
				return
			}
			do()
		})},
		{name: "newcomers overtake", killers: []string{"Fairness"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			ahead := func(e driver.Entry) bool { return !e.Held && e.Claim.ID != c.ID }
			var waiting []driver.Entry
			for _, e := range l.Entries {
				if ahead(e) {
					waiting = append(waiting, e)
				}
			}
			l.Entries = slices.DeleteFunc(l.Entries, ahead)
			do()
			l.Entries = append(l.Entries, waiting...)
		})},
		{name: "readers overtake a waiting writer", killers: []string{"Fairness"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			if c.Exclusive() {
				do()
				return
			}
			var writers []driver.Entry
			for _, e := range l.Entries {
				if !e.Held && e.Claim.Exclusive() {
					writers = append(writers, e)
				}
			}
			l.Entries = slices.DeleteFunc(l.Entries, func(e driver.Entry) bool { return !e.Held && e.Claim.Exclusive() })
			do()
			l.Entries = append(l.Entries, writers...)
		})},
		{name: "who asks again goes to the end", killers: []string{"Fairness"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			if e := entry(l, c.ID); e != nil && !e.Held {
				l.Entries = slices.DeleteFunc(l.Entries, func(e driver.Entry) bool { return e.Claim.ID == c.ID })
			}
			do()
		})},
		{name: "the dead keep their place", killers: []string{"Fairness", "Wakeup", "History"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			do()
			if e := entry(l, c.ID); e != nil && !e.Held {
				e.Expires = math.MaxInt64
			}
		})},
		{name: "each of the dead has its time", killers: []string{"Fairness"}, flaws: on("acquire", func(l *line, c *claim, now *driver.Instant, do act) {
			over := func(e driver.Entry) bool { return !e.Held && e.Expires <= now.Clock }
			if i := slices.IndexFunc(l.Entries, over); i >= 0 {
				for j := range l.Entries[i+1:] {
					if e := &l.Entries[i+1+j]; over(*e) {
						e.Expires = now.Clock + e.Claim.TTL
					}
				}
			}
			do()
		})},
		{name: "release wakes nobody", killers: []string{"Wakeup"}, flaws: flaws{silent: func(op string, l *line, c claim) bool {
			return op == "release" && holds(l, c.ID)
		}}},
		{name: "leaving the line wakes nobody", killers: []string{"Wakeup"}, flaws: flaws{silent: func(op string, l *line, c claim) bool {
			return op == "release" && !holds(l, c.ID)
		}}},
		{name: "granting a share wakes nobody", killers: []string{"Wakeup"}, flaws: flaws{silent: func(op string, l *line, c claim) bool {
			return op == "acquire" && !holds(l, c.ID)
		}}},
		{name: "a downgrade wakes nobody", killers: []string{"Downgrade"}, flaws: flaws{silent: func(op string, l *line, c claim) bool {
			return op == "acquire" && holds(l, c.ID)
		}}},
		{name: "revocation wakes nobody", killers: []string{"Wakeup"}, flaws: flaws{silent: func(op string, _ *line, _ claim) bool {
			return op == "revoke"
		}}},
		{name: "wait sleeps before it looks", killers: []string{"Wakeup"}, flaws: flaws{deaf: true}},

		// Tokens.
		{name: "the last token is forgotten", killers: []string{"Fencing", "Blocks"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			l.Last = 0
			do()
		})},
		{name: "shares have one token", killers: []string{"Fencing", "History"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			var first uint64
			for _, e := range l.Entries {
				if e.Held && !e.Claim.Exclusive() && e.Claim.ID != c.ID {
					first = e.Claim.Grant.Token
				}
			}
			if g, err := do(); *err == nil && first > 0 && !c.Exclusive() {
				g.Token = first
				entry(l, c.ID).Claim.Grant.Token = first
			}
		})},
		{name: "a token for a place in line", killers: []string{"Fencing"}, flaws: flaws{around: func(op string, l *line, c *claim, now *driver.Instant, do func() (*driver.Grant, *error)) {
			// Last is shown as it will be, not as it is.
			do()
			if op == "acquire" && !holds(l, c.ID) {
				l.Last++
			}
		}}},
		{name: "a block is not reserved", killers: []string{"Blocks"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			if g, err := do(); *err == nil {
				l.Last = g.Token
			}
		})},
		{name: "the floor of a renewal is ignored", killers: []string{"Floors"}, flaws: on("renew", func(l *line, c *claim, _ *driver.Instant, do act) {
			c.Floor = 0
			do()
		})},
		{name: "the floor of a renewal lowers", killers: []string{"Floors"}, flaws: on("renew", func(l *line, c *claim, _ *driver.Instant, do act) {
			if _, err := do(); *err == nil && c.Floor > 0 {
				l.Last = c.Floor
			}
		})},
		{name: "the counter wraps", killers: []string{"Floors"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			if l.Last >= 1<<53-2 {
				l.Last = 1
			}
			do()
		})},
		{name: "a candidate is ignored", killers: []string{"Floors"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			c.Floor = 0
			do()
		})},
		{name: "any candidate is taken", killers: []string{"Floors"}, flaws: on("acquire", func(l *line, c *claim, _ *driver.Instant, do act) {
			if !holds(l, c.ID) && c.Floor > l.Last {
				l.Last = c.Floor
			}
			do()
		})},

		// Names.
		{name: "keys are paths", killers: []string{"AnyKey"}, flaws: keyed(path.Clean)},
		{name: "keys have no case", killers: []string{"AnyKey"}, flaws: keyed(strings.ToLower)},
		{name: "keys are trimmed", killers: []string{"AnyKey"}, flaws: keyed(strings.TrimSpace)},
		{name: "keys end at a NUL", killers: []string{"AnyKey"}, flaws: keyed(func(key string) string {
			key, _, _ = strings.Cut(key, "\x00")
			return key
		})},
		{name: "keys are cut at 255 bytes", killers: []string{"AnyKey"}, flaws: keyed(func(key string) string { return key[:min(len(key), 255)] })},
		{name: "keys are known by their hash tag", killers: []string{"AnyKey"}, flaws: keyed(func(key string) string {
			if _, after, ok := strings.Cut(key, "{"); ok {
				if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
					return tag
				}
			}
			return key
		})},
		{name: "slashes are escaped with an underscore", killers: []string{"AnyKey"}, flaws: keyed(func(key string) string {
			return strings.NewReplacer("/", "_", ":", "_").Replace(key)
		})},
		{name: "the prefix is a pattern", killers: []string{"Listing", "AnyKey"}, flaws: flaws{prefix: func(key, prefix string) bool {
			ok, _ := path.Match(prefix+"*", key)
			return ok
		}}},
		{name: "the prefix is a folder", killers: []string{"Listing"}, flaws: flaws{prefix: func(key, prefix string) bool {
			return key == prefix || strings.HasPrefix(key, prefix+"/")
		}}},
		{name: "those who wait are listed", killers: []string{"Listing"}, flaws: flaws{waiting: true}},
		{name: "those beyond the limit are not counted", killers: []string{"Listing"}, flaws: flaws{shallow: true}},

		// Revocation.
		{name: "a renewal undoes the revocation", killers: []string{"Revocation"}, flaws: on("revoke", func(l *line, c *claim, now *driver.Instant, do act) {
			var saved driver.Entry
			if e := entry(l, c.ID); e != nil {
				saved = *e
			}
			if _, err := do(); *err == nil && entry(l, c.ID) == nil {
				saved.Expires = now.Clock + 1 // force is only a short TTL
				l.Entries = append(l.Entries, saved)
			}
		})},
		{name: "whoever holds is revoked", killers: []string{"Revocation"}, flaws: on("revoke", func(l *line, c *claim, _ *driver.Instant, do act) {
			if len(l.Entries) > 0 {
				c.ID = l.Entries[0].Claim.ID
			}
			do()
		})},
		{name: "nobody is told", killers: []string{"Revocation"}, flaws: on("revoke", func(l *line, c *claim, _ *driver.Instant, do act) {
			do()
			l.Notices = nil
		})},
		{name: "the successor is told", killers: []string{"Revocation"}, flaws: on("renew", func(l *line, c *claim, _ *driver.Instant, do act) {
			for i := range l.Notices {
				if !l.Notices[i].Notice.Force {
					l.Notices[i].ID = c.ID
				}
			}
			do()
		})},
		{name: "a kept claim can't be revoked", killers: []string{"Revocation"}, flaws: on("revoke", func(l *line, c *claim, _ *driver.Instant, do act) {
			if e := entry(l, c.ID); e != nil && e.Kept {
				e.Held = false
				do()
				entry(l, c.ID).Held = true
				return
			}
			do()
		})},

		// What it says of itself.
		{name: "nothing is validated", killers: []string{"Validation"}, flaws: flaws{invalid: true}},
		{name: "not as durable as it says", killers: []string{"Durability"}, amnesia: true},
		{name: "a name of two words", killers: []string{"Traits"}, flaws: flaws{traits: func(t driver.Traits) driver.Traits {
			t.Name = "two words"
			return t
		}}},
	}
}
