package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawlock/pawl/redis"
)

// heartbeat is how long a subscription may be silent before it is probed.
const heartbeat = 3 * time.Second

type subscription struct {
	node    *node
	sharded bool
	pubsub  *goredis.PubSub
	probed  bool // nothing has come since the last ping
}

// Subscribe implements redis.Node.
func (n *node) Subscribe(ctx context.Context, home, channel string) (redis.Subscription, error) {
	// An error of the connection or of the command comes from Receive.
	if n.cluster == nil {
		return &subscription{node: n, pubsub: n.rdb.Subscribe(ctx, channel)}, nil
	}
	// The client of the master, since that of the cluster would have one
	// connection for channels of any slot.
	master, err := n.cluster.MasterForKey(ctx, channel)
	if err != nil {
		return nil, err
	}
	if master.Options().Addr != home {
		return nil, fmt.Errorf("goredis: the channel has moved from %s to %s", home, master.Options().Addr)
	}
	return &subscription{node: n, sharded: true, pubsub: master.SSubscribe(ctx, channel)}, nil
}

// Subscribe implements redis.Subscription.
func (s *subscription) Subscribe(ctx context.Context, channel string) error {
	if s.sharded {
		return s.pubsub.SSubscribe(ctx, channel)
	}
	return s.pubsub.Subscribe(ctx, channel)
}

// Unsubscribe implements redis.Subscription.
func (s *subscription) Unsubscribe(ctx context.Context, channel string) error {
	if s.sharded {
		return s.pubsub.SUnsubscribe(ctx, channel)
	}
	return s.pubsub.Unsubscribe(ctx, channel)
}

// Receive implements redis.Subscription.
func (s *subscription) Receive(ctx context.Context) (redis.Message, error) {
	for {
		v, err := s.pubsub.ReceiveTimeout(ctx, heartbeat)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() && !s.probed && ctx.Err() == nil {
			s.probed = true
			err = s.pubsub.Ping(ctx)
			if err == nil {
				continue
			}
		}
		if err != nil {
			s.node.doubt(err)
			return redis.Message{}, err
		}
		s.probed = false
		switch v := v.(type) {
		case *goredis.Subscription:
			m := redis.Message{Channel: v.Channel, Confirmed: v.Kind == "subscribe" || v.Kind == "ssubscribe"}
			m.Ended = !m.Confirmed
			if m.Ended {
				s.node.reload()
			}
			return m, nil
		case *goredis.Message:
			return redis.Message{Channel: v.Channel, Payload: v.Payload}, nil
		}
	}
}

// Close implements redis.Subscription.
func (s *subscription) Close() error { return s.pubsub.Close() }
