package goredis_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/quorum"
)

// Two of five servers answer after anything up to 100 ms, in both directions, so
// that most requests to them are still under way when the others have decided: a
// second after the last release no server has a key of ours.
func TestNoKeyIsLeftASecondAfterTheRelease(t *testing.T) {
	r := startRedlock(t, 5)
	addrs := r.addrs()
	var slow []*testserver.Proxy
	for i := range 2 {
		p := testserver.StartProxy(t, addrs[i])
		addrs[i] = p.Addr
		slow = append(slow, p)
	}
	q := quorumOf(t, nodesAt(t, addrs), &quorum.Options{Timeout: time.Second})
	ids := driver.NewIdentity("t")
	const locks = 50
	for i := range locks {
		if i > 0 { // the first opens the connections, which takes several exchanges
			for _, p := range slow {
				p.Delay(testserver.Requests, rand.N(50*time.Millisecond))
				p.Delay(testserver.Replies, rand.N(50*time.Millisecond))
			}
			time.Sleep(20 * time.Millisecond)
		}
		c := driver.Claim{Key: fmt.Sprintf("k%d", i), ID: ids.Next(), Weight: 1, Capacity: 1, TTL: time.Minute}
		g, err := q.Acquire(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		c.Grant = g
		if err := q.Release(context.Background(), c); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (keys []string) {
		for _, s := range r.servers {
			rdb := goredis.NewClient(&goredis.Options{Addr: s.Addr})
			found, err := rdb.Keys(context.Background(), "lock:*").Result()
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, found...)
			rdb.Close()
		}
		return keys
	}
	time.Sleep(time.Second)
	if keys := left(); len(keys) > 0 {
		t.Errorf("keys on five servers a second after %d locks were released: got %q, want none", locks, keys)
	}
}
