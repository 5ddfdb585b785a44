package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
)

func newLocks(t testing.TB, b driver.Backend, o *pawl.Options) *pawl.Client {
	t.Helper()
	c, err := pawl.New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func lockOf(t testing.TB, l *pawl.Lock) *pawl.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// A commandLog is what a server was asked, in the order in which it did it.
type commandLog struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func watchCommands(t testing.TB, s *testserver.Redis) *commandLog {
	c, log := s.Client(), new(commandLog)
	if _, err := c.Do(t.Context(), "MONITOR"); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the connection
		for {
			line, err := c.Receive(time.Hour)
			if err != nil {
				return
			}
			log.mu.Lock()
			log.lines = append(log.lines, fmt.Sprint(line))
			log.mu.Unlock()
		}
	}()
	return log
}

// upTo waits until the server has done all that it was asked before, and returns
// that.
func (l *commandLog) upTo(t testing.TB, s *testserver.Redis, mark string) []string {
	t.Helper()
	s.Do("ECHO", mark)
	var lines []string
	await(t, "the log has the mark "+mark, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		lines = l.lines
		return len(lines) > 0 && strings.Contains(strings.Join(lines[max(0, len(lines)-50):], "\n"), mark)
	})
	return lines
}

// Locks are released at about the time when they are to be renewed. Once that is
// done the server is asked nothing more about them, but for a renewal that was
// under way.
// Case B01.
func TestNothingIsRenewedAfterReleasesReturn(t *testing.T) {
	t.Parallel()
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	log := watchCommands(t, s)
	c := newLocks(t, newClient(t, s.Addr).Backend, &pawl.Options{TTL: time.Minute, RenewEvery: 5 * time.Millisecond})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 60 {
				lease := lockOf(t, c.Mutex(fmt.Sprint(i)))
				time.Sleep(rand.N(12 * time.Millisecond))
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	all.Wait()
	time.Sleep(500 * time.Millisecond) // for those that are under way
	log.upTo(t, s, "mark-1")
	time.Sleep(3 * time.Second) // six hundred times as long as between renewals
	renew, release := sum(readScript(t, "renew")), sum(readScript(t, "release"))
	argument := regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)
	released, after := make(map[string]bool), make(map[string]int)
	renewals, marked := 0, false
	for _, line := range log.upTo(t, s, "mark-2") {
		marked = marked || strings.Contains(line, "mark-1")
		var words []string
		for _, m := range argument.FindAllStringSubmatch(line, -1) {
			words = append(words, m[1])
		}
		if len(words) < 9 || strings.Contains(line, " lua]") {
			continue
		}
		id := words[3+5] // after five keys
		switch words[1] {
		case release:
			released[id] = true
		case renew:
			renewals++
			if marked {
				t.Errorf("renewed after all was released: %s", line)
			}
			if released[id] {
				after[id]++
			}
		}
	}
	for id, n := range after {
		if n > 1 {
			t.Errorf("%s: %d renewals after its release, want one at most that was under way", id, n)
		}
	}
	t.Logf("%d releases, %d renewals, %d of them overtaken by the release", len(released), renewals, len(after))
	if len(released) != 480 || renewals < 60 {
		t.Errorf("got %d releases and %d renewals: the test has tested little", len(released), renewals)
	}
}

// An administrator deletes the key of a lock: its holder hears of it at the next
// renewal, by a signal and in answer to all that it asks; and may acquire again.
// Cases A04, A07, T10.
func TestADeletedLockIsLostAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	c := newLocks(t, newClient(t, s.Addr).Backend, &pawl.Options{TTL: time.Minute, RenewEvery: 100 * time.Millisecond})
	lease := lockOf(t, c.Mutex("k"))
	s.Do("DEL", "lock:k")
	select {
	case <-lease.Context().Done():
	case <-time.After(patience): // half of the TTL: by the clock alone it is not told so soon
		t.Fatal("the holder was not told")
	}
	var lost *pawl.LostError
	if cause := context.Cause(lease.Context()); !errors.As(cause, &lost) || lost.Reason != driver.Expired && lost.Reason != driver.Deleted {
		t.Errorf("cause: got %v, want that it has gone", cause)
	}
	if lease.Valid() {
		t.Error("the lease is valid after its loss")
	}
	for name, err := range map[string]error{"Renew": lease.Renew(t.Context()), "Check": lease.Check(0), "Release": lease.Release(t.Context())} {
		if !errors.Is(err, pawl.ErrLost) {
			t.Errorf("%s: got %v, want ErrLost", name, err)
		}
	}
	again := lockOf(t, c.Mutex("k"))
	if again.Token() <= lease.Token() {
		t.Errorf("next token: got %d, want more than %d", again.Token(), lease.Token())
	}
	if err := again.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// The program's own commands take all connections of the pool. The lease can't be
// renewed, and is over by its own clock before another holds.
// Case B14.
func TestAPoolThatIsTakenEndsTheLeaseInTime(t *testing.T) {
	t.Parallel()
	s := testserver.StartRedis(t, testserver.RedisOptions{})
	b := newClient(t, s.Addr, func(o *goredis.Options) { o.PoolSize, o.MaxActiveConns = 1, 1 })
	const ttl = time.Second
	c := newLocks(t, b.Backend, &pawl.Options{TTL: ttl})
	other := newLocks(t, newClient(t, s.Addr).Backend, nil)
	lease := lockOf(t, c.Mutex("k"))
	var blocked sync.WaitGroup
	blocked.Go(func() { b.rdb.BLPop(t.Context(), 3*ttl, "nothing") })
	next := lockOf(t, other.Mutex("k"))
	if lease.Valid() || lease.Context().Err() == nil {
		t.Errorf("another holds: got valid %v, and the context's error %v", lease.Valid(), lease.Context().Err())
	}
	blocked.Wait()
	if err := lease.Release(t.Context()); !errors.Is(err, pawl.ErrLost) {
		t.Errorf("Release: got %v, want ErrLost", err)
	}
	if err := next.Renew(t.Context()); err != nil {
		t.Errorf("Renew of the next: %v", err)
	}
	next.Release(t.Context())
	lockOf(t, c.Mutex("k")).Release(t.Context())
}
