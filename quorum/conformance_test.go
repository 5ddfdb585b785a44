package quorum_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
	"github.com/pawlock/pawl/memory"
	"github.com/pawlock/pawl/quorum"
)

// A quorum keeps what it promises with all of its nodes, and with as many as may
// be dead, from the start or since it was made.
func TestConformance(t *testing.T) {
	for _, test := range []struct {
		nodes, dead, dying int
	}{{3, 0, 0}, {3, 1, 0}, {5, 0, 0}, {5, 2, 0}, {5, 0, 2}} {
		name := fmt.Sprintf("%dNodes%dDead%dDying", test.nodes, test.dead, test.dying)
		t.Run(name, func(t *testing.T) {
			drivertest.Run(t, drivertest.Harness{
				New: func(t *testing.T) drivertest.Store {
					c := newCluster(t, test.nodes)
					for i := range test.dead {
						c.servers[i].set(dead)
					}
					lines := make(map[driver.Backend][]*line)
					return drivertest.Store{
						Connect: func() driver.Backend {
							b, l := c.connect(t, nil)
							lines[b] = l
							for i := range test.dying {
								c.servers[test.dead+i].set(dead)
							}
							return b
						},
						Stall: func(b driver.Backend, d time.Duration) {
							for _, l := range lines[b] {
								l.stall(d)
							}
						},
					}
				},
				Wrap: synctest.Test,
			})
		})
	}
}

// The same with nodes that differ in how fast they are.
func TestConformanceOfUnequalNodes(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		New: func(t *testing.T) drivertest.Store {
			c := newCluster(t, 5)
			for i, s := range c.servers {
				s.delay = time.Duration(i) * time.Millisecond / 2
			}
			return drivertest.Store{Connect: func() driver.Backend {
				b, _ := c.connect(t, nil)
				return b
			}}
		},
		Wrap: synctest.Test,
	})
}

// A cluster is a number of servers in this process.
type cluster struct{ servers []*server }

func newCluster(t testing.TB, n int) *cluster {
	c := new(cluster)
	t.Cleanup(func() {
		for _, s := range c.servers {
			s.set(alive)
		}
		time.Sleep(5 * time.Second) // what Close did not wait for ends by itself
		for _, s := range c.servers {
			s.busy.Wait()
		}
	})
	for i := range n {
		c.servers = append(c.servers, newServer(string(rune('a'+i))))
	}
	return c
}

// connect returns a quorum of the servers, over lines of its own.
func (c *cluster) connect(t testing.TB, o *quorum.Options) (*quorum.Backend, []*line) {
	var lines []*line
	var nodes []quorum.Node
	for _, s := range c.servers {
		l := &line{Backend: memory.New(s.store), server: s}
		lines = append(lines, l)
		nodes = append(nodes, quorum.Node{Name: s.name, Backend: l})
	}
	b, err := quorum.New(nodes, o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() { b.Close() })
	return b, lines
}

// holds checks which of the servers have an exclusive claim on key.
func (c *cluster) holds(t testing.TB, key string, want ...int) {
	t.Helper()
	var got []int
	for i, s := range c.servers {
		st, err := memory.New(s.store).Inspect(context.Background(), key, 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(st.Holders) > 0 {
			got = append(got, i)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("servers that have %q: got %v, want %v", key, got, want)
	}
}
