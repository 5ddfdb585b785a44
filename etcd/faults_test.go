package etcd_test

import (
	"context"
	"flag"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
	"github.com/pawlock/pawl/etcd"
	"github.com/pawlock/pawl/internal/testserver"
)

var faultsFor = flag.Duration("etcd.faults", 15*time.Second, "how long the members of a cluster are made to fail")

// Most tests here wait for something, and the number of processors is no reason
// to wait for one after the other.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("6")
	}
	os.Exit(m.Run())
}

// A site is a client program on its own wires to the members.
type site struct {
	client  *pawl.Client
	proxies []*testserver.Proxy
}

// A guard is a resource that checks tokens, one number for each key.
type guard struct {
	history *drivertest.History
	mu      sync.Mutex
	top     map[string]uint64 // guarded by mu
}

func (g *guard) write(key string, token uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ok := token >= g.top[key]
	if ok {
		g.top[key] = token
	}
	g.history.Wrote(drivertest.Write{Key: key, Token: token, Accepted: ok})
}

// Members of a cluster of three are killed and come back, and freeze for longer
// than an election takes, the leader or another; clients are cut off and lose
// answers; the history is compacted. At no instant do two rely on the same unit,
// no two grants share a token, and tokens rise in the order of the grants.
func TestNobodyOverlapsWhileMembersFail(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 15 s")
	}
	t.Parallel()
	members := threeMembers(t)
	const sites = 5
	var (
		history drivertest.History
		all     sync.WaitGroup
		list    []*site
		seed    = rand.Uint64()
		end     = time.Now().Add(*faultsFor)
		units   = map[string]int{"mutex": 1, "semaphore": 2}
		keys    = slices.Sorted(maps.Keys(units))
		g       = &guard{history: &history, top: make(map[string]uint64)}
	)
	t.Logf("seed %d", seed)
	for i := range sites {
		s := new(site)
		var through []string
		for _, m := range members {
			p := testserver.StartProxy(t, m.Addr)
			s.proxies, through = append(s.proxies, p), append(through, p.Addr)
		}
		s.client = newClient(t, etcd.New(connect(t, through...), nil), 3*time.Second)
		list = append(list, s)
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() {
			for time.Now().Before(end) {
				key := keys[random.IntN(len(keys))]
				s.once(&history, g, random, key, units[key], end.Add(5*time.Second))
			}
		})
	}
	faults := harm(t, members, list, rand.New(rand.NewPCG(seed, sites)), end)
	all.Wait()
	for _, v := range history.Check() {
		t.Error(v)
	}
	t.Logf("%d leases, faults %v", history.Holds(), faults)
	if history.Holds() < 10 {
		t.Errorf("leases: got %d, want at least 10", history.Holds())
	}
}

// once acquires, works and releases, if it can.
func (s *site) once(history *drivertest.History, g *guard, random *rand.Rand, key string, units int, end time.Time) {
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	sent := time.Now()
	lease, err := s.client.Semaphore(key, units).Acquire(ctx)
	if err != nil {
		return // an outage
	}
	c := driver.Claim{Key: key, ID: lease.Holder(), Weight: 1, Capacity: units, Grant: driver.Grant{Token: lease.Token(), TTL: time.Hour}}
	hold := history.Granted(c, sent, time.Now())
	lost := make(chan time.Time, 1)
	stop := context.AfterFunc(lease.Context(), func() { lost <- time.Now() })
	for range 1 + random.IntN(5) {
		if !lease.Valid() {
			break
		}
		if units == 1 { // the tokens of those who share don't guard against each other
			g.write(key, lease.Token())
		}
		pause := 200 * time.Millisecond
		if random.IntN(10) == 0 {
			pause = 4 * time.Second // beyond the TTL
		}
		select {
		case <-lease.Context().Done():
		case <-time.After(time.Duration(random.Int64N(int64(pause)))):
		}
	}
	ended := time.Now()
	if !stop() {
		ended = <-lost
	}
	history.Ended(hold, ended)
	_ = lease.Release(context.Background())
}

// harm makes members and clients fail until end, one at a time, and heals them.
func harm(t *testing.T, members []*testserver.Etcd, sites []*site, random *rand.Rand, end time.Time) map[string]int {
	faults := make(map[string]int)
	store := connect(t, addrs(members)...)
	pause := func(least, most time.Duration) { time.Sleep(least + time.Duration(random.Int64N(int64(most-least)))) }
	for time.Now().Before(end) {
		pause(300*time.Millisecond, time.Second)
		m, s := members[random.IntN(len(members))], sites[random.IntN(len(sites))]
		who := "a follower"
		if leads(m, store) {
			who = "the leader"
		}
		switch random.IntN(5) {
		case 0:
			faults["killed "+who]++
			m.Kill()
			pause(0, 2*time.Second)
			m.Start()
		case 1:
			faults["froze "+who]++
			m.Stop()
			pause(200*time.Millisecond, 4*time.Second)
			m.Continue()
		case 2:
			faults["cut a client off"]++
			for _, p := range s.proxies {
				p.Blackhole()
			}
			pause(time.Second, 5*time.Second)
			for _, p := range s.proxies {
				p.Heal()
			}
		case 3:
			faults["lost answers"]++
			for _, p := range s.proxies {
				p.Drop(testserver.Replies)
			}
			pause(50*time.Millisecond, 500*time.Millisecond)
			for _, p := range s.proxies {
				p.Heal()
				p.Reset()
			}
		case 4:
			faults["compacted"]++
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			if resp, err := store.Get(ctx, "x"); err == nil {
				_, _ = store.Compact(ctx, resp.Header.Revision)
			}
			cancel()
		}
	}
	return faults
}

// leads asks a member whether it is the leader.
func leads(m *testserver.Etcd, store *clientv3.Client) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	st, err := store.Status(ctx, m.Addr)
	return err == nil && st.Leader == st.Header.MemberId
}
