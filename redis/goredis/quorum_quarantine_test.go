package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/quorum"
	"github.com/pawlock/pawl/redis"
)

// Three of five nodes forget a lease at the same moment: without a quarantine the
// key is granted again while its holder relies on it.
// Case G07.
func TestAMajorityThatForgotGrantsNothing(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		t.Run(fmt.Sprintf("quarantine=%v", guarded), func(t *testing.T) {
			t.Parallel()
			r := startRedlock(t, 5)
			var o *redis.Options
			if guarded {
				o = &redis.Options{Quarantine: &brief}
				for _, s := range r.servers {
					newGuarded(t, s.Addr, brief)
				}
			}
			q := quorumOf(t, nodesWith(t, r.addrs(), o), &quorum.Options{MaxTTL: brief.MaxTTL})
			ids := driver.NewIdentity("t")
			claim := func() driver.Claim {
				return driver.Claim{Key: "k", ID: ids.Next(), Weight: 1, Capacity: 1, TTL: brief.MaxTTL}
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()

			began := time.Now()
			held := claim()
			g, err := q.Acquire(ctx, held)
			if err != nil {
				t.Fatal(err)
			}
			held.Grant = g
			await(t, "all nodes have the lease", func() bool {
				return !slices.ContainsFunc(r.servers, func(s *testserver.Redis) bool { return s.Do("EXISTS", keyOf("lock")) == int64(0) })
			})
			for _, s := range r.servers[1:4] {
				s.Do("FLUSHALL")
			}
			var next driver.Grant
			refused := false
			await(t, "the key is granted again", func() bool {
				next, err = q.Acquire(ctx, claim())
				refused = refused || errors.Is(err, driver.ErrRefused) && inQuarantine(err) == 3
				return err == nil
			})
			took := time.Since(began)
			if guarded && took < held.TTL {
				t.Errorf("the key was granted again after %v, want not before the lease of %v is over", took, held.TTL)
			}
			if guarded && !refused {
				t.Errorf("no Acquire was refused by three nodes in quarantine")
			}
			if !guarded && took >= held.TTL {
				t.Skip("the machine is too slow to show what a majority forgets")
			}
			if next.Token <= g.Token {
				t.Errorf("token after %d: got %d, want more", g.Token, next.Token)
			}
			if _, err := q.Renew(ctx, held); !errors.Is(err, driver.ErrLost) {
				t.Errorf("Renew of what was forgotten: got %v, want ErrLost", err)
			}
		})
	}
}

// inQuarantine counts the nodes that refused because they may have forgotten
// something.
func inQuarantine(err error) (n int) {
	var none *quorum.NoMajorityError
	if !errors.As(err, &none) {
		return 0
	}
	for _, v := range none.Votes {
		var q *redis.QuarantineError
		if errors.As(v.Err, &q) {
			n++
		}
	}
	return n
}
