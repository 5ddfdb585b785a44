package file_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/file"
)

func TestRebootEndsClaimsAndTokensGoOn(t *testing.T) {
	dir := t.TempDir()
	before := newMachine("first")
	b := before.open(t, dir)
	c := mutex("k", "a")
	c.Grant = acquire(t, b, c)
	waiting := mutex("k", "b")
	waiting.Queue = true
	_, err := b.Acquire(t.Context(), waiting)
	wantErr(t, "a second claim", err, driver.ErrHeld)

	after := newMachine("second")
	after.since.Store(int64(time.Second)) // its clock begins anew
	after.stepWall(-1000 * time.Hour)     // and the battery was empty
	b = after.open(t, dir)
	st, err := b.Inspect(t.Context(), "k", driver.Unlimited)
	if err != nil || len(st.Holders) != 0 || st.Last != c.Grant.Token {
		t.Errorf("Inspect after the reboot: got %+v, %v, want nobody and the last token %d", st, err, c.Grant.Token)
	}
	g := acquire(t, b, mutex("k", "c"))
	if g.Token <= c.Grant.Token {
		t.Errorf("token after the reboot: got %d, want more than %d", g.Token, c.Grant.Token)
	}
	_, err = b.Renew(t.Context(), c)
	wantErr(t, "Renew of a claim of the earlier boot", err, driver.ErrLost)
	_, err = b.Acquire(t.Context(), mutex("k", "d"))
	wantErr(t, "a claim beside one of this boot", err, driver.ErrHeld)
}

func TestWallClockStepNeitherEndsNorKeepsClaims(t *testing.T) {
	for _, step := range []time.Duration{-1000 * time.Hour, 1000 * time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			m := newMachine("boot")
			b := m.open(t, t.TempDir())
			c := mutex("k", "a")
			c.Grant = acquire(t, b, c)
			m.stepWall(step)
			m.sleep(c.TTL - 1)
			_, err := b.Acquire(t.Context(), mutex("k", "b"))
			wantErr(t, "a second claim 1ns before the first ends", err, driver.ErrHeld)
			m.sleep(1)
			if g := acquire(t, b, mutex("k", "b")); g.Token <= c.Grant.Token {
				t.Errorf("token after a step of the wall clock: got %d, want more than %d", g.Token, c.Grant.Token)
			}
		})
	}
}

func TestBootClockThatGoesBackEndsNothingEarly(t *testing.T) {
	m := newMachine("boot")
	b := m.open(t, t.TempDir())
	acquire(t, b, mutex("k", "a"))
	m.since.Add(-int64(time.Minute))
	_, err := b.Acquire(t.Context(), mutex("k", "b"))
	wantErr(t, "a second claim after the clock went back", err, driver.ErrHeld)
	var held *driver.HeldError
	if errors.As(err, &held) && held.Left != 10*time.Second {
		t.Errorf("time left after the clock went back: got %v, want the TTL of 10s as before", held.Left)
	}
}

func TestBootWithoutANameIsKnownByItsClock(t *testing.T) {
	dir := t.TempDir()
	m := newMachine(file.UnknownBoot)
	b := m.open(t, dir)
	c := mutex("k", "a")
	c.Grant = acquire(t, b, c)
	_, err := m.open(t, dir).Acquire(t.Context(), mutex("k", "b"))
	wantErr(t, "a claim in the same boot", err, driver.ErrHeld)

	m.since.Store(int64(time.Minute))
	if g := acquire(t, m.open(t, dir), mutex("k", "b")); g.Token <= c.Grant.Token {
		t.Errorf("token after the reboot: got %d, want more than %d", g.Token, c.Grant.Token)
	}
}
