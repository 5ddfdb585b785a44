package testserver

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A Sentinel is a master with replicas, and sentinels that watch them.
type Sentinel struct {
	Name      string   // of the master, for clients
	Servers   []*Redis // the first master, then the replicas
	Sentinels []*Redis

	t testing.TB
}

// SentinelOptions say how servers and sentinels are started.
type SentinelOptions struct {
	Replicas  int          // default 2
	Sentinels int          // default 3
	Server    RedisOptions // of all servers, and TLS of the sentinels
	Auth      []string     // lines for the configuration of sentinels, as "sentinel auth-pass mymaster x"
}

const masterName = "mymaster"

// StartSentinel starts a master, replicas and sentinels, and waits until all know
// of each other: two to three seconds. A master that is silent for half a second is
// replaced.
func StartSentinel(t testing.TB, o SentinelOptions) *Sentinel {
	t.Helper()
	Require(t, "redis", Program())
	if o.Replicas == 0 {
		o.Replicas = 2
	}
	if o.Sentinels == 0 {
		o.Sentinels = 3
	}
	s := &Sentinel{Name: masterName, t: t}
	addrs := freeAddrs(t, 1+o.Replicas+o.Sentinels)
	host, port, _ := net.SplitHostPort(addrs[0])
	for i, addr := range addrs[:1+o.Replicas] {
		server := o.Server
		server.Args = append([]string{"--repl-diskless-sync-delay", "0"}, server.Args...)
		if i > 0 {
			server.Args = append(server.Args, "--replicaof", host, port)
		}
		r := newRedis(t, addr, server)
		r.launch()
		s.Servers = append(s.Servers, r)
	}
	for _, r := range s.Servers {
		r.await()
	}
	for _, addr := range addrs[1+o.Replicas:] {
		r := newSentinel(t, addr, host, port, o)
		r.launch()
		s.Sentinels = append(s.Sentinels, r)
	}
	for _, r := range s.Sentinels {
		poll(t, "sentinel "+r.Addr+" knows the others", func() error {
			v, err := r.Try("SENTINEL", "MASTER", masterName)
			if err != nil {
				return err
			}
			return hasPairs(v.([]any), map[string]string{
				"flags": "master", "num-slaves": fmt.Sprint(o.Replicas), "num-other-sentinels": fmt.Sprint(o.Sentinels - 1),
			})
		})
		poll(t, "sentinel "+r.Addr+" knows that the replicas are in order", func() error {
			v, err := r.Try("SENTINEL", "REPLICAS", masterName)
			if err != nil {
				return err
			}
			for _, replica := range v.([]any) {
				if err := hasPairs(replica.([]any), map[string]string{"flags": "slave", "master-link-status": "ok"}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return s
}

// newSentinel readies a sentinel for its launch.
func newSentinel(t testing.TB, addr, masterHost, masterPort string, o SentinelOptions) *Redis {
	t.Helper()
	_, port, _ := net.SplitHostPort(addr)
	dir := tempDir(t)
	r := &Redis{Addr: addr, t: t, log: new(output)}
	lines := []string{
		"bind 127.0.0.1", "dir " + dir,
		fmt.Sprintf("sentinel monitor %s %s %s %d", masterName, masterHost, masterPort, o.Sentinels/2+1),
		"sentinel down-after-milliseconds " + masterName + " 500",
		"sentinel failover-timeout " + masterName + " 3000",
		"sentinel parallel-syncs " + masterName + " 5",
	}
	if o.Server.TLS == nil {
		lines = append(lines, "port "+port)
	} else {
		r.tls = o.Server.TLS.Client()
		lines = append(lines, "port 0", "tls-port "+port)
		args := o.Server.TLS.args()
		for i := 0; i < len(args); i += 2 {
			lines = append(lines, strings.TrimPrefix(args[i], "--")+" "+args[i+1])
		}
	}
	conf := filepath.Join(dir, "sentinel.conf")
	if err := os.WriteFile(conf, []byte(strings.Join(append(lines, o.Auth...), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.args = []string{conf, "--sentinel"}
	r.cleanUp()
	return r
}

// hasPairs returns an error unless list, of names and values, has want.
func hasPairs(list []any, want map[string]string) error {
	missing := len(want)
	for i := 0; i+1 < len(list); i += 2 {
		if v, ok := want[list[i].(string)]; ok && v == list[i+1] {
			missing--
		}
	}
	if missing > 0 {
		return fmt.Errorf("want %v in %v", want, list)
	}
	return nil
}

// Addrs returns the addresses of the sentinels.
func (s *Sentinel) Addrs() []string {
	var addrs []string
	for _, r := range s.Sentinels {
		addrs = append(addrs, r.Addr)
	}
	return addrs
}

// Master waits until the sentinels name another master than old, which may be
// nil, and it knows that it is one.
func (s *Sentinel) Master(old *Redis) *Redis {
	s.t.Helper()
	var master *Redis
	poll(s.t, "another master", func() error {
		v, err := s.Sentinels[0].Try("SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
		if err != nil {
			return err
		}
		addr, _ := v.([]any)
		for _, r := range s.Servers {
			if len(addr) == 2 && r != old && r.Addr == net.JoinHostPort(addr[0].(string), addr[1].(string)) {
				master = r
				return r.says("INFO", "replication", "role:master")
			}
		}
		return fmt.Errorf("it is %v", v)
	})
	return master
}
