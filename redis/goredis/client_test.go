package goredis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

// patience bounds what a test waits for.
const patience = time.Minute

// A client is one process, as far as the server can tell.
type client struct {
	driver.Backend
	rdb *goredis.Client
	ids *driver.Identity
}

func newClient(t testing.TB, addr string, options ...func(*goredis.Options)) *client {
	o := &goredis.Options{Addr: addr}
	for _, set := range options {
		set(o)
	}
	rdb := goredis.NewClient(o)
	c := &client{Backend: adapter.New(rdb), rdb: rdb, ids: driver.NewIdentity("host:1")}
	t.Cleanup(func() {
		c.Close()
		rdb.Close()
	})
	return c
}

func (c *client) mutex(key string) driver.Claim {
	return driver.Claim{Key: key, ID: c.ids.Next(), Weight: 1, Capacity: 1, TTL: time.Minute}
}

// lock waits in line until claim is granted.
func (c *client) lock(ctx context.Context, claim driver.Claim) (driver.Grant, error) {
	claim.Queue = true
	for {
		g, err := c.Acquire(ctx, claim)
		var h *driver.HeldError
		if !errors.As(err, &h) {
			return g, err
		}
		if err := c.Wait(ctx, claim, h); err != nil {
			return g, err
		}
	}
}

// must returns claim with its grant.
func (c *client) must(t testing.TB, claim driver.Claim) driver.Claim {
	t.Helper()
	g, err := c.Acquire(t.Context(), claim)
	if err != nil {
		t.Fatalf("Acquire of %q: %v", claim.Key, err)
	}
	claim.Grant = g
	return claim
}

func (c *client) release(t testing.TB, claim driver.Claim) {
	t.Helper()
	if err := c.Release(t.Context(), claim); err != nil {
		t.Errorf("Release of %q: %v", claim.Key, err)
	}
}

// await polls until done reports true.
func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}
