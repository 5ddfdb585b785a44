package goredis_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/quorum"
)

// BenchmarkQuorum acquires and releases a key that nobody else wants, on five
// servers: all well, or one of them stopped. It reports the share of the acquires
// that took one round and, without contention for the processor, how long one in
// a hundred takes at least.
func BenchmarkQuorum(b *testing.B) {
	for _, sick := range []int{0, 1} {
		for _, goroutines := range []int{1, 16} {
			b.Run(fmt.Sprintf("stopped=%d/goroutines=%d", sick, goroutines), func(b *testing.B) {
				r := startRedlock(b, 5)
				var rounds, acquires atomic.Int64
				q := quorumOf(b, nodesAt(b, r.addrs()), &quorum.Options{Observer: &quorum.Observer{Decided: func(d quorum.Decision) {
					if d.Op == "acquire" {
						acquires.Add(1)
						rounds.Add(int64(d.Rounds))
					}
				}}})
				ids := driver.NewIdentity("bench")
				var acquired, released []time.Duration
				cycle := func(key string) {
					c := driver.Claim{Key: key, ID: ids.Next(), Weight: 1, Capacity: 1, TTL: 10 * time.Second}
					began := time.Now()
					g, err := q.Acquire(context.Background(), c)
					if err != nil {
						b.Fatal(err)
					}
					c.Grant = g
					had := time.Now()
					if err := q.Release(context.Background(), c); err != nil {
						b.Fatal(err)
					}
					if goroutines == 1 {
						acquired, released = append(acquired, had.Sub(began)), append(released, time.Since(had))
					}
				}
				cycle("warm")
				for _, s := range r.servers[:sick] {
					s.Stop()
					b.Cleanup(s.Continue)
				}
				b.SetParallelism((goroutines + 1) / 2)
				b.ResetTimer()
				if goroutines == 1 {
					for range b.N {
						cycle("k")
					}
				} else {
					var n atomic.Int64
					b.RunParallel(func(pb *testing.PB) {
						key := fmt.Sprint("k", n.Add(1))
						for pb.Next() {
							cycle(key)
						}
					})
				}
				b.StopTimer()
				if goroutines == 1 {
					for name, took := range map[string][]time.Duration{"acquire": acquired, "release": released} {
						slices.Sort(took)
						b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-"+name+"-µs")
					}
				}
				b.ReportMetric(100*float64(2*acquires.Load()-rounds.Load())/float64(acquires.Load()), "%one-round")
			})
		}
	}
}
