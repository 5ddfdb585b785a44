package zookeeper_test

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/zookeeper"
)

func TestConformance(t *testing.T) {
	shared := testserver.StartZooKeeper(t, 1)[0]
	drivertest.Run(t, drivertest.Harness{
		New: func(t *testing.T) drivertest.Store {
			server, crash := shared, (func())(nil)
			var backends []driver.Backend
			if strings.Contains(t.Name(), "/Durability/") { // others would not like what it does
				server = testserver.StartZooKeeper(t, 1)[0]
				crash = func() {
					server.Kill()
					server.Start()
					for _, b := range backends { // which have to notice that it is back
						await(t, "a client is connected again", func() error {
							_, err := b.Inspect(t.Context(), "none", 1)
							return err
						})
					}
				}
			}
			proxies := make(map[driver.Backend]*testserver.Proxy)
			return drivertest.Store{
				Connect: func() driver.Backend {
					p := testserver.StartProxy(t, server.Addr)
					b := connect(t, p.Addr)
					proxies[b] = p
					backends = append(backends, b)
					return b
				},
				Stall: func(b driver.Backend, d time.Duration) { proxies[b].Hold(testserver.Requests, d) },
				Crash: crash,
			}
		},
		TTL: 600 * time.Millisecond,
	})
}

// connect returns a backend whose session is longer than any test has patience for.
func connect(t *testing.T, addrs ...string) driver.Backend {
	t.Helper()
	b, err := zookeeper.New(addrs, &zookeeper.Options{SessionTimeout: 40 * time.Second, TickTime: testserver.ZooKeeperTick})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// await calls done until it returns no error.
func await(t *testing.T, what string, done func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err = done(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not after 30s: %v", what, err)
}

// TestMain lets more tests run at once than there are processors: they wait for
// claims to end most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		flag.Set("test.parallel", "4")
	}
	os.Exit(m.Run())
}
