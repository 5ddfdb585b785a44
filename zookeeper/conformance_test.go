package zookeeper_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/zookeeper"
)

func TestConformance(t *testing.T) {
	server := testserver.StartZooKeeper(t, 1)[0]
	drivertest.Run(t, drivertest.Harness{
		New: func(t *testing.T) drivertest.Store {
			proxies := make(map[driver.Backend]*testserver.Proxy)
			return drivertest.Store{
				Connect: func() driver.Backend {
					p := testserver.StartProxy(t, server.Addr)
					b := connect(t, p.Addr)
					proxies[b] = p
					return b
				},
				Stall: func(b driver.Backend, d time.Duration) { proxies[b].Hold(testserver.Requests, d) },
			}
		},
		TTL: time.Second,
		Skip: map[string]string{
			"Fairness": "its claims join the line in one process and ask again in another: here a place belongs to the session that took it. TestOrder is in its place",
		},
	})
}

// Claims of two sessions are granted in order of arrival, shares behind a writer too.
func TestOrder(t *testing.T) {
	server := testserver.StartZooKeeper(t, 1)[0]
	a, b := connect(t, server.Addr), connect(t, server.Addr)
	defer a.Close()
	defer b.Close()
	backends := []driver.Backend{a, b}
	var last uint64
	var claims []driver.Claim
	ids := driver.NewIdentity("t")
	for i := range 6 {
		c := driver.Claim{Key: "k", ID: ids.Next(), Weight: 1, Capacity: 1, TTL: 20 * time.Second, Queue: true}
		if i%3 == 2 {
			c.Capacity = driver.Unlimited
		}
		claims = append(claims, c)
		if g, err := backends[i%2].Acquire(t.Context(), c); (err == nil) != (i == 0) {
			t.Fatalf("number %d: got %+v, %v", i+1, g, err)
		}
	}
	for i, c := range claims {
		for j := len(claims) - 1; j > i; j-- { // whoever is behind asks first
			if g, err := backends[j%2].Acquire(t.Context(), claims[j]); !errors.Is(err, driver.ErrHeld) {
				t.Fatalf("number %d asks while number %d is ahead: got %+v, %v, want ErrHeld", j+1, i+1, g, err)
			}
		}
		g, err := backends[i%2].Acquire(t.Context(), c)
		if err != nil || g.Token <= last {
			t.Fatalf("number %d, with nobody ahead: got %+v, %v, want a token above %d", i+1, g, err, last)
		}
		last, c.Grant = g.Token, g
		if err := backends[i%2].Release(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

func connect(t *testing.T, addrs ...string) driver.Backend {
	t.Helper()
	b, err := zookeeper.New(addrs, &zookeeper.Options{SessionTimeout: 35 * time.Second, TickTime: testserver.ZooKeeperTick})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
