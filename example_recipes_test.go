package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/memory"
)

// A large job counts for three small ones.
func ExampleClient_Weighted() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	ctx := context.Background()
	const units = 4
	large, err := client.Weighted("encoder", 3, units).Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Weighted("encoder", 1, units).TryAcquire(ctx)
	fmt.Println("a small one fits beside it:", err == nil)
	_, err = client.Weighted("encoder", 1, units).TryAcquire(ctx)
	fmt.Println("and another:", err == nil)
	fmt.Println(large.Release(ctx))
	// Output:
	// a small one fits beside it: true
	// and another: false
	// <nil>
}

// A writer goes on as a reader: nobody writes between the two.
func ExampleLease_Downgrade() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	ctx := context.Background()
	lease, err := client.WriteLock("catalogue").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	// Write, then let the others read while this one does.
	if err := lease.Downgrade(ctx, client.ReadLock("catalogue")); err != nil {
		log.Fatal(err)
	}
	_, err = client.ReadLock("catalogue").TryAcquire(ctx)
	fmt.Println("another reads:", err == nil)
	_, err = client.WriteLock("catalogue").TryAcquire(ctx)
	fmt.Println("another writes:", err == nil)
	// Output:
	// another reads: true
	// another writes: false
}

// Both accounts or neither, and no deadlock with whoever transfers back.
func ExampleClient_Multi() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	both := client.Multi(client.Mutex("account/7"), client.Mutex("account/3"))
	err := both.Do(context.Background(), func(ctx context.Context, lease *pawl.MultiLease) error {
		for _, l := range lease.Leases() {
			fmt.Println(l.Key(), "has a token:", l.Token() > 0)
		}
		return ctx.Err() // ctx ends when one of them is lost
	})
	fmt.Println(err)
	// Output:
	// account/3 has a token: true
	// account/7 has a token: true
	// <nil>
}

// What is held of several is held until all are released.
func ExampleMultiLease() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	ctx := context.Background()
	lease, err := client.Multi(client.ReadLock("prices"), client.Mutex("orders")).Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a write with the token of its lock:", lease.Token("orders") > 0)
	fmt.Println(lease.Release(ctx))
	// Output:
	// a write with the token of its lock: true
	// <nil>
}

// A candidate leads, again and again, until it is told to stop.
func ExampleElection_Run() {
	client, _ := pawl.New(memory.New(nil), &pawl.Options{Label: "10.0.0.7:8080"})
	defer client.Close()
	election := client.Election("scheduler")
	err := election.Run(context.Background(), pawl.Callbacks{
		Started: func(ctx context.Context, l *pawl.Leadership) error {
			leader, err := election.Leader(ctx)
			fmt.Println(leader.Label, "leads, in this term:", leader.Term == l.Term())
			return err // it has done what there was to do, and resigns
		},
		Stopped: func(_ *pawl.Leadership, err error) { fmt.Println("stopped:", err) },
	})
	fmt.Println(err)
	// Output:
	// 10.0.0.7:8080 leads, in this term: true
	// stopped: <nil>
	// <nil>
}

func ExampleElection_Campaign() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	ctx := context.Background()
	leadership, err := client.Election("scheduler").Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := leadership.Check(0); err == nil {
		fmt.Println("leads")
	}
	fmt.Println(leadership.Resign(ctx))
	// Output:
	// leads
	// <nil>
}

// Whoever wants to know who leads need not be a candidate.
func ExampleElection_Observe() {
	client, _ := pawl.New(memory.New(nil), &pawl.Options{Label: "10.0.0.7:8080"})
	defer client.Close()
	ctx := context.Background()
	election := client.Election("scheduler")
	for leader, err := range election.Observe(ctx) {
		switch {
		case err != nil:
			fmt.Println("not known:", err)
		case leader.ID == "":
			fmt.Println("nobody leads")
			if _, err := election.Campaign(ctx); err != nil {
				log.Fatal(err)
			}
			continue
		default:
			fmt.Println(leader.Label, "leads")
		}
		break
	}
	// Output:
	// nobody leads
	// 10.0.0.7:8080 leads
}

// A function that takes the lock it needs may be called by one that has it.
func ExampleLock_Reentrant() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	lock := client.Mutex("account/7").Reentrant()
	book := func(ctx context.Context) error {
		return lock.Do(ctx, func(ctx context.Context, lease *pawl.Lease) error {
			fmt.Println("books")
			return ctx.Err()
		})
	}
	err := lock.Do(context.Background(), func(ctx context.Context, lease *pawl.Lease) error {
		return errors.Join(book(ctx), book(ctx)) // with the context of the lease
	})
	fmt.Println(err)
	// Output:
	// books
	// books
	// <nil>
}

// Every machine tries, and one does it.
func ExampleClient_Once() {
	store := new(memory.Store)
	for range 3 {
		client, _ := pawl.New(memory.New(store), nil)
		defer client.Close()
		ran, err := client.Once("nightly report", 23*time.Hour).Do(context.Background(), func(context.Context, *pawl.Lease) error {
			return nil
		})
		fmt.Println(ran, err)
	}
	// Output:
	// true <nil>
	// false <nil>
	// false <nil>
}

// Who was first, and when the next run may begin.
func ExampleOnce_Lock() {
	client, _ := pawl.New(memory.New(nil), &pawl.Options{Label: "web-3"})
	defer client.Close()
	ctx := context.Background()
	once := client.Once("nightly report", 23*time.Hour)
	if _, err := once.Do(ctx, func(context.Context, *pawl.Lease) error { return nil }); err != nil {
		log.Fatal(err)
	}
	_, err := once.Lock().TryAcquire(ctx)
	var held *pawl.HeldError
	if errors.As(err, &held) {
		fmt.Println(held.Holder.Label, "was first; again in", held.Left.Round(time.Hour))
	}
	// Output: web-3 was first; again in 23h0m0s
}

// Somebody who needs the key asks for it; its holder comes to a good end first.
func ExampleClient_AskRelease() {
	client, _ := pawl.New(memory.New(nil), &pawl.Options{Label: "operator"})
	defer client.Close()
	ctx := context.Background()
	lease, err := client.Mutex("k").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := client.AskRelease(ctx, "k", "deploying at noon"); err != nil {
		log.Fatal(err)
	}
	lease.Renew(ctx) // it would come by itself

	select {
	case <-lease.Revoked():
		n := lease.Notice()
		fmt.Println(n.By, "asks:", n.Why)
	default:
		fmt.Println("nobody asks")
	}
	fmt.Println(lease.Release(ctx))
	// Output:
	// operator asks: deploying at noon
	// <nil>
}
