package main

import (
	"context"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/fence"
	"github.com/pawlock/pawl/fence/fenceredis"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

// A redisAccount is the key account.
type redisAccount struct {
	rdb   *goredis.Client
	guard *fenceredis.Guard
}

func openRedis(url string) (account, error) {
	opts, err := goredis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	rdb := goredis.NewClient(opts)
	return &redisAccount{rdb, fenceredis.New(adapter.NewNode(rdb))}, nil
}

func (a *redisAccount) balance(ctx context.Context) (int, error) {
	return a.rdb.Get(ctx, "account").Int()
}

func (a *redisAccount) set(ctx context.Context, balance int) error {
	return a.rdb.Set(ctx, "account", balance, 0).Err()
}

func (a *redisAccount) setGuarded(ctx context.Context, balance int) error {
	return fence.Do(ctx, a.guard, "account", func(ctx context.Context) error {
		fenceredis.Queue(ctx, []string{"account"}, "SET", "account", balance)
		return nil
	})
}
