package quorum_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlock/pawl"
)

// However many want the key at once, each gets it, and soon: split votes do not
// go on for ever, and whoever waits is woken.
// Case F04.
func TestACrowdIsServed(t *testing.T) {
	for _, crowd := range []int{2, 10, 50} {
		t.Run(fmt.Sprint(crowd), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 5)
				for i, s := range c.servers {
					s.delay = time.Duration(1+i%3) * ms
				}
				const hold = 5 * ms
				began := time.Now()
				var all sync.WaitGroup
				for range crowd {
					b, _ := c.connect(t, nil)
					client, err := pawl.New(b, nil)
					if err != nil {
						t.Fatal(err)
					}
					all.Go(func() {
						defer client.Close()
						ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
						defer cancel()
						err := client.Mutex("k").Do(ctx, func(context.Context, *pawl.Lease) error {
							time.Sleep(hold)
							return nil
						})
						if err != nil {
							t.Errorf("Do: %v", err)
						}
					})
				}
				all.Wait()
				took := time.Since(began)
				t.Logf("%d clients took %v, %v each", crowd, took, took/time.Duration(crowd))
				if most := time.Duration(crowd) * 20 * hold; took > most {
					t.Errorf("%d clients that hold for %v each: took %v, want less than %v", crowd, hold, took, most)
				}
			})
		})
	}
}
