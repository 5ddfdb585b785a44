package open

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"time"

	redis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/redis/goredis"
)

// dialTimeout bounds one attempt to connect. The core tries again.
const dialTimeout = 2 * time.Second

func (t *Target) openRedis() (driver.Backend, error) {
	o := &redis.Options{
		Network:  "tcp",
		Addr:     net.JoinHostPort(t.Host, strconv.Itoa(t.Port)),
		Username: t.User,
		Password: t.Password,
		DB:       t.DB,

		DialTimeout:           dialTimeout,
		DialerRetries:         1,
		MaxRetries:            -1, // an answer that was lost is the core's to handle
		ContextTimeoutEnabled: true,
		PoolSize:              4, // one lock: a renewal, a look, a release

		// Neither is needed, and each costs every start a round trip.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	switch t.Scheme {
	case RedisUnix:
		o.Network, o.Addr = "unix", t.Path
	case RedisTLS:
		o.TLSConfig = &tls.Config{ServerName: t.Host, MinVersion: tls.VersionTLS12}
	}
	// What it would log is returned as an error, and standard error is for
	// messages to the user.
	redis.SetLogger(silence{})
	client := redis.NewClient(o)
	return owner{goredis.New(client), client}, nil
}

// An owner closes the client that was made for its backend.
type owner struct {
	driver.Backend
	client *redis.Client
}

// Close implements driver.Backend.
func (o owner) Close() error {
	err := o.Backend.Close()
	if err2 := o.client.Close(); err == nil {
		err = err2
	}
	return err
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
