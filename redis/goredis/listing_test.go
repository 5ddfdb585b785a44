package goredis_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlock/pawl/internal/testserver"
)

// Among many keys of others, a million in a soak, those who hold are found in steps
// that are small and take the server no time to speak of: it has other clients.
// Case S04.
func TestListDoesNotStopTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("fills a server")
	}
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	keys := 200_000
	if os.Getenv("PAWL_SOAK") == "1" {
		keys *= 5
	}
	s.Do("DEBUG", "POPULATE", keys, "lack", 1)
	c := newClient(t, s.Addr)
	const locks = 20
	for i := range locks {
		c.must(t, c.mutex(fmt.Sprint("job-", i)))
	}
	s.Do("CONFIG", "RESETSTAT")
	ctx, stop := context.WithCancel(t.Context())
	var pings []time.Duration
	var pinging sync.WaitGroup
	pinging.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			if _, err := s.Try("PING"); err == nil {
				pings = append(pings, time.Since(began))
			}
		}
	})
	began, found := time.Now(), 0
	for _, err := range c.List(t.Context(), "job-") {
		if err != nil {
			t.Fatal(err)
		}
		found++
	}
	took := time.Since(began)
	stop()
	pinging.Wait()
	if found != locks {
		t.Errorf("List: got %d holders, want %d", found, locks)
	}
	stats := s.Do("INFO", "commandstats").(string)
	var calls, micros int
	_, scan, _ := strings.Cut(stats, "cmdstat_scan:")
	if _, err := fmt.Sscanf(scan, "calls=%d,usec=%d,", &calls, &micros); err != nil || strings.Contains(stats, "cmdstat_keys:") {
		t.Fatalf("commands: got %s, want SCAN and not KEYS", stats)
	}
	if calls < keys/1000 || micros/calls > 10_000 {
		t.Errorf("%d keys in %d steps of %d µs, want at most 1000 keys and 10 ms in one", keys, calls, micros/calls)
	}
	slices.Sort(pings)
	t.Logf("List took %v, in %d steps of %d µs; meanwhile %d PINGs, p99 %v", took, calls, micros/calls, len(pings), pings[len(pings)*99/100])
}
