package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/cmd/pawl/internal/open"
	"github.com/pawlock/pawl/cmd/pawl/internal/plain"
	"github.com/pawlock/pawl/driver"
)

// A store is the backend that was asked for. It notes what the core does not
// tell: the answers to the last claim, for messages and for handles.
type store struct {
	driver.Backend
	name   string // its URL, without user and password
	target *open.Target

	mu       sync.Mutex
	claim    driver.Claim            // guarded by mu: the last one sent by Acquire
	granted  map[string]driver.Claim // guarded by mu: by key, with the last grant that came
	held     *pawl.HeldError         // guarded by mu: the last answer to Acquire for the key of claim, if it was that
	heldAt   time.Time               // guarded by mu: when held came
	answered bool                    // guarded by mu: some request was answered
	tries    int                     // guarded by mu: requests of Acquire that were not
	trouble  error                   // guarded by mu: the last error that was no answer
	denied   func(error)             // is told when the store does not permit something
}

// openStore opens what --url, PAWL_URL, the configuration or the default names.
func (p *program) openStore() (*store, error) {
	raws, from := p.urls, p.values["url"].from
	if from == "" {
		from = "what the handle names"
	}
	target, err := p.parseStore(raws, from)
	if err != nil {
		return nil, err
	}
	if err := p.addPassword(target, from); err != nil {
		return nil, err
	}
	backend, err := target.Open()
	if err != nil {
		code := exitConfig
		if denied(err) {
			code = exitDenied
		}
		return nil, fail(code, "cannot use %s: %v", target, err)
	}
	return &store{Backend: backend, name: target.String(), target: target}, nil
}

// parseStore returns what raws name together: several are the nodes of a quorum.
func (p *program) parseStore(raws []string, from string) (*open.Target, error) {
	if len(raws) == 0 {
		target, err := open.Default()
		if err != nil {
			return nil, fail(exitConfig, "%v", err)
		}
		p.note("neither --url nor PAWL_URL is set: locks are kept in %s and cover this machine only", plain.Text(target.Path))
		return target, nil
	}
	var targets []*open.Target
	for _, raw := range raws {
		t, err := open.Parse(raw)
		if err != nil {
			return nil, fail(exitConfig, "%s is not the URL of a store: %v", from, err)
		}
		targets = append(targets, t)
	}
	target, err := open.Join(targets)
	if err != nil {
		return nil, fail(exitConfig, "--url: %v", err)
	}
	if target.TLS.Insecure {
		p.note("insecure=true: anybody on the way to %s can pretend to be it", target)
	}
	return target, nil
}

// Acquire implements driver.Backend.
func (s *store) Acquire(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	s.mu.Lock()
	if c.Key != s.claim.Key {
		s.held = nil
	}
	s.claim = c
	s.mu.Unlock()
	g, err := s.Backend.Acquire(ctx, c)
	var held *pawl.HeldError
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.answered = true
		s.keep(c, g)
	case errors.As(err, &held):
		s.answered, s.held, s.heldAt = true, held, time.Now()
	case !unanswered(err) && !denied(err) && (errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrLost)):
		s.answered, s.trouble = true, err
	default:
		s.tries++
		s.trouble = err
	}
	if err != nil && denied(err) && s.denied != nil {
		s.denied(err)
	}
	return g, err
}

// Renew implements driver.Backend.
func (s *store) Renew(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	g, err := s.Backend.Renew(ctx, c)
	if err == nil {
		s.mu.Lock()
		s.keep(c, g)
		s.mu.Unlock()
	}
	return g, err
}

// keep notes a grant. It is called with mu held.
func (s *store) keep(c driver.Claim, g driver.Grant) {
	if s.granted == nil {
		s.granted = map[string]driver.Claim{}
	}
	c.Grant = g
	s.granted[c.Key] = c
}

// grantOf returns the claim on key that was granted last, with its grant.
func (s *store) grantOf(key string) driver.Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.granted[key]
}

// A seen is what a store has noted.
type seen struct {
	claim    driver.Claim
	held     *pawl.HeldError // its Age as of now
	answered bool
	tries    int
	trouble  error
}

func (s *store) seen() seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.held
	if held != nil && held.Holder.Age >= 0 {
		aged := *held
		aged.Holder.Age += time.Since(s.heldAt)
		held = &aged
	}
	return seen{s.claim, held, s.answered, s.tries, s.trouble}
}
