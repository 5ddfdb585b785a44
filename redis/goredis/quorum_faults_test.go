package goredis_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/driver/drivertest"
	"github.com/pawlock/pawl/fence"
	"github.com/pawlock/pawl/fence/fenceredis"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/quorum"
	"github.com/pawlock/pawl/redis"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

var faultsFor = flag.Duration("quorum.faults", 0, "how long the servers of a quorum are made to fail; 0 for 15 s, or a minute in the soak")

// quorumChild has the servers' addresses, the resource's last, in the processes
// that this test starts, how long they work, and whether with a quarantine.
const quorumChild = "PAWL_TEST_QUORUM_CHILD"

// Servers are killed and come back empty or with an old snapshot, are stopped, are
// flushed, one about every second: what the clients of five processes saw is
// sound. Without the restart quarantine two may hold at once, and the guard has to
// tell them apart; it never accepts a write of the older. With it no two do.
// Case R07.
func TestTokensRiseWhileServersFail(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 15 s")
	}
	if *faultsFor == 0 {
		*faultsFor = 15 * time.Second
		if os.Getenv("PAWL_SOAK") != "" {
			*faultsFor = time.Minute
		}
	}
	for _, guarded := range []bool{false, true} {
		t.Run(fmt.Sprintf("quarantine=%v", guarded), func(t *testing.T) {
			t.Parallel()
			testTokensRise(t, guarded)
		})
	}
}

func testTokensRise(t *testing.T, guarded bool) {
	r := startRedlock(t, 5)
	if guarded {
		for _, s := range r.servers {
			newGuarded(t, s.Addr, brief) // begins the quarantine
		}
	}
	resource := testserver.StartRedis(t, testserver.RedisOptions{})
	var (
		history drivertest.History
		all     sync.WaitGroup
		faults  = make(map[string]int)
		stop    = time.After(*faultsFor)
	)
	for i := range 5 {
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestQuorumProcess$")
			cmd.Env = append(os.Environ(), quorumChild+"="+strings.Join(append(r.addrs(), resource.Addr), ",")+fmt.Sprintf(" %v %v", *faultsFor, guarded))
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("process %d: %v: %s%s", i, err, out, &stderr)
			}
			record(&history, string(out))
		})
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	harm(r, rand.New(rand.NewPCG(seed, 0)), stop, faults)
	all.Wait()

	rdb := goredis.NewClient(&goredis.Options{Addr: resource.Addr})
	defer rdb.Close()
	writes, err := rdb.LRange(context.Background(), "writes", 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	rejected := 0
	for _, w := range writes {
		x := drivertest.Write{Key: "k"}
		if _, err := fmt.Sscanf(w, "%d %t", &x.Token, &x.Accepted); err != nil {
			t.Fatalf("write %q: %v", w, err)
		}
		if !x.Accepted {
			rejected++
		}
		history.Wrote(x)
	}
	overlaps := 0
	for _, v := range history.Check() {
		if v.Property == drivertest.NoOverlap && !guarded {
			overlaps++ // nothing keeps a node that has forgotten a lease from granting
			continue
		}
		t.Error(v)
	}
	t.Logf("%d leases, %d writes, %d of them rejected, %d overlaps, faults %v", history.Holds(), len(writes), rejected, overlaps, faults)
	if history.Holds() < 10 {
		t.Errorf("leases: got %d, want at least 10", history.Holds())
	}
}

// harm makes servers fail until stop, and heals them.
func harm(r *redlock, random *rand.Rand, stop <-chan time.Time, faults map[string]int) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(600*time.Millisecond + time.Duration(random.Int64N(int64(800*time.Millisecond)))):
		}
		s := r.servers[random.IntN(len(r.servers))]
		switch random.IntN(4) {
		case 0, 3:
			if random.IntN(2) == 0 {
				faults["killed"]++
				dir := s.Do("CONFIG", "GET", "dir").([]any)[1].(string)
				_ = os.Remove(filepath.Join(dir, "dump.rdb"))
			} else {
				faults["killed after a snapshot"]++
				s.Do("SAVE")
				time.Sleep(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
			}
			s.Kill()
			time.Sleep(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
			s.Start()
		case 1:
			faults["stopped"]++
			s.Stop()
			time.Sleep(200*time.Millisecond + time.Duration(random.Int64N(int64(time.Second))))
			s.Continue()
		case 2:
			many := 1 + 2*random.IntN(2) // one, or a majority
			faults["flushed"] += many
			for _, i := range random.Perm(len(r.servers))[:many] {
				r.servers[i].Do("FLUSHALL")
			}
		}
	}
}

// record adds the leases of a process to the history.
func record(history *drivertest.History, out string) {
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		var id string
		var token uint64
		var sent, answered, ended int64
		if n, _ := fmt.Sscanf(lines.Text(), "lease %s %d %d %d %d", &id, &token, &sent, &answered, &ended); n != 5 {
			continue
		}
		c := driver.Claim{Key: "k", ID: id, Weight: 1, Capacity: 1, Grant: driver.Grant{Token: token, TTL: time.Hour}}
		h := history.Granted(c, time.Unix(0, sent), time.Unix(0, answered))
		history.Ended(h, time.Unix(0, ended))
	}
}

// TestQuorumProcess is a client process of the test above, and of no use alone.
func TestQuorumProcess(t *testing.T) {
	words := strings.Fields(os.Getenv(quorumChild))
	if len(words) != 3 {
		t.Skip("is run by TestTokensRiseWhileServersFail")
	}
	addrs := strings.Split(words[0], ",")
	d, err := time.ParseDuration(words[1])
	if err != nil {
		t.Fatal(err)
	}
	var options *redis.Options
	if words[2] == "true" {
		options = &redis.Options{Quarantine: &brief}
	}
	resource := goredis.NewClient(&goredis.Options{Addr: addrs[len(addrs)-1]})
	defer resource.Close()
	q := quorumOf(t, nodesWith(t, addrs[:len(addrs)-1], options), &quorum.Options{Timeout: 300 * time.Millisecond})
	client, err := pawl.New(q, &pawl.Options{TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for end := time.Now().Add(d); time.Now().Before(end); {
		ctx, cancel := context.WithDeadline(context.Background(), end.Add(time.Second))
		sent := time.Now()
		lease, err := client.Mutex("k").Acquire(ctx)
		cancel()
		if err != nil {
			continue // an outage of a moment
		}
		answered := time.Now()
		lost := make(chan time.Time, 1)
		stop := context.AfterFunc(lease.Context(), func() { lost <- time.Now() })
		work(lease, resource)
		ended := time.Now()
		if !stop() {
			ended = <-lost
		}
		_ = lease.Release(context.Background())
		fmt.Println("lease", lease.Holder(), lease.Token(), sent.UnixNano(), answered.UnixNano(), ended.UnixNano())
	}
}

// work writes with the lease for a while, or until it ends.
func work(lease *pawl.Lease, resource *goredis.Client) {
	for range 1 + rand.IntN(6) {
		if !lease.Valid() {
			return
		}
		write(resource, pawl.TokenOf(lease))
		select {
		case <-lease.Context().Done():
			return
		case <-time.After(time.Duration(rand.Int64N(int64(100 * time.Millisecond)))):
		}
	}
}

// write writes to the resource, by way of its guard. The list of all writes has those
// that were accepted in the order in which they took place.
func write(resource *goredis.Client, token pawl.Token) {
	ctx := context.Background()
	err := fenceredis.New(adapter.NewNode(resource)).Do(ctx, "writes", token, func(ctx context.Context) error {
		fenceredis.Queue(ctx, []string{"writes"}, "RPUSH", "writes", fmt.Sprint(token.Number, true))
		return nil
	})
	if errors.Is(err, fence.ErrStale) {
		_ = resource.RPush(ctx, "writes", fmt.Sprint(token.Number, false)).Err()
	}
}
