package quorum

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/ballot"
)

// A grant's Ref is what another process needs to go on with the hold:
//
//	1 configuration attempt values
//
// the format, the configuration's hash, the number of the attempt, and for each
// node, in the order of their names, how much its value is below the token (so
// mostly 0, and negative if above), ? if it may have granted, or - if not.
const refFormat = "1"

// ref returns the Ref of h. mu is held.
func (h *hold) ref() string {
	b := h.quorum
	var s strings.Builder
	fmt.Fprintf(&s, "%s %s %d ", refFormat, b.config, h.number)
	for i, node := range b.order {
		if i > 0 {
			s.WriteByte(',')
		}
		switch state, value := h.attempt.Seat(node); state {
		case ballot.Ours:
			s.WriteString(strconv.FormatInt(int64(h.attempt.Token()-value), 10))
		case ballot.Never:
			s.WriteByte('-')
		default:
			s.WriteByte('?')
		}
	}
	return s.String()
}

// resume returns the hold that c's grant refers to. It is nil if the grant has no
// Ref, so that nothing was ever granted.
func (b *Backend) resume(c driver.Claim) (*hold, error) {
	if c.Grant.Ref == "" || c.Grant.Token == 0 {
		return nil, nil
	}
	invalid := func(why string) error { return &driver.FieldError{Field: "Grant.Ref", Why: why} }
	parts := strings.Split(c.Grant.Ref, " ")
	if len(parts) != 4 || parts[0] != refFormat {
		return nil, invalid(fmt.Sprintf("is %q, which no quorum has written", c.Grant.Ref))
	}
	if parts[1] != b.config {
		return nil, invalid("is of a quorum of other nodes, or with another MaxTTL")
	}
	number, err := strconv.ParseUint(parts[2], 10, 64)
	seats := strings.Split(parts[3], ",")
	if err != nil || len(seats) != len(b.seats) {
		return nil, invalid(fmt.Sprintf("is damaged: %q", c.Grant.Ref))
	}
	states, values := make([]ballot.State, len(seats)), make([]uint64, len(seats))
	for i, node := range b.order {
		switch seats[i] {
		case "-":
			states[node] = ballot.Never
		case "?":
			states[node] = ballot.Doubt
		default:
			below, err := strconv.ParseInt(seats[i], 10, 64)
			if err != nil {
				return nil, invalid(fmt.Sprintf("is damaged: %q", c.Grant.Ref))
			}
			states[node], values[node] = ballot.Ours, c.Grant.Token-uint64(below)
		}
	}
	h := &hold{quorum: b, number: number, claim: c, errs: make([]error, len(b.seats))}
	h.nonce = c.ID + "~" + parts[2]
	h.attempt = ballot.Resume(c.Grant.Token, states, values)
	h.until = b.now() + b.traits.MaxTTL
	return h, nil
}
