// Command latewrite is a worker that adds to the balance of an account under a lock,
// and can be paused in between, for longer than its lease lasts:
//
//	latewrite -account postgres://... -locks DIR -add 10
//	latewrite -account redis://...    -locks DIR -add 10 -pause
//
// With -pause it waits for a line on its standard input when it has read the balance.
// Stop the process there (kill -STOP), let another worker add to the same account,
// continue the first (kill -CONT), and it writes what is no longer true. A guard at
// the account refuses that. With -unguarded there is none, and the addition of the
// other worker is lost.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/fence"
	"github.com/pawlock/pawl/file"
)

// An account is what the lock protects. Both ways to set its balance write the same.
type account interface {
	balance(ctx context.Context) (int, error)
	set(ctx context.Context, balance int) error        // whoever asks
	setGuarded(ctx context.Context, balance int) error // unless the token of ctx is stale
}

func main() {
	url := flag.String("account", "", "`URL` of the account: postgres:// or redis://")
	locks := flag.String("locks", "", "`directory` of the locks")
	ttl := flag.Duration("ttl", time.Second, "how long a lease lasts that is not renewed")
	add := flag.Int("add", 0, "`amount` to add")
	pause := flag.Bool("pause", false, "wait for a line of input before the write")
	unguarded := flag.Bool("unguarded", false, "write without a guard")
	flag.Parse()
	err := work(*url, *locks, *ttl, *add, *pause, *unguarded)
	switch {
	case errors.Is(err, fence.ErrStale):
		fmt.Println("refused:", err)
		os.Exit(79)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func work(url, locks string, ttl time.Duration, add int, pause, unguarded bool) error {
	ctx := context.Background()
	acc, err := openAccount(url)
	if err != nil {
		return err
	}
	store, err := file.New(locks)
	if err != nil {
		return err
	}
	client, err := pawl.New(store, &pawl.Options{TTL: ttl})
	if err != nil {
		return err
	}
	lease, err := client.Mutex("account").Acquire(ctx)
	if err != nil {
		return err
	}
	fmt.Println("acquired", pawl.TokenOf(lease))
	balance, err := acc.balance(lease.Context())
	if err != nil {
		return err
	}
	fmt.Println("read", balance)
	if pause {
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
			return err
		}
	}
	// A program that passes on the context of the lease is likely to be told in
	// time, by a timer that fires when it is continued. Likely is not certain, and
	// many a client library takes no context. This one keeps its token alone.
	late := context.WithoutCancel(lease.Context())
	if unguarded {
		err = acc.set(late, balance+add)
	} else {
		err = acc.setGuarded(late, balance+add)
	}
	if err != nil {
		return err
	}
	fmt.Println("wrote", balance+add)
	if err := lease.Release(ctx); err != nil && !errors.Is(err, pawl.ErrLost) {
		return err
	}
	return client.Close()
}

func openAccount(url string) (account, error) {
	switch scheme, _, _ := strings.Cut(url, ":"); scheme {
	case "postgres":
		return openPostgres(url)
	case "redis":
		return openRedis(url)
	}
	return nil, fmt.Errorf("-account %q: it is a URL with postgres:// or redis://", url)
}
