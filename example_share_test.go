package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/memory"
)

func ExampleClient_Semaphore() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	three := client.Semaphore("crawler", 3)
	for i := range 4 {
		_, err := three.TryAcquire(context.Background())
		fmt.Println(i+1, "has a place:", err == nil)
	}
	// Output:
	// 1 has a place: true
	// 2 has a place: true
	// 3 has a place: true
	// 4 has a place: false
}

func ExampleClient_ReadLock() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	ctx := context.Background()
	for range 2 {
		if _, err := client.ReadLock("catalogue").Acquire(ctx); err != nil {
			log.Fatal(err)
		}
	}
	_, err := client.WriteLock("catalogue").TryAcquire(ctx)
	fmt.Println("two read, one may write:", err == nil)
	// Output: two read, one may write: false
}

func ExampleClient_WriteLock() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	ctx := context.Background()
	writer, err := client.WriteLock("catalogue").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.ReadLock("catalogue").TryAcquire(ctx)
	fmt.Println("reading while it is written:", err == nil)
	if err := writer.Release(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = client.ReadLock("catalogue").TryAcquire(ctx)
	fmt.Println("reading after that:", err == nil)
	// Output:
	// reading while it is written: false
	// reading after that: true
}

// What would wait for itself for ever is an error.
func ExampleLock_Acquire_nested() {
	client, _ := pawl.New(memory.New(nil), nil)
	defer client.Close()
	lock := client.Mutex("k")
	err := lock.Do(context.Background(), func(ctx context.Context, _ *pawl.Lease) error {
		_, err := lock.Acquire(ctx)
		return err
	})
	fmt.Println(errors.Is(err, pawl.ErrDeadlock))
	// Output: true
}
