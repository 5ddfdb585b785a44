package open

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/quorum"
	"github.com/pawlock/pawl/redis"
	adapter "github.com/pawlock/pawl/redis/goredis"
)

const (
	dialTimeout = 2 * time.Second // bounds one attempt to connect. The core tries again
	poolSize    = 4               // one lock: a renewal, a look, a release
)

// openRedis returns the backend of a server, a Sentinel or a cluster.
func (t *Target) openRedis() (driver.Backend, error) {
	client, err := t.dial()
	if err != nil {
		return nil, err
	}
	b, err := redis.New(adapter.NewNode(client), t.options(""))
	if err != nil {
		client.Close()
		return nil, err
	}
	return owner{b, []closer{client}}, nil
}

// openQuorum returns the backend of independent servers.
func (t *Target) openQuorum() (driver.Backend, error) {
	var names []string
	for _, n := range t.Nodes {
		names = append(names, n.Hosts[0].Addr())
	}
	config := slices.Sorted(slices.Values(names))
	var nodes []quorum.Node
	var owned []closer
	fail := func(err error) (driver.Backend, error) {
		closeAll(owned)
		return nil, err
	}
	for i, n := range t.Nodes {
		client, err := n.dial()
		if err != nil {
			return fail(err)
		}
		owned = append(owned, client)
		b, err := redis.New(adapter.NewNode(client), n.options(strings.Join(config, ",")))
		if err != nil {
			return fail(err)
		}
		owned = append(owned, b)
		nodes = append(nodes, quorum.Node{Name: names[i], Backend: b, Probe: adapter.Probe(client)})
	}
	b, err := quorum.New(nodes, &quorum.Options{MaxTTL: t.Quarantine})
	if err != nil {
		if b != nil {
			b.Close()
		}
		return fail(err)
	}
	return owner{b, owned}, nil
}

func (t *Target) options(config string) *redis.Options {
	if t.Quarantine == 0 {
		return nil
	}
	return &redis.Options{Quarantine: &redis.Quarantine{MaxTTL: t.Quarantine, Config: config}}
}

// dial returns a client. It does no I/O but to read certificates.
func (t *Target) dial() (goredis.UniversalClient, error) {
	// What it would log is returned as an error, and standard error is for
	// messages to the user.
	goredis.SetLogger(silence{})
	var config *tls.Config
	if t.secure() {
		var err error
		if config, err = t.TLS.config(); err != nil {
			return nil, err
		}
	}
	var addrs []string
	for _, h := range t.Hosts {
		addrs = append(addrs, h.Addr())
	}
	// An answer that was lost is the core's to handle: MaxRetries -1. The
	// identity and the maintenance notices are not needed, and each costs
	// every start a round trip.
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch t.Scheme {
	case Sentinel, SentinelTLS:
		return goredis.NewFailoverClient(&goredis.FailoverOptions{
			MasterName: t.Master, SentinelAddrs: addrs, SentinelUsername: t.SentinelUser, SentinelPassword: t.SentinelPassword,
			DB: t.DB, CredentialsProviderContext: t.credentials, TLSConfig: config,
			DialTimeout: dialTimeout, DialerRetries: 1, MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: poolSize,
			DisableIdentity: true,
		}), nil
	case Cluster, ClusterTLS:
		return goredis.NewClusterClient(&goredis.ClusterOptions{
			Addrs: addrs, CredentialsProviderContext: t.credentials, TLSConfig: config,
			DialTimeout: dialTimeout, DialerRetries: 1, MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: poolSize,
			DisableIdentity: true, MaintNotificationsConfig: quiet,
		}), nil
	}
	o := &goredis.Options{
		Network: "tcp", DB: t.DB, CredentialsProviderContext: t.credentials, TLSConfig: config,
		DialTimeout: dialTimeout, DialerRetries: 1, MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: poolSize,
		DisableIdentity: true, MaintNotificationsConfig: quiet,
	}
	if t.Scheme == RedisUnix {
		o.Network, o.Addr = "unix", t.Path
	} else {
		o.Addr = addrs[0]
	}
	return goredis.NewClient(o), nil
}

// credentials returns user and password for a new connection.
func (t *Target) credentials(context.Context) (user, password string, err error) {
	if t.Refresh == nil {
		return t.User, t.Password, nil
	}
	password, err = t.Refresh()
	return t.User, password, err
}

// config reads the certificates. The name of the server is left to the client
// library, which knows whom it dials.
func (o TLS) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: o.Insecure}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", o.CA)
		}
	}
	if o.Cert != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// An owner closes what was made for its backend.
type owner struct {
	driver.Backend
	owned []closer
}

type closer interface{ Close() error }

// Close implements driver.Backend.
func (o owner) Close() error {
	return errors.Join(o.Backend.Close(), closeAll(o.owned))
}

// closeAll closes a backend before its client, which comes before it.
func closeAll(list []closer) error {
	var errs []error
	for _, c := range slices.Backward(list) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
