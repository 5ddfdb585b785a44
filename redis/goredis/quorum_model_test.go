package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/redis"
	adapter "github.com/pawlock/pawl/redis/goredis"
	"github.com/pawlock/pawl/sim"
)

// The simulator's node does what a server does, on the same operations in the
// same order.
func TestTheModelOfANodeIsLikeARealOne(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	rdb := goredis.NewClient(&goredis.Options{Addr: s.Addr, ContextTimeoutEnabled: true})
	defer rdb.Close()
	b := adapter.New(rdb)
	defer b.Close()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	compared, unsure := 0, 0
	for key := range 150 {
		n, ok := compare(t, r, b, s, fmt.Sprintf("k%d", key))
		compared += n
		if !ok {
			unsure++
		}
	}
	t.Logf("%d operations compared; %d keys were given up on a lease that ended meanwhile", compared, unsure)
	if compared < 1000 {
		t.Errorf("operations compared: got %d, want at least 1000", compared)
	}
}

// compare plays random operations on one key to both, and returns how many. It
// stops if a lease may have ended before an operation or after it.
func compare(t *testing.T, r *rand.Rand, b driver.Backend, s *testserver.Redis, key string) (n int, ok bool) {
	model := sim.NewModel(false)
	ids := driver.NewIdentity("model")
	claims := []driver.Claim{}
	for range 4 {
		claims = append(claims, driver.Claim{Key: key, ID: ids.Next() + "~1", Weight: 1, Capacity: 1, TTL: time.Minute})
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 20 {
		c := &claims[r.IntN(len(claims))]
		c.TTL = time.Minute
		if r.IntN(4) == 0 {
			c.TTL = 50 * time.Millisecond
		}
		o := sim.Operation{Nonce: c.ID, TTL: c.TTL, Value: c.Grant.Token}
		switch r.IntN(10) {
		case 0:
			if end, held := model.Ends(); held && time.Until(end) < time.Second {
				time.Sleep(time.Until(end) + blur)
			}
			continue
		case 1:
			s.Do("FLUSHALL")
			model.Flush()
			continue
		default:
			operate(r, &o)
		}
		sent := time.Now()
		got, told := carryOut(ctx, b, c, o)
		if told.IsZero() {
			told = time.Now()
		}
		if model.Turns(sent.Add(-blur), time.Now().Add(blur)) {
			return n, false
		}
		alike(t, key, o, got, model.Do(o, told))
		n++
	}
	return n, true
}

// blur is how much the clocks of the server and the test may differ.
const blur = 5 * time.Millisecond

// alike checks that server and model have given the same answer.
func alike(t *testing.T, key string, o sim.Operation, got, want sim.Reply) {
	t.Helper()
	if got.Code != want.Code || got.Value != want.Value && o.Op != sim.Release || want.Code == sim.Busy && got.Last != want.Last {
		t.Fatalf("%s, %v of %s with value %d, floor %d: the server said %v, value %d, last %d; the model %v, %d, %d",
			key, o.Op, o.Nonce, o.Value, o.Floor, got.Code, got.Value, got.Last, want.Code, want.Value, want.Last)
	}
}

// operate draws what is asked of the node.
func operate(r *rand.Rand, o *sim.Operation) {
	switch r.IntN(8) {
	case 0, 1, 2, 3:
		o.Op = sim.Acquire
		o.Floor = candidate(r)
	case 4, 5:
		o.Op = sim.Renew
		if o.Floor = candidate(r); r.IntN(4) == 0 {
			o.Value++ // not what was granted
		}
	default:
		o.Op = sim.Release
	}
}

// candidate returns one that may be taken, one that has passed, or one that no
// node takes.
func candidate(r *rand.Rand) uint64 {
	now := time.Now().UnixMicro()
	switch r.IntN(5) {
	case 0:
		return 1
	case 1:
		return uint64(now + 5_000_000)
	case 2:
		return uint64(now + 300_000)
	default:
		return uint64(now)
	}
}

// carryOut sends o to the server and returns the answer in the model's words, and
// the server's time.
func carryOut(ctx context.Context, b driver.Backend, c *driver.Claim, o sim.Operation) (sim.Reply, time.Time) {
	claim := *c
	claim.Floor = o.Floor
	claim.Grant.Token = o.Value
	var g driver.Grant
	var err error
	switch o.Op {
	case sim.Acquire:
		g, err = b.Acquire(ctx, claim)
		if err == nil {
			c.Grant = g
		}
	case sim.Renew:
		g, err = b.Renew(ctx, claim)
	default:
		err = b.Release(ctx, claim)
	}
	held := (*driver.HeldError)(nil)
	quarantine := (*redis.QuarantineError)(nil)
	switch {
	case err == nil:
		return sim.Reply{Code: sim.Done, Value: g.Token}, g.Now
	case errors.As(err, &quarantine):
		return sim.Reply{Code: sim.Quarantined}, time.Time{}
	case errors.As(err, &held):
		return sim.Reply{Code: sim.Busy, Last: held.Last}, held.Now
	case errors.Is(err, driver.ErrLost):
		return sim.Reply{Code: sim.NotYours}, time.Time{}
	}
	return sim.Reply{Code: sim.Died}, time.Time{}
}
