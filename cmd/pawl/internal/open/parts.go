package open

import (
	"net"
	"strconv"
	"strings"
	"time"
)

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

// parseHosts takes apart a list of hosts with commas.
func (t *Target) parseHosts(s string) error {
	list := strings.Split(s, ",")
	if len(list) > 1 && (t.Scheme == Redis || t.Scheme == RedisTLS) {
		return errHosts
	}
	port := 6379
	if t.Scheme == Sentinel || t.Scheme == SentinelTLS {
		port = 26379
	}
	switch {
	case t.etcd():
		port = 2379
	case t.zooKeeper():
		port = 2181
	}
	for _, item := range list {
		h, err := parseHost(item, port)
		if err != nil {
			return err
		}
		if h.Name == "" {
			if len(list) > 1 {
				return errHost
			}
			h.Name = "localhost"
		}
		t.Hosts = append(t.Hosts, h)
	}
	return nil
}

func parseHost(s string, defaultPort int) (Host, error) {
	name, port, hasPort := s, "", false
	if strings.HasPrefix(s, "[") {
		inner, after, ok := strings.Cut(s[1:], "]")
		ip, _, _ := strings.Cut(unescape(inner), "%")
		if addr := net.ParseIP(ip); !ok || addr == nil || !strings.Contains(ip, ":") {
			return Host{}, errHost
		}
		name = unescape(inner)
		port, hasPort = strings.CutPrefix(after, ":")
		if !hasPort && after != "" {
			return Host{}, errHost
		}
	} else {
		name, port, hasPort = strings.Cut(s, ":")
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") != "" {
			return Host{}, errHost
		}
	}
	if !hasPort {
		return Host{name, defaultPort}, nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return Host{}, errPort
	}
	return Host{name, int(n)}, nil
}

// Addr returns host:port as it is dialled.
func (h Host) Addr() string { return net.JoinHostPort(h.Name, strconv.Itoa(h.Port)) }

// String returns host:port as it stands in a URL.
func (h Host) String() string {
	return net.JoinHostPort(strings.ReplaceAll(h.Name, "%", "%25"), strconv.Itoa(h.Port))
}

// parseQuery takes the parameters apart. Each stands once.
func (t *Target) parseQuery(query string) error {
	if query == "" {
		return nil
	}
	seen := make(map[string]bool)
	for _, item := range strings.Split(query, "&") {
		name, value, ok := strings.Cut(item, "=")
		if !ok || seen[name] {
			return errQuery
		}
		seen[name] = true
		value = unescape(value)
		if strings.ContainsRune(value, 0) {
			return errNUL
		}
		if err := t.parseParameter(name, value); err != nil {
			return err
		}
	}
	if (t.TLS.Cert == "") != (t.TLS.Key == "") {
		return errKeyPair
	}
	return nil
}

func (t *Target) parseParameter(name, value string) error {
	sentinel := t.Scheme == Sentinel || t.Scheme == SentinelTLS
	cluster := t.Scheme == Cluster || t.Scheme == ClusterTLS
	switch {
	case value == "":
		return errQuery
	case name == "db" && t.Scheme == RedisUnix:
		return t.parseDB(value)
	case name == "session" && t.zooKeeper():
		return parseSpan(&t.Session, value)
	case name == "tick" && t.zooKeeper():
		return parseSpan(&t.Tick, value)
	case name == "quarantine" && !cluster && !t.zooKeeper() && !t.etcd():
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return errQuarantine
		}
		t.Quarantine = d
	case name == "sentinelMasterId" && sentinel && t.Master == "":
		t.Master = value
	case name == "sentinel_username" && sentinel:
		t.SentinelUser = value
	case name == "sentinel_password" && sentinel:
		t.SentinelPassword = value
	case name == "ca" && t.secure():
		t.TLS.CA = value
	case name == "cert" && t.secure():
		t.TLS.Cert = value
	case name == "key" && t.secure():
		t.TLS.Key = value
	case name == "insecure" && t.secure():
		insecure, err := strconv.ParseBool(value)
		if err != nil {
			return errQuery
		}
		t.TLS.Insecure = insecure
	default:
		return errQuery
	}
	return nil
}

// query returns the parameters, with the ? before them, without users and
// passwords.
func (t *Target) query() string {
	var list []string
	add := func(name, value string) {
		if value != "" {
			list = append(list, name+"="+escape(value))
		}
	}
	if t.Scheme == RedisUnix && t.DB != 0 {
		add("db", strconv.Itoa(t.DB))
	}
	add("ca", t.TLS.CA)
	add("cert", t.TLS.Cert)
	add("key", t.TLS.Key)
	if t.TLS.Insecure {
		add("insecure", "true")
	}
	if t.Quarantine > 0 {
		add("quarantine", t.Quarantine.String())
	}
	if t.Session > 0 {
		add("session", t.Session.String())
	}
	if t.Tick > 0 {
		add("tick", t.Tick.String())
	}
	if len(list) == 0 {
		return ""
	}
	return "?" + strings.Join(list, "&")
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
func escapePath(path string) string { return escapeAll(path, "%?") }

// escape does that for a parameter, or a part of a path.
func escape(s string) string { return escapeAll(s, "%?&#@=") }

func escapeAll(s, special string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(special, c) >= 0 {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}
