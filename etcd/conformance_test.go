package etcd_test

import (
	"context"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
	"github.com/pawlock/pawl/etcd"
	"github.com/pawlock/pawl/internal/testserver"
)

func TestConformance(t *testing.T) {
	releases(t, func(t *testing.T, current bool) { testConformance(t, testserver.EtcdOptions{Current: current}) })
}

// releases runs a test on the etcd of Debian, an old one, and on the current one.
func releases(t *testing.T, test func(t *testing.T, current bool)) {
	t.Parallel()
	for name, current := range map[string]bool{"installed": false, "current": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, current)
		})
	}
}

func testConformance(t *testing.T, o testserver.EtcdOptions) {
	shared := testserver.StartEtcd(t, o)[0]
	drivertest.Run(t, drivertest.Harness{
		New: func(t *testing.T) drivertest.Store {
			server := shared
			crashes := strings.Contains(t.Name(), "/Durability/")
			if crashes {
				server = testserver.StartEtcd(t, o)[0] // alone: a crash is felt by all
			}
			proxies := make(map[driver.Backend]*testserver.Proxy)
			var clients []*clientv3.Client
			return drivertest.Store{
				Connect: func() driver.Backend {
					p := testserver.StartProxy(t, server.Addr)
					client := connect(t, p.Addr)
					clients = append(clients, client)
					b := etcd.New(client, nil)
					proxies[b] = p
					return b
				},
				Stall: func(b driver.Backend, d time.Duration) { proxies[b].Hold(testserver.Requests, d) },
				Crash: func() {
					server.Kill()
					server.Start()
					for _, c := range clients {
						await(t, c)
					}
				},
			}
		},
		TTL: 3 * time.Second, Prompt: 15 * time.Second,
	})
}

// connect returns a client of the members, which ends with the test.
func connect(t testing.TB, addrs ...string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: addrs, DialTimeout: 10 * time.Second, Logger: zap.NewNop(),
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// await waits until the client gets answers.
func await(t testing.TB, client *clientv3.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		if _, err := client.Get(ctx, "x"); err == nil {
			return
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
