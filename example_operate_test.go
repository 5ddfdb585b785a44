package pawl_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/memory"
)

func ExampleClient_Inspect() {
	client, _ := pawl.New(memory.New(nil), &pawl.Options{Label: "billing"})
	defer client.Close()
	ctx := context.Background()
	lease, err := client.Mutex("invoice/42").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	state, err := client.Inspect(ctx, "invoice/42")
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range state.Holders {
		fmt.Println(h.Label, "holds:", h.Held, "its ID is the lease's:", h.ID == lease.Holder())
	}
	fmt.Println(state.Waiting, "wait")
	// Output:
	// billing holds: true its ID is the lease's: true
	// 0 wait
}

func ExampleClient_List() {
	client, _ := pawl.New(memory.New(nil), &pawl.Options{Label: "billing"})
	defer client.Close()
	ctx := context.Background()
	for _, key := range []string{"invoice/1", "invoice/2", "report"} {
		if _, err := client.Mutex(key).Acquire(ctx); err != nil {
			log.Fatal(err)
		}
	}
	for holder, err := range client.List(ctx, "invoice/") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(holder.Key, holder.Label)
	}
	// Unordered output:
	// invoice/1 billing
	// invoice/2 billing
}

// The holder learns it with its next renewal. What it writes until then only a
// token can stop.
func ExampleClient_ForceRelease() {
	client, _ := pawl.New(memory.New(nil), &pawl.Options{Label: "operator"})
	defer client.Close()
	ctx := context.Background()
	stuck, err := client.Mutex("k").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.ForceRelease(ctx, "k", stuck.Holder(), "it hangs"))
	fmt.Println(stuck.Renew(ctx))
	_, err = client.Mutex("k").TryAcquire(ctx)
	fmt.Println("free:", err == nil)
	// Output:
	// <nil>
	// pawl: hold "k" (memory): lost: forced by operator (it hangs)
	// free: true
}

func ExampleLease_Holder() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	ctx := context.Background()
	lease, err := client.Mutex("k").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	state, err := client.Inspect(ctx, lease.Key())
	fmt.Println(err, state.Holders[0].ID == lease.Holder())
	// Output: <nil> true
}

func ExampleLease_Key() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	lease, err := client.Mutex("invoice/42").Acquire(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Key())
	// Output: invoice/42
}

// Renewals that come late are the early warning.
func ExampleObserver() {
	late := 0
	observer := &pawl.Observer{
		Renewed: func(lease *pawl.Lease, took, left time.Duration) {
			if left < 3*time.Second {
				late++
			}
		},
		Lost: func(lease *pawl.Lease, err *pawl.LostError) {
			log.Printf("%s: %v", lease.Key(), err)
		},
	}
	client, _ := pawl.New(memory.New(nil), &pawl.Options{Observer: observer})
	defer client.Close()
	lease, err := client.Mutex("k").Acquire(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(context.Background())
	fmt.Println(lease.Renew(context.Background()), late)
	// Output: <nil> 0
}

func ExampleLogObserver() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelDebug, // without: only waiting, trouble and loss
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.TimeKey, "token", "waited", "held":
				return slog.Attr{} // they are different each time
			}
			return a
		},
	}))
	client, _ := pawl.New(memory.New(nil), &pawl.Options{Observer: pawl.LogObserver(logger)})
	defer client.Close()
	lease, err := client.Mutex("k").Acquire(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	lease.Release(context.Background())
	// Output:
	// level=DEBUG msg="pawl: acquired" key=k attempts=1
	// level=DEBUG msg="pawl: released" key=k
}

// A clock of one's own lets a test see what a suspended machine would.
func ExampleClock() {
	clock := new(laptop)
	client, _ := pawl.New(memory.New(nil), &pawl.Options{TTL: 10 * time.Second, Clock: clock})
	defer client.Close()
	lease, err := client.Mutex("k").Acquire(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	clock.slept.Store(int64(time.Hour)) // the lid was closed
	fmt.Println(lease.Check(0))
	// Output: pawl: hold "k" (memory): lost: suspended
}

type laptop struct{ slept atomic.Int64 } // nanoseconds

func (*laptop) Now() time.Time         { return time.Now() }
func (l *laptop) Slept() time.Duration { return time.Duration(l.slept.Load()) }
