package goredis_test

import (
	"context"
	"testing"
	"time"

	rds "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/redis/goredis"
)

func TestSlice(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	rdb := rds.NewClient(&rds.Options{Addr: s.Addr})
	defer rdb.Close()
	b := goredis.New(rdb)
	defer b.Close()
	ids := driver.NewIdentity("me:1")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c := driver.Claim{Key: "x", ID: ids.Next(), Weight: 1, Capacity: 1, TTL: time.Second}
	g, err := b.Acquire(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(g, s.Do("GET", "lock:x"))
	d := c
	d.ID = ids.Next()
	d.Queue = true
	_, err = b.Acquire(ctx, d)
	t.Logf("%+v", err)
	c.Grant = g
	g2, err := b.Renew(ctx, c)
	t.Log(g2, err)
	st, err := b.Inspect(ctx, "x", 10)
	t.Logf("%+v %v", st, err)
	if err := b.Release(ctx, c); err != nil {
		t.Fatal(err)
	}
	t.Log(s.Do("KEYS", "*"))
	g, err = b.Acquire(ctx, d)
	t.Log(g, err)
	d.Grant = g
	t.Log(b.Release(ctx, d))
	t.Log(s.Do("KEYS", "*"))
}
