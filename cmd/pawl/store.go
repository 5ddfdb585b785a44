package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
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
	name string // its URL, without user and password

	mu       sync.Mutex
	claim    driver.Claim    // guarded by mu: the last one sent by Acquire
	grant    driver.Grant    // guarded by mu: the last one that came
	held     *pawl.HeldError // guarded by mu: the last answer to Acquire if it was that
	heldAt   time.Time       // guarded by mu: when held came
	answered bool            // guarded by mu: some request was answered
	tries    int             // guarded by mu: requests of Acquire that were not
	trouble  error           // guarded by mu: the last error that was no answer
	denied   func(error)     // is told when the store does not permit something
}

// openStore opens what --url, PAWL_URL or the default names.
func (p *program) openStore() (*store, error) {
	raw, from := p.url, "--url"
	if raw == "" {
		raw, from = os.Getenv("PAWL_URL"), "PAWL_URL"
	}
	var target *open.Target
	var err error
	if raw == "" {
		if target, err = open.Default(); err != nil {
			return nil, fail(exitConfig, "%v", err)
		}
		p.note("neither --url nor PAWL_URL is set: locks are kept in %s and cover this machine only", plain.Text(target.Path))
	} else if target, err = open.Parse(raw); err != nil {
		return nil, fail(exitConfig, "%s is not the URL of a store: %v", from, err)
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
	return &store{Backend: backend, name: target.String()}, nil
}

// addPassword completes target: --password-file beats the URL, and the URL
// beats the environment.
func (p *program) addPassword(target *open.Target, from string) error {
	switch {
	case target.Scheme == open.File || target.Scheme == open.Memory:
	case p.passwordFile != "":
		password, err := p.readPassword()
		if err != nil {
			return fail(exitConfig, "cannot read --password-file: %v", err)
		}
		target.Password, target.HasPassword = password, true
	case target.HasPassword:
		if from == "--url" && target.Password != "" {
			p.note("a password on the command line can be read by other users of this machine: PAWL_PASSWORD and --password-file are safe")
		}
	default:
		for _, name := range []string{"PAWL_PASSWORD", "REDISCLI_AUTH"} {
			if password, ok := os.LookupEnv(name); ok {
				target.Password, target.HasPassword = password, true
				return nil
			}
		}
	}
	return nil
}

func (p *program) readPassword() (string, error) {
	f, err := os.Open(p.passwordFile)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		p.note("%s can be read by other users (mode %04o): chmod 600 it", plain.Text(p.passwordFile), info.Mode().Perm())
	}
	line, err := bufio.NewReader(io.LimitReader(f, 64<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// Acquire implements driver.Backend.
func (s *store) Acquire(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	s.mu.Lock()
	s.claim = c
	s.mu.Unlock()
	g, err := s.Backend.Acquire(ctx, c)
	var held *pawl.HeldError
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.answered, s.grant = true, g
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
		s.grant = g
		s.mu.Unlock()
	}
	return g, err
}

// A seen is what a store has noted.
type seen struct {
	claim    driver.Claim
	grant    driver.Grant
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
	return seen{s.claim, s.grant, held, s.answered, s.tries, s.trouble}
}
