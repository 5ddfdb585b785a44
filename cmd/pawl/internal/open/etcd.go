package open

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/etcd"
)

var errPrefix = errors.New("its path, which all keys begin with, is not UTF-8")

// etcd reports whether t is a cluster of etcd.
func (t *Target) etcd() bool { return t.Scheme == Etcd || t.Scheme == EtcdTLS }

// parsePrefix takes the path of a cluster's URL: what all keys begin with, as it
// stands after the first slash.
func (t *Target) parsePrefix(path string) error {
	t.Path = unescape(path)
	if !utf8.ValidString(t.Path) {
		return errPrefix
	}
	return nil
}

// openEtcd returns the backend of a cluster.
func (t *Target) openEtcd() (driver.Backend, error) {
	c := clientv3.Config{
		DialTimeout: dialTimeout, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: dialTimeout,
		Logger: zap.NewNop(), // what it would log is returned as an error
	}
	scheme := "http://"
	if t.secure() {
		var config *tls.Config
		var err error
		if config, err = t.TLS.config(); err != nil {
			return nil, err
		}
		scheme, c.TLS = "https://", config
	}
	for _, h := range t.Hosts {
		c.Endpoints = append(c.Endpoints, scheme+h.Addr())
	}
	connect := func() (driver.Backend, error) {
		client, err := clientv3.New(c)
		if err != nil {
			return nil, err
		}
		return owner{etcd.New(client, &etcd.Options{Prefix: t.Path}), []closer{client}}, nil
	}
	switch {
	case t.User == "" && t.HasPassword:
		return nil, errors.New("etcd takes a password only with a user: etcd://user@host")
	case t.User == "":
		return connect()
	case t.Password == "" && t.Refresh == nil:
		return nil, errors.New("etcd takes a user only with a password: PAWL_PASSWORD or --password-file")
	}
	return &lazy{traits: etcd.Traits(), connect: func() (driver.Backend, error) {
		c.Username, c.Password = t.User, t.Password
		if t.Refresh != nil {
			var err error
			if c.Password, err = t.Refresh(); err != nil {
				return nil, err
			}
		}
		b, err := connect()
		if errors.Is(err, rpctypes.ErrAuthFailed) {
			err = fmt.Errorf("%w: %w", driver.ErrRefused, err)
		}
		return b, err
	}}, nil
}
