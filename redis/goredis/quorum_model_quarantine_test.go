package goredis_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/redis"
	adapter "github.com/pawlock/pawl/redis/goredis"
	"github.com/pawlock/pawl/sim"
)

// A twin is one key at a server, under a prefix and so with a quarantine of its own,
// and the model of it.
type twin struct {
	prefix  string
	backend driver.Backend
	model   *sim.Model
	claims  []driver.Claim
	unsure  bool // whether something had ended when the server was asked
}

// The simulator's node does what a server with a quarantine does, also when it was
// flushed, or restarted empty or with an old snapshot: while the quarantine lasts
// and after it.
func TestTheModelOfANodeWithAQuarantineIsLikeARealOne(t *testing.T) {
	t.Parallel()
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	rdb := goredis.NewClient(&goredis.Options{Addr: s.Addr, ContextTimeoutEnabled: true, PoolSize: 1})
	defer rdb.Close()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var twins []*twin
	for i := range 60 {
		twins = append(twins, newTwin(t, rdb, s, fmt.Sprintf("t%d:", i)))
	}
	compared := make(map[sim.Code]int)
	play := func(rounds int) {
		for range rounds {
			for _, x := range twins {
				if !x.unsure {
					x.compare(t, r, s, compared)
				}
			}
		}
	}
	play(6)
	faults := []string{"flush", "restart empty", "restart with an old snapshot"}
	r.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	for _, fault := range faults {
		s.Do("SAVE")
		for _, x := range twins {
			x.model.Snapshot()
		}
		play(2) // what the snapshot does not have
		harmTwins(t, rdb, s, twins, fault)
		play(3)
		time.Sleep(sim.MaxTTL + sim.Slack + blur)
		play(6)
	}
	t.Logf("faults %v; answers compared: %v", faults, compared)
	for code, least := range map[sim.Code]int{sim.Done: 400, sim.Busy: 100, sim.NotYours: 50, sim.Quarantined: 50} {
		if compared[code] < least {
			t.Errorf("answers %q compared: got %d, want %d at least", code, compared[code], least)
		}
	}
}

func newTwin(t *testing.T, rdb *goredis.Client, s *testserver.Redis, prefix string) *twin {
	o := &redis.Options{Prefix: prefix, Quarantine: &redis.Quarantine{MaxTTL: sim.MaxTTL, Slack: sim.Slack}}
	if err := redis.Bootstrap(t.Context(), adapter.NewNode(rdb), o); err != nil {
		t.Fatal(err)
	}
	b, err := redis.New(adapter.NewNode(rdb), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	x := &twin{prefix: prefix, backend: b, model: sim.NewModel(true)}
	ids := driver.NewIdentity("model")
	for range 4 {
		x.claims = append(x.claims, driver.Claim{Key: "k", ID: ids.Next() + "~1", Weight: 1, Capacity: 1})
	}
	x.model.Bootstrap(x.marked(t, s))
	return x
}

// compare plays one random operation to both.
func (x *twin) compare(t *testing.T, r *rand.Rand, s *testserver.Redis, compared map[sim.Code]int) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := &x.claims[r.IntN(len(x.claims))]
	if c.TTL = sim.MaxTTL; r.IntN(4) == 0 {
		c.TTL = 50 * time.Millisecond
	}
	o := sim.Operation{Nonce: c.ID, TTL: c.TTL, Value: c.Grant.Token}
	operate(r, &o)
	sent := time.Now()
	got, told := carryOut(ctx, x.backend, c, o)
	if told.IsZero() {
		told = time.Now()
	}
	if got.Code == sim.Quarantined {
		if at := x.marked(t, s); at.After(sent.Add(-blur)) {
			told = at // it has begun with this request
		}
	}
	if x.unsure = x.model.Turns(sent.Add(-blur), time.Now().Add(blur)); !x.unsure {
		alike(t, x.prefix, o, got, x.model.Do(o, told))
		compared[got.Code]++
	}
}

// marked returns when the server wrote the twin's marker.
func (x *twin) marked(t *testing.T, s *testserver.Redis) time.Time {
	t.Helper()
	marker, _ := s.Do("GET", "pawl.node:"+x.prefix).(string)
	words := strings.Fields(marker)
	if len(words) < 4 {
		t.Fatalf("marker of %s: got %q, want at least 4 words", x.prefix, marker)
	}
	at, err := strconv.ParseInt(words[3], 10, 64)
	if err != nil {
		t.Fatalf("marker of %s: %v", x.prefix, err)
	}
	return time.UnixMicro(at)
}

// harmTwins lets the server lose what it has.
func harmTwins(t *testing.T, rdb *goredis.Client, s *testserver.Redis, twins []*twin, fault string) {
	if fault == "flush" {
		s.Do("FLUSHALL")
		for _, x := range twins {
			x.model.Flush()
		}
		return
	}
	if fault == "restart empty" {
		dir := s.Do("CONFIG", "GET", "dir").([]any)[1].(string)
		if err := os.Remove(filepath.Join(dir, "dump.rdb")); err != nil {
			t.Fatal(err)
		}
		for _, x := range twins {
			x.model.Forget()
		}
	}
	s.Kill()
	s.Start()
	for _, x := range twins {
		x.model.Restart(time.Now())
	}
	if err := rdb.Ping(t.Context()).Err(); err != nil { // over a new connection
		t.Fatal(err)
	}
}
