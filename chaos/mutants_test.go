package chaos_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
)

// A careless release frees the key whoever holds it.
type careless struct {
	driver.Backend
	rdb goredis.UniversalClient
}

func (b careless) Release(ctx context.Context, c driver.Claim) error {
	if err := b.rdb.Del(ctx, "lock:"+c.Key).Err(); err != nil {
		return err
	}
	return b.Backend.Release(ctx, c)
}

// A necromancer's renewal makes the lock anew if it is gone.
type necromancer struct {
	driver.Backend
	rdb goredis.UniversalClient
}

func (b necromancer) Renew(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	g, err := b.Backend.Renew(ctx, c)
	if !errors.Is(err, driver.ErrLost) {
		return g, err
	}
	g = c.Grant
	g.TTL = c.TTL
	return g, b.rdb.Set(ctx, "lock:"+c.Key, c.ID, c.TTL).Err()
}

// An optimist counts what is renewed from the answer, however late that comes. Case A14.
type optimist struct{ driver.Backend }

func (b optimist) Renew(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	sent := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.TTL)
	defer cancel()
	g, err := b.Backend.Renew(ctx, c)
	g.TTL += time.Since(sent)
	return g, err
}

// A hoarder's renewal takes the end from the line.
type hoarder struct {
	driver.Backend
	rdb goredis.UniversalClient
}

func (b hoarder) Renew(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	g, err := b.Backend.Renew(ctx, c)
	b.rdb.Persist(ctx, "pawl.line:{lock:"+c.Key+"}")
	return g, err
}

// lateOnce lets the witness of blackholed connections hear late of one renewal, and
// of none after it.
func lateOnce(a *arena, _ *rand.Rand) {
	p := a.stations[0].proxy
	time.Sleep(700 * ms)
	p.Delay(testserver.Replies, 1500*ms)
	time.Sleep(500 * ms)
	p.Blackhole()
	time.Sleep(5 * time.Second)
	p.Heal()
}

// What is planted is found: a suite that finds nothing proves nothing.
func TestPlantedMistakesAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	type wrap = func(driver.Backend, goredis.UniversalClient) driver.Backend
	for _, m := range []struct {
		name, fault string
		finds       []string // all of these
		wrap        wrap
		strike      func(*arena, *rand.Rand) // in place of the fault's own, if not nil
	}{
		{"release that doesn't check the token", "reset connections", []string{"no overlap", modelSays}, func(b driver.Backend, rdb goredis.UniversalClient) driver.Backend { return careless{b, rdb} }, nil},
		{"renewal that re-creates", "FLUSHALL", []string{"its next renewal said nothing"}, func(b driver.Backend, rdb goredis.UniversalClient) driver.Backend { return necromancer{b, rdb} }, nil},
		{"validity counted from the answer", "blackholed connections", []string{"no overlap", modelSays}, func(b driver.Backend, _ goredis.UniversalClient) driver.Backend { return optimist{b} }, lateOnce},
		{"a key that never ends", "SCRIPT FLUSH", []string{"these don't end in time"}, func(b driver.Backend, rdb goredis.UniversalClient) driver.Backend { return hoarder{b, rdb} }, nil},
		{"a fault that does nothing", "out of memory (noeviction)", []string{"it did not strike"}, nil, func(*arena, *rand.Rand) {}},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for _, f := range faults {
				if f.name != m.fault {
					continue
				}
				if m.strike != nil {
					f.strike = m.strike
				}
				// Whether two meet in the moment in which a mistake matters is up to the
				// machine.
				var found string
				missing := func(finds string) bool { return !strings.Contains(found, finds) }
				for range 5 {
					r := round(t, f, false, rand.Uint64(), m.wrap)
					if found = strings.Join(r.wrong, "\n"); !slices.ContainsFunc(m.finds, missing) {
						return
					}
				}
				t.Errorf("found %q, want %q", found, m.finds)
				return
			}
			t.Fatalf("no fault %q", m.fault)
		})
	}
}
