// Package open turns the URL of a store into a backend.
//
//	file:///var/lib/pawl                              a directory on this machine
//	mem://                                            this process alone, for trials
//	redis://[user[:password]@]host[:6379][/db]        a Redis server
//	redis+unix://[user[:password]@]/path[?db=n]       the same on a Unix socket; unix:// is an alias
//	redis+sentinel://…s1[:26379],s2/master[/db]       the master that Sentinel names
//	redis+cluster://…h1[:6379],h2                     a Redis Cluster, of which some nodes are named
//	redlock+redis://…h1[:6379],h2,h3[/db]             independent servers, of which a majority decides
//	etcd://[user:password@]h1[:2379],h2[/prefix]      an etcd cluster
//	zk://[user:password@]h1[:2181],h2[/root]          a ZooKeeper ensemble
//
// With rediss in place of redis, etcds in place of etcd, or zks in place of zk, it is over TLS. Lettuce's redis-sentinel:// is
// understood too, and redlock:// is redlock+redis://.
//
// It has a parser of its own. The one of net/url quotes the whole URL,
// password included, in its errors, and cuts a password at a raw # or @
// without an error; whether it takes several hosts depends on the patch release
// of Go. Here the user information ends at the last @ before the path, a % that
// begins no escape stands for itself, and no error ever shows a part of the URL
// that could be a part of a password.
package open

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Scheme is the kind of store a [Target] names.
type Scheme string

// The schemes, aliases resolved.
const (
	File        Scheme = "file"
	Memory      Scheme = "mem"
	Redis       Scheme = "redis"
	RedisTLS    Scheme = "rediss"
	RedisUnix   Scheme = "redis+unix"
	Sentinel    Scheme = "redis+sentinel"
	SentinelTLS Scheme = "rediss+sentinel"
	Cluster     Scheme = "redis+cluster"
	ClusterTLS  Scheme = "rediss+cluster"
	Redlock     Scheme = "redlock+redis"
	RedlockTLS  Scheme = "redlock+rediss"

	Etcd         Scheme = "etcd"
	EtcdTLS      Scheme = "etcds"
	ZooKeeper    Scheme = "zk"
	ZooKeeperTLS Scheme = "zks"
)

// scheme resolves aliases.
func scheme(name string) Scheme {
	switch name {
	case "unix":
		return RedisUnix
	case "redis-sentinel":
		return Sentinel
	case "rediss-sentinel":
		return SentinelTLS
	case "redlock":
		return Redlock
	}
	return Scheme(name)
}

// A Target is a URL taken apart.
type Target struct {
	Scheme      Scheme
	Path        string // File: the directory. RedisUnix: the socket. ZooKeeper: the root, empty for the default. Etcd: what keys begin with
	Hosts       []Host // the servers, the sentinels, some of a cluster's nodes
	Master      string // Sentinel: its name for the servers
	DB          int    // all of Redis but Cluster: the number of the database
	User        string // all of Redis: empty for the default user
	Password    string // all of Redis
	HasPassword bool   // an empty one was given, or one that is not empty

	SentinelUser, SentinelPassword string // of the sentinels themselves

	TLS        TLS
	Quarantine time.Duration // all of Redis but Cluster: the longest TTL of all clients, 0 for no quarantine

	Session, Tick time.Duration // ZooKeeper: the session time-out and the servers' tickTime, 0 for the defaults

	// Nodes are the servers of a quorum, each a Redis or RedisTLS of its own.
	Nodes []*Target

	// Refresh returns the password as it is now. It is called for each new
	// connection, so that a password can change while a lock is held. Nil: it
	// stays. Nodes of a quorum have their own.
	Refresh func() (string, error)
}

// A Host is where a server listens.
type Host struct {
	Name string // a name, or an IP address without brackets
	Port int
}

// TLS says how servers are trusted and how they trust us. The fields are paths of
// PEM files.
type TLS struct {
	CA        string // of authorities; the system's if empty
	Cert, Key string // the client's
	Insecure  bool   // any certificate will do
}

// Errors of [Parse]. None shows any part of the URL.
var (
	errScheme = errors.New("its scheme is not one of file, mem, redis, rediss, redis+unix, unix, redis+sentinel, rediss+sentinel, redis-sentinel, rediss-sentinel, " +
		"redis+cluster, rediss+cluster, redlock, redlock+redis, redlock+rediss, etcd, etcds, zk, zks")
	errSlashes    = errors.New("a scheme is followed by ://")
	errLateAt     = errors.New("it has an @ after the first /: write a / in a user name or password as %2F, and an @ in a path or a parameter as %40")
	errHost       = errors.New("its host is neither a name nor an IP address (an IPv6 address stands in brackets)")
	errHosts      = errors.New("it has several hosts: that is for redis+sentinel, redis+cluster, redlock, etcd and zk")
	errPort       = errors.New("its port is not a number from 1 to 65535 (write a / in a password as %2F)")
	errDB         = errors.New("its database is not a number from 0 to 999999")
	errClusterDB  = errors.New("a cluster has one database, number 0, and no other path")
	errMaster     = errors.New("it lacks the name of the master: redis+sentinel://s1,s2/NAME")
	errQuery      = errors.New("it has a parameter after the ? that its scheme does not take, takes once only, or with another value")
	errKeyPair    = errors.New("a client's certificate and its key go together: cert=FILE&key=FILE")
	errFileHost   = errors.New("a file URL has three slashes, file:///dir: it names no host")
	errPath       = errors.New("it needs an absolute path after the ://")
	errMemory     = errors.New("nothing may follow mem://")
	errNUL        = errors.New("it has a NUL character")
	errSeveral    = errors.New("several URLs are the nodes of a quorum: all redis:// or all rediss://, and alike but for host, user and password")
	errRoot       = errors.New("its path is not one that ZooKeeper can have below /")
	errSpan       = errors.New("its session or tick is not a length of time, as 40s")
	errQuarantine = errors.New("its quarantine is not a length of time, as 60s, which is the longest TTL of all clients")
)

// Parse takes the URL raw apart. Its errors never show any of it.
func Parse(raw string) (*Target, error) {
	name, rest, ok := strings.Cut(raw, ":")
	if !ok {
		return nil, errScheme
	}
	name = strings.ToLower(name)
	t := &Target{Scheme: scheme(name)}
	switch t.Scheme {
	case File, Memory, Redis, RedisTLS, RedisUnix, Sentinel, SentinelTLS, Cluster, ClusterTLS, Redlock, RedlockTLS, Etcd, EtcdTLS, ZooKeeper, ZooKeeperTLS:
	default:
		return nil, errScheme
	}
	rest, ok = strings.CutPrefix(rest, "//")
	if !ok {
		return nil, errSlashes
	}
	if strings.ContainsRune(rest, 0) {
		return nil, errNUL
	}
	var err error
	switch t.Scheme {
	case File:
		err = t.parseFile(rest)
	case Memory:
		if rest != "" {
			err = errMemory
		}
	case RedisUnix:
		err = t.parseSocket(rest)
	default:
		err = t.parseServers(rest, strings.HasSuffix(name, "-sentinel"))
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Target) parseFile(rest string) error {
	if rest == "" {
		return errPath
	}
	if rest[0] != '/' {
		return errFileHost
	}
	t.Path = unescape(rest)
	if strings.ContainsRune(t.Path, 0) {
		return errNUL
	}
	return nil
}

func (t *Target) parseSocket(rest string) error {
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		return errPath
	}
	host := t.cutUser(rest[:slash])
	if host != "" {
		// Either a host, which a socket has not, or a password cut by its /.
		return errPath
	}
	if slash > 0 && strings.ContainsRune(rest[slash:], '@') {
		// The @ before the path may be one of the password's.
		return errLateAt
	}
	path, query, _ := strings.Cut(rest[slash:], "?")
	t.Path = unescape(path)
	if strings.ContainsRune(t.Path, 0) {
		return errNUL
	}
	return t.parseQuery(query)
}

// parseServers takes apart what follows the slashes of a URL with hosts. In
// Lettuce's dialect the master may be a parameter or, after a #, the fragment.
func (t *Target) parseServers(rest string, lettuce bool) error {
	authority, path, slash := strings.Cut(rest, "/")
	if strings.ContainsRune(path, '@') {
		// A raw / in a password: what looks like the host is a part of it.
		return errLateAt
	}
	hosts := t.cutUser(authority)
	if i := strings.IndexAny(hosts, "?#"); i >= 0 && (hosts[i] == '?' || lettuce) { // no path
		if slash {
			path = "/" + path
		}
		hosts, path = hosts[:i], hosts[i:]+path
	}
	if err := t.parseHosts(hosts); err != nil {
		return err
	}
	if before, master, ok := strings.Cut(path, "#"); lettuce && ok {
		path, t.Master = before, unescape(master)
	}
	path, query, _ := strings.Cut(path, "?")
	if err := t.parseQuery(query); err != nil {
		return err
	}
	if err := t.parsePath(path); err != nil {
		return err
	}
	if t.Scheme == Redlock || t.Scheme == RedlockTLS {
		t.split()
	}
	return nil
}

func (t *Target) parsePath(path string) error {
	switch t.Scheme {
	case Etcd, EtcdTLS:
		return t.parsePrefix(path)
	case ZooKeeper, ZooKeeperTLS:
		return t.parseRoot(path)
	case Cluster, ClusterTLS:
		if path != "" && path != "0" {
			return errClusterDB
		}
		return nil
	case Sentinel, SentinelTLS:
		if t.Master == "" {
			var master string
			master, path, _ = strings.Cut(path, "/")
			t.Master = unescape(master)
		}
		if t.Master == "" || strings.ContainsFunc(t.Master, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return errMaster
		}
	}
	if path == "" {
		return nil
	}
	return t.parseDB(path)
}

// split makes a node of each host.
func (t *Target) split() {
	scheme := Redis
	if t.secure() {
		scheme = RedisTLS
	}
	for _, h := range t.Hosts {
		n := *t
		n.Scheme, n.Hosts, n.Nodes = scheme, []Host{h}, nil
		t.Nodes = append(t.Nodes, &n)
	}
	t.User, t.Password, t.HasPassword = "", "", false // the nodes have them
}

// Join makes a quorum of the servers that targets name, of one only that one.
func Join(targets []*Target) (*Target, error) {
	if len(targets) == 1 {
		return targets[0], nil
	}
	if len(targets) == 0 {
		return nil, errScheme
	}
	first := targets[0]
	t := &Target{Scheme: Redlock, DB: first.DB, TLS: first.TLS, Quarantine: first.Quarantine, Nodes: targets}
	if first.Scheme == RedisTLS {
		t.Scheme = RedlockTLS
	}
	for _, n := range targets {
		if n.Scheme != Redis && n.Scheme != RedisTLS || n.Scheme != first.Scheme || n.DB != first.DB || n.TLS != first.TLS || n.Quarantine != first.Quarantine {
			return nil, errSeveral
		}
		t.Hosts = append(t.Hosts, n.Hosts...)
	}
	return t, nil
}

// Servers returns what needs a password: t, or the nodes of a quorum.
func (t *Target) Servers() []*Target {
	switch {
	case t.Scheme == File || t.Scheme == Memory:
		return nil
	case len(t.Nodes) > 0:
		return t.Nodes
	}
	return []*Target{t}
}

// secure reports whether t is over TLS.
func (t *Target) secure() bool {
	return slices.Contains([]Scheme{RedisTLS, SentinelTLS, ClusterTLS, RedlockTLS, EtcdTLS, ZooKeeperTLS}, t.Scheme)
}

func (t *Target) parseDB(s string) error {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n > 999999 {
		return errDB
	}
	t.DB = int(n)
	return nil
}

// String returns the URL without user and password, for people and for the
// environment of a command. Two URLs of one store may still differ.
func (t *Target) String() string {
	s := string(t.Scheme) + "://"
	switch t.Scheme {
	case File:
		return s + escapePath(t.Path)
	case Memory:
		return s
	case RedisUnix:
		return s + escapePath(t.Path) + t.query()
	}
	for i, h := range t.Hosts {
		if i > 0 {
			s += ","
		}
		s += h.String()
	}
	switch t.Scheme {
	case Cluster, ClusterTLS:
	case Etcd, EtcdTLS:
		if t.Path != "" {
			s += "/" + escapeAll(t.Path, "%?@")
		}
	case ZooKeeper, ZooKeeperTLS:
		s += escapeAll(t.Path, "%?@")
	case Sentinel, SentinelTLS:
		s += "/" + escapeAll(t.Master, "%?&#@=/") + "/" + strconv.Itoa(t.DB)
	default:
		s += "/" + strconv.Itoa(t.DB)
	}
	return s + t.query()
}
