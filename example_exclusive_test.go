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

// One worker at a time. In a program that runs on several machines the backend
// is one that they share, and everything else stays as it is.
func Example() {
	client, err := pawl.New(memory.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	err = client.Mutex("invoice/42").Do(context.Background(), func(ctx context.Context, lease *pawl.Lease) error {
		fmt.Println("nobody else writes", lease.Key())
		return nil // ctx would have ended with the lease
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: nobody else writes invoice/42
}

func ExampleNew() {
	store := new(memory.Store) // what two processes would share
	for _, label := range []string{"worker 1", "worker 2"} {
		client, err := pawl.New(memory.New(store), &pawl.Options{Label: label, TTL: 30 * time.Second})
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
		_, err = client.Mutex("k").TryAcquire(context.Background())
		fmt.Println(label, err)
	}
	// Output:
	// worker 1 <nil>
	// worker 2 pawl: acquire "k" (memory): held by worker 1
}

func ExampleOptions() {
	_, err := pawl.New(memory.New(nil), &pawl.Options{TTL: 10 * time.Second, RenewEvery: 20 * time.Second})
	fmt.Println(err)
	// Output: RenewEvery is 20s: it must be at least 1ms and at most half the TTL of 10s
}

func ExampleClient_Mutex() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	lease, err := client.Mutex("deploy").Acquire(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(context.Background())
	fmt.Println("deploying alone")
	// Output: deploying alone
}

// The context bounds the wait, and not the hold.
func ExampleLock_Acquire() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	lease, err := client.Mutex("k").Acquire(ctx)
	cancel()
	if err != nil {
		log.Fatal(err) // errors.Is says whether it is ErrHeld: who holds is in it
	}
	fmt.Println("still held:", lease.Valid())
	// Output: still held: true
}

// To skip what another is doing already.
func ExampleLock_TryAcquire() {
	client, _ := pawl.New(memory.New(nil), &pawl.Options{Label: "nightly"})
	defer client.Close()
	for range 2 {
		_, err := client.Mutex("report").TryAcquire(context.Background())
		var held *pawl.HeldError
		switch {
		case err == nil:
			fmt.Println("writing the report")
		case errors.As(err, &held):
			fmt.Println(held.Holder.Label, "is at it")
		default:
			log.Fatal("the store is in trouble: ", err)
		}
	}
	// Output:
	// writing the report
	// nightly is at it
}

// The work's error comes back together with that of the release.
func ExampleLock_Do() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	errFull := errors.New("disk full")
	err := client.Mutex("backup").Do(context.Background(), func(context.Context, *pawl.Lease) error {
		return errFull
	})
	fmt.Println(err, errors.Is(err, pawl.ErrLost))
	// Output: disk full false
}

func ExampleLock_Key() {
	client, _ := pawl.New(memory.New(nil), nil)
	fmt.Println(client.Mutex("invoice/42").Key())
	// Output: invoice/42
}

func ExampleLease_Release() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	lease, err := client.Mutex("k").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	cancel() // the work is called off; its lock is given back all the same
	fmt.Println(lease.Release(ctx), context.Cause(lease.Context()))
	// Output: <nil> pawl: the lease was released
}

func ExampleClient_Close() {
	client, _ := pawl.New(memory.New(nil), nil)
	lease, err := client.Mutex("k").Acquire(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.Close())
	fmt.Println(context.Cause(lease.Context()))
	_, err = client.Mutex("k").Acquire(context.Background())
	fmt.Println(errors.Is(err, pawl.ErrClosed))
	// Output:
	// <nil>
	// pawl: hold "k" (memory): lost: closed
	// true
}
