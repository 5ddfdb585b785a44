package goredis_test

import (
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/recipetest"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/quorum"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

func TestRecipes(t *testing.T) {
	t.Parallel()
	server := testserver.StartRedis(t, testserver.RedisOptions{})
	recipetest.Run(t, recipetest.Harness{New: func(t *testing.T) func() driver.Backend {
		return func() driver.Backend {
			rdb := goredis.NewClient(&goredis.Options{Addr: server.Addr})
			t.Cleanup(func() { rdb.Close() })
			return adapter.New(rdb)
		}
	}})
}

// A quorum of real servers has the recipes that take no shares, and refuses the
// others.
func TestRecipesOfAQuorum(t *testing.T) {
	t.Parallel()
	addrs := startRedlock(t, 3).addrs()
	recipetest.Run(t, recipetest.Harness{New: func(t *testing.T) func() driver.Backend {
		return func() driver.Backend { return quorumOf(t, nodesAt(t, addrs), &quorum.Options{MaxTTL: time.Hour}) }
	}})
}
