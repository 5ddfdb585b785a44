package goredis_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

// childEnv has the server's address in the processes that this test starts.
const childEnv = "PAWL_TEST_REDIS_CHILD"

func TestMain(m *testing.M) {
	if addr := os.Getenv(childEnv); addr != "" {
		rdb := goredis.NewClient(&goredis.Options{Addr: addr})
		holds, err := contend(context.Background(), rdb, 8, 5*time.Second)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for _, n := range holds {
			fmt.Println("holds", n)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// contend lets so many goroutines lock the same key again and again, and
// returns how often each held it. Whoever holds says so in the store, in
// commands of its own, so that two who are inside at the same time are seen by
// a count other than 1, and tokens out of order by the list that they leave.
func contend(ctx context.Context, rdb *goredis.Client, goroutines int, d time.Duration) ([]int, error) {
	b := adapter.New(rdb)
	defer b.Close()
	c := &client{Backend: b, rdb: rdb, ids: driver.NewIdentity("host:" + strconv.Itoa(os.Getpid()))}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, fmt.Errorf("a lock was waited for in vain"))
	defer cancel()
	until := time.Now().Add(d)
	holds := make([]int, goroutines)
	failed := make(chan error, goroutines)
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() {
			for time.Now().Before(until) {
				claim := c.mutex("k")
				g, err := c.lock(ctx, claim)
				if err != nil {
					failed <- fmt.Errorf("lock: %w", err)
					return
				}
				claim.Grant = g
				if n, err := rdb.Incr(ctx, "inside").Result(); n != 1 || err != nil {
					failed <- fmt.Errorf("%d are inside at the same time, want 1 (%v)", n, err)
					return
				}
				rdb.RPush(ctx, "tokens", g.Token)
				if err := rdb.Decr(ctx, "inside").Err(); err != nil {
					failed <- err
					return
				}
				if err := c.Release(ctx, claim); err != nil {
					failed <- fmt.Errorf("release: %w", err)
					return
				}
				holds[i]++
			}
		})
	}
	all.Wait()
	close(failed)
	return holds, <-failed
}

// Case E10.
func TestManyProcessesOnOneKey(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 5 s")
	}
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	const processes = 7
	var (
		mu    sync.Mutex
		holds []int // guarded by mu
		all   sync.WaitGroup
	)
	for range processes {
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
			cmd.Env = append(os.Environ(), childEnv+"="+s.Addr)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("a process: %v: %s", err, &stderr)
			}
			mu.Lock()
			defer mu.Unlock()
			for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
				var n int
				if _, err := fmt.Sscanf(lines.Text(), "holds %d", &n); err == nil {
					holds = append(holds, n)
				}
			}
		})
	}
	rdb := goredis.NewClient(&goredis.Options{Addr: s.Addr})
	defer rdb.Close()
	mine, err := contend(t.Context(), rdb, 64, 5*time.Second)
	if err != nil {
		t.Error(err)
	}
	all.Wait()
	holds = append(holds, mine...)
	if len(holds) != 64+8*processes {
		t.Fatalf("got %d claimants, want %d", len(holds), 64+8*processes)
	}
	total := 0
	for _, n := range holds {
		total += n
	}
	tokens := s.Do("LRANGE", "tokens", "0", "-1").([]any)
	if len(tokens) != total {
		t.Errorf("got %d tokens for %d holds", len(tokens), total)
	}
	last := uint64(0)
	for i, v := range tokens {
		token, err := strconv.ParseUint(v.(string), 10, 64)
		if err != nil || token <= last {
			t.Fatalf("token %d is %v after %d, want a greater one", i, v, last)
		}
		last = token
	}
	t.Logf("%d holds by %d claimants, %d to %d each", total, len(holds), slices.Min(holds), slices.Max(holds))
	if slices.Min(holds) == 0 {
		t.Errorf("holds of each: got %v, want none to be starved", holds)
	}
}
