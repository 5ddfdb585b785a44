package goredis_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/redis"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

// frozen are the scripts of each protocol version, as its first clients had them,
// and the sum of them all. They are never changed: others may be running them.
var frozen = []struct{ dir, sum string }{
	{"testdata/protocol-1", "f9a6c1fb6834ff86467abe5f686e4e4430a45fad"},
}

// An older node runs the scripts of an older version.
type older struct {
	redis.Node
	sources map[string]string // by the sums of the current scripts
	ran     *atomic.Int64
}

// EvalSHA implements redis.Node.
func (o older) EvalSHA(ctx context.Context, sha string, keys []string, args ...any) (any, error) {
	source, ok := o.sources[sha]
	if !ok {
		return o.Node.EvalSHA(ctx, sha, keys, args...)
	}
	o.ran.Add(1)
	if err := asInVersion1(keys, args); err != nil {
		return nil, err
	}
	return o.Node.Eval(ctx, source, keys, args...)
}

// asInVersion1 reports names and arguments that are not what the clients of version 1
// send: an old client makes them itself.
func asInVersion1(keys []string, args []any) error {
	tagged := keys[0]
	if !regexp.MustCompile(`^[^{]*\{[^}]+\}`).MatchString(tagged) {
		tagged = "{" + tagged + "}"
	}
	if want := []string{keys[0], "pawl.line:" + tagged, "pawl.shares:" + tagged, "pawl.claims:" + tagged, "pawl.fence:" + tagged}; !slices.Equal(keys, want) {
		return fmt.Errorf("version 1 has the keys %q, not %q", want, keys)
	}
	if len(args) == 10 {
		id, _ := driver.ParseID(args[0].(string))
		if args[8] != "pawl:wake:"+id.Client {
			return fmt.Errorf("version 1 has the channel pawl:wake:%s, not %v", id.Client, args[8])
		}
	}
	return nil
}

// readFrozen returns the scripts in dir by the sums of the current ones.
func readFrozen(t *testing.T, dir string) map[string]string {
	sources := make(map[string]string)
	paths, _ := filepath.Glob(dir + "/*.lua")
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		current, err := os.ReadFile("../scripts/" + filepath.Base(path))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha1.Sum(current)
		sources[hex.EncodeToString(sum[:])] = string(source)
	}
	if len(sources) != 5 {
		t.Fatalf("%s: got %d scripts, want 5", dir, len(sources))
	}
	return sources
}

// mixed returns clients of the server at addr: one in two runs the scripts in dir.
func mixed(t *testing.T, dir string) (connect func(addr string) *client, ran *atomic.Int64) {
	sources, ran := readFrozen(t, dir), new(atomic.Int64)
	var n atomic.Int64
	return func(addr string) *client {
		rdb := goredis.NewClient(&goredis.Options{Addr: addr})
		node := adapter.NewNode(rdb)
		if n.Add(1)%2 == 1 {
			node = older{node, sources, ran}
		}
		b, err := redis.New(node, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			b.Close()
			rdb.Close()
		})
		return &client{Backend: b, rdb: rdb, ids: driver.NewIdentity("host:1")}
	}, ran
}

// Clients of an older version and of this one on the same keys keep all that
// clients of one version keep.
func TestConformanceOfTwoVersions(t *testing.T) {
	for _, version := range frozen {
		t.Run(filepath.Base(version.dir), func(t *testing.T) {
			t.Parallel()
			server := testserver.StartRedis(t, testserver.RedisOptions{})
			connect, ran := mixed(t, version.dir)
			t.Run("suite", func(t *testing.T) {
				drivertest.Run(t, drivertest.Harness{
					New: func(t *testing.T) drivertest.Store {
						proxies := make(map[driver.Backend]*testserver.Proxy)
						return drivertest.Store{
							Connect: func() driver.Backend {
								p := testserver.StartProxy(t, server.Addr)
								b := connect(p.Addr).Backend
								proxies[b] = p
								return b
							},
							Stall: func(b driver.Backend, d time.Duration) { proxies[b].Hold(testserver.Requests, d) },
						}
					},
				})
			})
			if ran.Load() < 100 {
				t.Errorf("the older scripts ran %d times", ran.Load())
			}
		})
	}
}

// Each version waits in the other's line, is called by the other's release, and
// gets the greater token.
func TestVersionsHandOverToEachOther(t *testing.T) {
	for _, version := range frozen {
		s := testserver.StartRedis(t, testserver.RedisOptions{})
		connect, _ := mixed(t, version.dir)
		old, current := connect(s.Addr), connect(s.Addr)
		heard := current.rdb.PSubscribe(t.Context(), "pawl:wake:*")
		defer heard.Close()
		if _, err := heard.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, share := range []bool{false, true} {
			// The claims of both, by turns, in one line.
			claim := func(c *client) driver.Claim {
				m := c.mutex(fmt.Sprint("k", share))
				if share {
					m.Weight, m.Capacity = 2, 3
				}
				return m
			}
			held, by := old.must(t, claim(old)), old
			var waiting []<-chan answer
			clients := []*client{current, old, current, current, old, old}
			for i, c := range clients {
				waiting = append(waiting, c.wait(t, claim(c)))
				c.awaitLine(t, held.Key, i+1)
			}
			for i, c := range clients {
				if _, err := c.Acquire(t.Context(), claim(c)); err == nil {
					t.Errorf("%s: share=%v: client %d was granted what another version holds", version.dir, share, i)
				}
				if _, err := by.Renew(t.Context(), held); err != nil {
					t.Errorf("%s: share=%v: Renew before hand-over %d: %v", version.dir, share, i, err)
				}
				state, err := c.Inspect(t.Context(), held.Key, 9)
				if err != nil || len(state.Holders) != 1+len(clients)-i || state.Holders[0].ID != held.ID || state.Holders[0].Foreign {
					t.Errorf("%s: share=%v: Inspect before hand-over %d: got %+v, %v", version.dir, share, i, state, err)
				}
				by.release(t, held)
				next := granted(t, waiting[i])
				if next.claim.Grant.Token <= held.Grant.Token {
					t.Errorf("%s: share=%v: token of hand-over %d: got %d, want more than %d", version.dir, share, i, next.claim.Grant.Token, held.Grant.Token)
				}
				for bound, cancel := context.WithTimeout(t.Context(), patience); ; {
					m, err := heard.ReceiveMessage(bound)
					if err != nil {
						t.Fatal(err)
					}
					if m.Payload == "go "+next.claim.ID {
						cancel()
						break
					}
				}
				held, by = next.claim, c
			}
			// A revocation by one reaches the holder of the other.
			other := old
			if by == old {
				other = current
			}
			if err := other.Revoke(t.Context(), held.Key, held.ID, driver.Notice{Force: true, By: "me", Why: "enough"}); err != nil {
				t.Errorf("%s: share=%v: Revoke: %v", version.dir, share, err)
			}
			_, err := by.Renew(t.Context(), held)
			if lost, ok := err.(*driver.LostError); !ok || lost.Reason != driver.Forced || lost.Notice == nil || lost.Notice.Why != "enough" {
				t.Errorf("%s: share=%v: Renew of what the other version has revoked: got %v, want forced", version.dir, share, err)
			}
		}
	}
}

// The versions of docs/protocol.md are those that are frozen.
func TestEachVersionOfTheProtocolIsFrozen(t *testing.T) {
	doc, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^## Redis, protocol version (\d+)$`).FindSubmatch(doc)
	if m == nil || string(m[1]) != fmt.Sprint(len(frozen)) {
		t.Errorf("the version in docs/protocol.md: got %q, want %d, as many as are frozen", m, len(frozen))
	}
	for _, version := range frozen {
		sum := sha1.New()
		fs.WalkDir(os.DirFS(version.dir), ".", func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				b, _ := os.ReadFile(filepath.Join(version.dir, path))
				fmt.Fprintf(sum, "%s %d\n%s", path, len(b), b)
			}
			return err
		})
		if got := hex.EncodeToString(sum.Sum(nil)); got != version.sum {
			t.Errorf("%s has changed: got the sum %s, want %s: clients that run it can't be changed", version.dir, got, version.sum)
		}
	}
}
