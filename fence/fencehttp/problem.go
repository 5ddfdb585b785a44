package fencehttp

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/fence"
)

// A problem is the body of a refusal, as in RFC 9457.
type problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`
	Resource string `json:"resource,omitempty"`
	Token    string `json:"token,omitempty"`
	Highest  string `json:"highest,omitempty"` // that the resource has seen
	Lock     string `json:"lock,omitempty"`    // whose tokens it takes
}

// The types of problems.
const (
	staleType     = "urn:pawl:problem:stale-token"
	otherLockType = "urn:pawl:problem:other-lock"
	missingType   = "urn:pawl:problem:missing-token"
	malformedType = "urn:pawl:problem:malformed-token"
	guardType     = "urn:pawl:problem:guard-failed"
)

// problemOf returns what to answer when err kept a request from being served.
func problemOf(err error) problem {
	var stale *fence.StaleError
	var other *fence.OtherLockError
	switch {
	case errors.As(err, &stale):
		return problem{Type: staleType, Title: "The fencing token is stale", Status: http.StatusPreconditionFailed, Detail: err.Error(),
			Resource: stale.Resource, Token: stale.Token.String(), Highest: stale.Highest.String()}
	case errors.As(err, &other):
		return problem{Type: otherLockType, Title: "The fencing token is of another lock", Status: http.StatusConflict, Detail: err.Error(),
			Resource: other.Resource, Token: other.Token.String(), Lock: other.Key}
	case errors.Is(err, errMissing):
		return problem{Type: missingType, Title: "A fencing token is required", Status: http.StatusPreconditionRequired, Detail: err.Error()}
	case errors.Is(err, pawl.ErrInvalid):
		return malformed(err)
	}
	// What a database says is not for everyone.
	return problem{Type: guardType, Title: "The fencing token could not be checked, or the write not be completed", Status: http.StatusServiceUnavailable}
}

func malformed(err error) problem {
	return problem{Type: malformedType, Title: "The fencing token is malformed", Status: http.StatusBadRequest, Detail: err.Error()}
}

func (p problem) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // who has gone needs no answer
}

// Refusal returns the [*fence.StaleError] or [*fence.OtherLockError] that resp
// tells of, and nil for every other response, of which it leaves the body alone.
func Refusal(resp *http.Response) error {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || kind != "application/problem+json" || resp.StatusCode != http.StatusPreconditionFailed && resp.StatusCode != http.StatusConflict {
		return nil
	}
	const most = 1 << 20 // a token has the name of its lock, escaped
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	resp.Body = replay(body, resp.Body)
	var p problem
	if err != nil || json.Unmarshal(body, &p) != nil {
		return nil
	}
	token, err := pawl.ParseToken(p.Token)
	if err != nil {
		return nil
	}
	switch highest, err := pawl.ParseToken(p.Highest); {
	case p.Type == staleType && err == nil:
		return &fence.StaleError{Resource: p.Resource, Token: token, Highest: highest}
	case p.Type == otherLockType && p.Lock != "":
		return &fence.OtherLockError{Resource: p.Resource, Token: token, Key: p.Lock}
	}
	return nil
}
