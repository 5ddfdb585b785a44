package goredis_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/redis"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

// Case N07.
func TestConformance(t *testing.T) { testConformance(t, nil) }

// A quarantine that is over changes nothing but the tokens.
func TestConformanceAfterAQuarantine(t *testing.T) {
	if testing.Short() {
		t.Skip("is the same again")
	}
	testConformance(t, &redis.Options{Quarantine: &redis.Quarantine{MaxTTL: time.Hour}})
}

func testConformance(t *testing.T, o *redis.Options) {
	t.Parallel()
	server := testserver.StartRedis(t, testserver.RedisOptions{})
	if o != nil {
		newGuarded(t, server.Addr, *o.Quarantine) // begins it
	}
	drivertest.Run(t, drivertest.Harness{
		New: func(t *testing.T) drivertest.Store {
			proxies := make(map[driver.Backend]*testserver.Proxy)
			return drivertest.Store{
				Connect: func() driver.Backend {
					p := testserver.StartProxy(t, server.Addr)
					rdb := goredis.NewClient(&goredis.Options{Addr: p.Addr})
					t.Cleanup(func() { rdb.Close() })
					b, err := redis.New(adapter.NewNode(rdb), o)
					if err != nil {
						t.Fatal(err)
					}
					proxies[b] = p
					return b
				},
				Stall: func(b driver.Backend, d time.Duration) { proxies[b].Hold(testserver.Requests, d) },
			}
		},
	})
}

// The same scripts, in a bubble: every wait takes exactly as long as it should.
func TestConformanceInABubble(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		New: func(t *testing.T) drivertest.Store {
			m := newMiniredis(t)
			lines := make(map[driver.Backend]*line)
			return drivertest.Store{
				Connect: func() driver.Backend {
					l := &line{dial: m.Dial}
					b := adapter.New(dialMiniredis(t, l.Dial))
					lines[b] = l
					return b
				},
				Stall: func(b driver.Backend, d time.Duration) { lines[b].hold(d) },
			}
		},
		Wrap:   synctest.Test,
		TTL:    time.Second,
		Prompt: time.Second, // the head of the line has as long to answer
	})
}

// newMiniredis returns a server in this process whose keys expire by the clock,
// fake or not.
func newMiniredis(t testing.TB) *miniredis.Miniredis {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	return m
}

// dialMiniredis returns a client of the server that dial reaches.
func dialMiniredis(t testing.TB, dial func() (net.Conn, error)) *goredis.Client {
	rdb := goredis.NewClient(&goredis.Options{
		Addr:            "127.0.0.1:1", // an address, not a name: go-redis looks names up
		Protocol:        2,
		DisableIdentity: true,
		Dialer:          func(context.Context, string, string) (net.Conn, error) { return dial() },
	})
	rdb.AddHook(new(shebangs))
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// A line connects clients to a server in this process.
type line struct {
	dial func() (net.Conn, error)

	mu   sync.Mutex
	held time.Time // until when requests are kept back; guarded by mu
}

func (l *line) hold(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = time.Now().Add(d)
}

// Dial connects.
func (l *line) Dial() (net.Conn, error) {
	c, err := l.dial()
	if err != nil {
		return nil, err
	}
	return &slowConn{c, l}, nil
}

type slowConn struct {
	net.Conn
	line *line
}

// Write implements net.Conn. It delivers late what comes while the line is held.
func (c *slowConn) Write(p []byte) (int, error) {
	c.line.mu.Lock()
	wait := time.Until(c.line.held)
	c.line.mu.Unlock()
	time.Sleep(wait)
	return c.Conn.Write(p)
}
