// Package open turns the URL of a store into a backend.
//
//	file:///var/lib/pawl                          a directory on this machine
//	mem://                                        this process alone, for trials
//	redis://[user[:password]@]host[:6379][/db]    a Redis server
//	rediss://…                                    the same over TLS
//	redis+unix://[user[:password]@]/path[?db=n]   the same over a Unix socket; unix:// is an alias
//
// It has a parser of its own. The one of net/url quotes the whole URL,
// password included, in its errors, and cuts a password at a raw # or @
// without an error. Here the user information ends at the last @ before the
// path, a % that begins no escape stands for itself, and no error ever shows a
// part of the URL that could be a part of a password.
package open

import (
	"errors"
	"net"
	"strconv"
	"strings"
)

// Scheme is the kind of store a [Target] names.
type Scheme string

// The schemes, aliases resolved.
const (
	File      Scheme = "file"
	Memory    Scheme = "mem"
	Redis     Scheme = "redis"
	RedisTLS  Scheme = "rediss"
	RedisUnix Scheme = "redis+unix"
)

// A Target is a URL taken apart.
type Target struct {
	Scheme      Scheme
	Path        string // File: the directory. RedisUnix: the socket
	Host        string // Redis and RedisTLS: a name or an IP address without brackets
	Port        int    // Redis and RedisTLS
	DB          int    // all of Redis: the number of the database
	User        string // all of Redis: empty for the default user
	Password    string // all of Redis
	HasPassword bool   // an empty one was given, or one that is not empty
}

// Errors of [Parse]. None shows any part of the URL.
var (
	errScheme   = errors.New("its scheme is not one of file, mem, redis, rediss, redis+unix, unix")
	errSlashes  = errors.New("a scheme is followed by ://")
	errLateAt   = errors.New("it has an @ after the first /: write a / in a user name or password as %2F, and an @ in a path as %40")
	errHost     = errors.New("its host is neither a name nor an IP address (an IPv6 address stands in brackets; one host is allowed)")
	errPort     = errors.New("its port is not a number from 1 to 65535 (write a / in a password as %2F)")
	errDB       = errors.New("its database is not a number from 0 to 999999")
	errQuery    = errors.New("the only query parameter it can have is db, with redis+unix")
	errFileHost = errors.New("a file URL has three slashes, file:///dir: it names no host")
	errPath     = errors.New("it needs an absolute path after the ://")
	errMemory   = errors.New("nothing may follow mem://")
	errNUL      = errors.New("it has a NUL character")
)

// Parse takes the URL raw apart. Its errors never show any of it.
func Parse(raw string) (*Target, error) {
	name, rest, ok := strings.Cut(raw, ":")
	if !ok {
		return nil, errScheme
	}
	t := &Target{Scheme: Scheme(strings.ToLower(name))}
	switch t.Scheme {
	case "unix":
		t.Scheme = RedisUnix
	case File, Memory, Redis, RedisTLS, RedisUnix:
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
		err = t.parseServer(rest)
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
	path, query, has := strings.Cut(rest[slash:], "?")
	t.Path = unescape(path)
	if strings.ContainsRune(t.Path, 0) {
		return errNUL
	}
	if !has {
		return nil
	}
	value, ok := strings.CutPrefix(query, "db=")
	if !ok {
		return errQuery
	}
	return t.parseDB(value)
}

func (t *Target) parseServer(rest string) error {
	authority, path, _ := strings.Cut(rest, "/")
	if strings.ContainsRune(path, '@') {
		// A raw / in a password: what looks like the host is a part of it.
		return errLateAt
	}
	if err := t.parseHost(t.cutUser(authority)); err != nil {
		return err
	}
	if strings.ContainsRune(path, '?') {
		return errQuery
	}
	if path == "" {
		return nil
	}
	return t.parseDB(path)
}

// cutUser takes the user information off authority and returns the rest.
func (t *Target) cutUser(authority string) string {
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return authority
	}
	user, password, has := strings.Cut(authority[:at], ":")
	t.User, t.Password, t.HasPassword = unescape(user), unescape(password), has
	return authority[at+1:]
}

func (t *Target) parseHost(s string) error {
	t.Port = 6379
	host, port, hasPort := s, "", false
	if strings.HasPrefix(s, "[") {
		inner, after, ok := strings.Cut(s[1:], "]")
		ip, _, _ := strings.Cut(unescape(inner), "%")
		if addr := net.ParseIP(ip); !ok || addr == nil || !strings.Contains(ip, ":") {
			return errHost
		}
		host = unescape(inner)
		port, hasPort = strings.CutPrefix(after, ":")
		if !hasPort && after != "" {
			return errHost
		}
	} else {
		host, port, hasPort = strings.Cut(s, ":")
		if strings.Trim(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") != "" {
			return errHost
		}
	}
	if host == "" {
		host = "localhost"
	}
	t.Host = host
	if !hasPort {
		return nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return errPort
	}
	t.Port = int(n)
	return nil
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
	switch t.Scheme {
	case File:
		return "file://" + escapePath(t.Path)
	case Memory:
		return "mem://"
	case RedisUnix:
		s := "redis+unix://" + escapePath(t.Path)
		if t.DB != 0 {
			s += "?db=" + strconv.Itoa(t.DB)
		}
		return s
	}
	return string(t.Scheme) + "://" + net.JoinHostPort(strings.ReplaceAll(t.Host, "%", "%25"), strconv.Itoa(t.Port)) + "/" + strconv.Itoa(t.DB)
}

// unescape decodes the escapes of s, and leaves a % that begins none as it is.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// escapePath writes path so that [Parse] reads it back and it stays on one
// line.
func escapePath(path string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(path) {
		c := path[i]
		if c <= ' ' || c == '%' || c == '?' || c >= 0x7f {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}
