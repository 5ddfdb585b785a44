package driver_test

import (
	"slices"
	"time"

	"github.com/pawlock/pawl/driver"
)

// A model is the one rule as the package documentation words it, with nothing
// clever about it: it remembers all that ever happened on a key.
type model struct {
	order   []string // live claims, as they came
	claims  map[string]*modelClaim
	granted map[string]bool // was it ever?
	forced  map[string]bool
	lastID  string // the last grant went to it
	top     uint64 // the greatest token of all grants and floors
}

type modelClaim struct {
	driver.Claim
	held, kept bool
	ends       time.Duration
	capacity   int // when it was granted, before any downgrade
}

func newModel() *model {
	return &model{claims: make(map[string]*modelClaim), granted: make(map[string]bool), forced: make(map[string]bool)}
}

// pass drops what has ended by now.
func (m *model) pass(now time.Duration) {
	for _, id := range slices.Clone(m.order) {
		if m.claims[id].ends <= now {
			m.remove(id)
		}
	}
}

func (m *model) remove(id string) {
	delete(m.claims, id)
	m.order = slices.DeleteFunc(m.order, func(x string) bool { return x == id })
}

// fits is the rule: weight of all live claims ahead + its own weight <=
// capacity; and nobody overtakes a claim that waits.
func (m *model) fits(c driver.Claim) bool {
	var ahead int64
	for _, id := range m.order {
		if id == c.ID {
			break
		}
		if !m.claims[id].held {
			return false
		}
		ahead += int64(m.claims[id].Units())
	}
	if c.Exclusive() {
		return ahead == 0
	}
	return ahead+int64(c.Weight) <= int64(c.Capacity)
}

// An outcome is what an operation must answer.
type outcome string

const (
	yes    outcome = "done"
	held   outcome = "held"
	lost   outcome = "lost"
	unsure outcome = "done or lost" // the line can't know
)

func (m *model) acquire(c driver.Claim, now time.Duration) outcome {
	old := m.claims[c.ID]
	switch {
	case old != nil && old.kept:
		return lost
	case old != nil && old.held:
		if c.Weight < old.Weight && c.Units() < old.Units() {
			old.Weight, old.Capacity = c.Weight, c.Capacity
		}
		old.ends = now + c.TTL
		return yes
	case m.granted[c.ID]:
		return lost
	case old == nil:
		m.order = append(m.order, c.ID)
	}
	m.claims[c.ID] = &modelClaim{Claim: c, ends: now + c.TTL, capacity: c.Capacity}
	if m.fits(c) {
		m.claims[c.ID].held = true
		m.granted[c.ID], m.lastID = true, c.ID
		return yes
	}
	if !c.Queue {
		m.remove(c.ID)
	}
	return held
}

func (m *model) renew(c driver.Claim, now time.Duration) outcome {
	old := m.claims[c.ID]
	if old == nil || !old.held || old.kept || old.Grant.Token != c.Grant.Token {
		return lost
	}
	old.ends = now + c.TTL
	m.top = max(m.top, c.Floor)
	return yes
}

func (m *model) release(c driver.Claim, now time.Duration) outcome {
	old := m.claims[c.ID]
	switch {
	case old == nil && m.forced[c.ID] && c.Grant.Token != 0:
		return lost
	case old == nil && (c.Grant.Token == 0 || m.lastID == c.ID):
		return yes
	case old == nil:
		return unsure
	case old.kept:
		return yes
	case old.held && c.Keep > 0:
		old.kept, old.ends = true, now+c.Keep
		return yes
	}
	m.remove(c.ID)
	return yes
}

func (m *model) revoke(id string, force bool) outcome {
	old := m.claims[id]
	if old == nil || !old.held {
		return lost
	}
	if force {
		m.forced[id] = true
		m.remove(id)
	}
	return yes
}
