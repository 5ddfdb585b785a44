package pawl_test

import (
	"context"
	"fmt"
	"log"

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
