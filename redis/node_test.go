package redis_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/redis"
)

// A fakeNode answers as its functions say.
type fakeNode struct {
	eval      func(ctx context.Context, script string, keys []string, args []any) (any, error)
	evalSHA   func(ctx context.Context, sha string, keys []string, args []any) (any, error)
	subscribe func(ctx context.Context, channel string) (redis.Subscription, error)
	pin       func() (redis.Conn, error)
	scan      func(pattern string) iter.Seq2[string, error]
	home      func(name string) (string, error) // nil: no cluster
}

func (n *fakeNode) EvalSHA(ctx context.Context, sha string, keys []string, args ...any) (any, error) {
	return n.evalSHA(ctx, sha, keys, args)
}

func (n *fakeNode) Eval(ctx context.Context, script string, keys []string, args ...any) (any, error) {
	return n.eval(ctx, script, keys, args)
}

func (n *fakeNode) Sharded() bool { return n.home != nil }

func (n *fakeNode) Home(_ context.Context, name string) (string, error) {
	if n.home == nil {
		return "", nil
	}
	return n.home(name)
}

func (n *fakeNode) Subscribe(ctx context.Context, _, channel string) (redis.Subscription, error) {
	return n.subscribe(ctx, channel)
}

func (n *fakeNode) Pin(context.Context, string) (redis.Conn, error) { return n.pin() }

func (n *fakeNode) Scan(_ context.Context, pattern string) iter.Seq2[string, error] {
	return n.scan(pattern)
}

// A fakeSubscription confirms what it is asked to listen to after a while, and
// receives what the test sends.
type fakeSubscription struct {
	confirmAfter time.Duration
	messages     chan redis.Message
	closed       chan struct{}
	close        sync.Once

	mu   sync.Mutex
	open map[string]bool // channels that were confirmed; guarded by mu
}

// channels returns what the subscription listens to.
func (s *fakeSubscription) channels() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.open))
}

func (s *fakeSubscription) confirm(m redis.Message) {
	s.mu.Lock()
	if s.open[m.Channel] = m.Confirmed; m.Ended {
		delete(s.open, m.Channel)
	}
	s.mu.Unlock()
	s.messages <- m
}

func newFakeSubscription(channel string, confirmAfter time.Duration) *fakeSubscription {
	s := &fakeSubscription{confirmAfter: confirmAfter, messages: make(chan redis.Message, 100), closed: make(chan struct{}), open: make(map[string]bool)}
	s.Subscribe(context.Background(), channel)
	return s
}

func (s *fakeSubscription) Subscribe(_ context.Context, channel string) error {
	time.AfterFunc(s.confirmAfter, func() { s.confirm(redis.Message{Channel: channel, Confirmed: true}) })
	return nil
}

func (s *fakeSubscription) Unsubscribe(_ context.Context, channel string) error {
	time.AfterFunc(s.confirmAfter, func() { s.confirm(redis.Message{Channel: channel, Ended: true}) })
	return nil
}

func (s *fakeSubscription) Receive(context.Context) (redis.Message, error) {
	select {
	case m := <-s.messages:
		if m.Payload == movedReply {
			return redis.Message{}, serverError(movedReply)
		}
		return m, nil
	case <-s.closed:
		return redis.Message{}, errors.New("closed")
	}
}

func (s *fakeSubscription) Close() error {
	s.close.Do(func() { close(s.closed) })
	return nil
}

// say sends a call to a claim.
func (s *fakeSubscription) say(verb, claim string) {
	id, _ := driver.ParseID(claim)
	s.messages <- redis.Message{Channel: "pawl:wake:" + id.Client, Payload: verb + " " + claim}
}

// movedReply is what a server says to a SUBSCRIBE for a channel that it has not.
const movedReply = "MOVED 1 elsewhere:6379"

// A serverError is one that the server sent.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

// held answers every acquire with no room, at a place in line.
func held(place int, left time.Duration) func(context.Context, string, []string, []any) (any, error) {
	return func(context.Context, string, []string, []any) (any, error) {
		return []any{int64(0), time.Now().UnixMicro(), int64(place), left.Milliseconds(), int64(7), int64(1), "theirs", ""}, nil
	}
}

func waiter(ids *driver.Identity) driver.Claim {
	return driver.Claim{Key: "k", ID: ids.Next(), Weight: 1, Capacity: 1, TTL: time.Minute, Queue: true}
}
