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

// A lock that is lost ends the work's context, and Do says why.
func ExampleLease_Context() {
	client, _ := pawl.New(memory.New(nil), &pawl.Options{RenewEvery: 5 * time.Millisecond, Label: "operator"})
	defer client.Close()
	err := client.Mutex("k").Do(context.Background(), func(ctx context.Context, lease *pawl.Lease) error {
		if err := client.ForceRelease(ctx, "k", lease.Holder(), "it hangs"); err != nil {
			return err
		}
		<-ctx.Done() // with the next renewal
		return nil
	})
	var lost *pawl.LostError
	if errors.As(err, &lost) {
		fmt.Println("reason:", lost.Reason)
		fmt.Println("by", lost.Notice.By, "because", lost.Notice.Why)
	}
	// Output:
	// reason: forced
	// by operator because it hangs
}

// A resource that refuses tokens smaller than one it has seen is safe from a
// holder that does not know yet that it is none.
func ExampleLease_Token() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	seen := uint64(0)
	write := func(token uint64) bool {
		if token < seen {
			return false
		}
		seen = token
		return true
	}
	ctx := context.Background()
	first, err := client.Mutex("k").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	client.ForceRelease(ctx, "k", first.Holder(), "")
	second, err := client.Mutex("k").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the second holder writes:", write(second.Token()))
	fmt.Println("the first, late:", write(first.Token()))
	// Output:
	// the second holder writes: true
	// the first, late: false
}

// Where no token can be sent along: is there time for what comes next?
func ExampleLease_Check() {
	client, _ := pawl.New(memory.New(nil), &pawl.Options{TTL: 10 * time.Second})
	defer client.Close()
	lease, err := client.Mutex("k").Acquire(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a second:", lease.Check(time.Second) == nil)
	fmt.Println("a minute:", lease.Check(time.Minute) == nil)
	// Output:
	// a second: true
	// a minute: false
}

func ExampleLease_Valid() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	lease, err := client.Mutex("k").Acquire(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Valid())
	lease.Release(context.Background())
	fmt.Println(lease.Valid())
	// Output:
	// true
	// false
}

// The deadline is a margin before the moment at which the store lets go.
func ExampleLease_Deadline() {
	client, _ := pawl.New(memory.New(nil), &pawl.Options{TTL: 10 * time.Second})
	defer client.Close()
	lease, err := client.Mutex("k").Acquire(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(time.Until(lease.Deadline()) < 9*time.Second)
	// Output: true
}

// Renewals go on by themselves. By hand one is of use before a long step.
func ExampleLease_Renew() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	lease, err := client.Mutex("k").Acquire(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	before := lease.Deadline()
	err = lease.Renew(context.Background())
	fmt.Println(err, lease.Deadline().After(before))
	// Output: <nil> true
}

// The three kinds of errors want three treatments.
func ExampleError() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	_, err := client.Mutex("").Acquire(context.Background())
	var e *pawl.Error
	switch {
	case errors.Is(err, pawl.ErrHeld):
		fmt.Println("someone else is at work")
	case errors.Is(err, pawl.ErrLost):
		fmt.Println("the work may have overlapped another's")
	case errors.As(err, &e):
		fmt.Printf("%s on %s failed: %v\n", e.Op, e.Backend, e.Err)
	}
	// Output: acquire on memory failed: Key is empty: name the resource to lock
}
