package open

import (
	"crypto/tls"
	"errors"
	"strings"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/zookeeper"
)

// zooKeeper reports whether t is an ensemble of ZooKeeper.
func (t *Target) zooKeeper() bool { return t.Scheme == ZooKeeper || t.Scheme == ZooKeeperTLS }

// Takes reports whether a password in the environment variable name is for t: one
// for Redis goes nowhere else, and ZooKeeper and etcd have none without a user.
func (t *Target) Takes(name string) bool {
	return !t.zooKeeper() && !t.etcd() || name == "PAWL_PASSWORD" && t.User != ""
}

// parseRoot takes the path of an ensemble's URL: where the keys are kept.
func (t *Target) parseRoot(path string) error {
	path = strings.TrimSuffix(unescape(path), "/")
	if path == "" {
		return nil
	}
	t.Path = "/" + path
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." {
			return errRoot
		}
	}
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd }) {
		return errRoot
	}
	return nil
}

// parseSpan takes a parameter that is a length of time.
func parseSpan(to *time.Duration, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return errSpan
	}
	*to = d
	return nil
}

// openZooKeeper returns the backend of an ensemble.
func (t *Target) openZooKeeper() (driver.Backend, error) {
	o := &zookeeper.Options{Root: t.Path, SessionTimeout: t.Session, TickTime: t.Tick, User: t.User, Password: t.Password}
	switch {
	case t.User == "" && t.HasPassword:
		return nil, errors.New("ZooKeeper takes a password only with a user: zk://user@host")
	case t.User != "" && t.Refresh != nil:
		// A password belongs to what it has made: it can't change meanwhile.
		password, err := t.Refresh()
		if err != nil {
			return nil, err
		}
		o.Password = password
	}
	if t.secure() {
		var config *tls.Config
		var err error
		if config, err = t.TLS.config(); err != nil {
			return nil, err
		}
		o.TLS = config
	}
	var servers []string
	for _, h := range t.Hosts {
		servers = append(servers, h.Addr())
	}
	return zookeeper.New(servers, o)
}
