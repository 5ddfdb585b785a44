package quorum_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/memory"
	"github.com/pawlock/pawl/quorum"
)

// BenchmarkAcquireRelease is what the quorum itself costs: its nodes are in this
// process and answer at once.
func BenchmarkAcquireRelease(b *testing.B) {
	for _, n := range []int{3, 5} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			var nodes []quorum.Node
			for i := range n {
				nodes = append(nodes, quorum.Node{Name: fmt.Sprint("n", i), Backend: memory.New(nil)})
			}
			q, err := quorum.New(nodes, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer q.Close()
			ids := driver.NewIdentity("bench")
			b.ReportAllocs()
			for b.Loop() {
				c := driver.Claim{Key: "k", ID: ids.Next(), Weight: 1, Capacity: 1, TTL: 10 * time.Second}
				g, err := q.Acquire(context.Background(), c)
				if err != nil {
					b.Fatal(err)
				}
				c.Grant = g
				if err := q.Release(context.Background(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
