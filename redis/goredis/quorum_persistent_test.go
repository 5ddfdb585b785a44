package goredis_test

import (
	"context"
	"errors"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/quorum"
)

// A persistent quorum repeats what too few nodes have answered, as the client does:
// on a machine that stands still for a second that is all of them, and the suite
// asks what the answers are and not how soon they come.
type persistent struct{ *quorum.Backend }

func persist[T any](ctx context.Context, f func() (T, error)) (T, error) {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		v, err := f()
		var outage *quorum.NoMajorityError
		if !errors.As(err, &outage) || ctx.Err() != nil || time.Now().After(end) {
			return v, err
		}
	}
}

func (p persistent) Acquire(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	return persist(ctx, func() (driver.Grant, error) { return p.Backend.Acquire(ctx, c) })
}

func (p persistent) Renew(ctx context.Context, c driver.Claim) (driver.Grant, error) {
	return persist(ctx, func() (driver.Grant, error) { return p.Backend.Renew(ctx, c) })
}

func (p persistent) Release(ctx context.Context, c driver.Claim) error {
	_, err := persist(ctx, func() (struct{}, error) { return struct{}{}, p.Backend.Release(ctx, c) })
	return err
}

func (p persistent) Revoke(ctx context.Context, key, id string, n driver.Notice) error {
	_, err := persist(ctx, func() (struct{}, error) { return struct{}{}, p.Backend.Revoke(ctx, key, id, n) })
	return err
}

func (p persistent) Inspect(ctx context.Context, key string, limit int) (driver.State, error) {
	return persist(ctx, func() (driver.State, error) { return p.Backend.Inspect(ctx, key, limit) })
}
