package chaos_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
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

// What is planted is found: a suite that finds nothing proves nothing.
func TestPlantedMistakesAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	for _, m := range []struct {
		name, fault, finds string
		wrap               func(driver.Backend, goredis.UniversalClient) driver.Backend
	}{
		{"release that doesn't check the token", "reset connections", "no overlap", func(b driver.Backend, rdb goredis.UniversalClient) driver.Backend { return careless{b, rdb} }},
		{"renewal that re-creates", "FLUSHALL", "its next renewal said nothing", func(b driver.Backend, rdb goredis.UniversalClient) driver.Backend { return necromancer{b, rdb} }},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for _, f := range faults {
				if f.name != m.fault {
					continue
				}
				r := round(t, f, false, rand.Uint64(), m.wrap)
				if !strings.Contains(strings.Join(r.wrong, "\n"), m.finds) {
					t.Errorf("found %q in %d holds, want %q", r.wrong, r.holds, m.finds)
				}
				return
			}
			t.Fatalf("no fault %q", m.fault)
		})
	}
}
