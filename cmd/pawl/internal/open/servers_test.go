package open_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlock/pawl/cmd/pawl/internal/open"
	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
)

// use opens raw and takes a lock twice over: with a hand-over, so that calls have
// to come through as well.
func use(t *testing.T, raw string, change ...func(*open.Target)) error {
	t.Helper()
	target, err := open.Parse(raw)
	if err != nil {
		t.Fatalf("Parse(%q): %v", raw, err)
	}
	for _, set := range change {
		set(target)
	}
	b, err := target.Open()
	if err != nil {
		return err
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ids := driver.NewIdentity("me")
	claim := func() driver.Claim {
		return driver.Claim{Key: "k", ID: ids.Next(), Weight: 1, Capacity: 1, TTL: 10 * time.Second}
	}
	first, second := claim(), claim()
	if first.Grant, err = b.Acquire(ctx, first); err != nil {
		return err
	}
	second.Queue = b.Traits().Fair
	time.AfterFunc(50*time.Millisecond, func() { b.Release(ctx, first) })
	for {
		second.Grant, err = b.Acquire(ctx, second)
		var held *driver.HeldError
		if !errors.As(err, &held) {
			break
		}
		if err = b.Wait(ctx, second, held); err != nil {
			break
		}
	}
	if err != nil {
		return err
	}
	if second.Grant.Token <= first.Grant.Token {
		t.Errorf("%s: the second token is %d, want more than %d", raw, second.Grant.Token, first.Grant.Token)
	}
	return b.Release(ctx, second)
}

func TestTLSServers(t *testing.T) {
	certs := testserver.NewCertificates(t)
	strict := testserver.StartRedis(t, testserver.RedisOptions{TLS: certs})
	lax := testserver.StartRedis(t, testserver.RedisOptions{TLS: certs, AnyClient: true})
	ca, pair := "?ca="+certs.CA, "&cert="+certs.ClientCert+"&key="+certs.ClientKey
	byName := "localhost" + strings.TrimPrefix(lax.Addr, "127.0.0.1")
	for _, test := range []struct {
		url, want string // want: a part of the error, "" for none
	}{
		{"rediss://" + lax.Addr + ca, ""},
		{"rediss://" + byName + ca, ""},
		{"rediss://" + lax.Addr + "?insecure=true", ""},
		{"rediss://" + strict.Addr + ca + pair, ""},
		{"redlock+rediss://" + strict.Addr + ca + pair, "fewer than 3"},
		{"rediss://" + lax.Addr, "unknown authority"},
		{"rediss://" + strict.Addr + ca, "certificate required"},
		{"redis://" + lax.Addr, ""},
		{"rediss://" + lax.Addr + "?ca=/nowhere.pem", "no such file"},
		{"rediss://" + lax.Addr + "?ca=" + certs.ServerKey, "has no certificate"},
		{"rediss://" + lax.Addr + "?cert=" + certs.ClientCert + "&key=" + certs.ServerKey, "private key does not match"},
	} {
		err := use(t, test.url)
		switch plain := strings.HasPrefix(test.url, "redis://"); {
		case plain && err == nil:
			t.Errorf("%s: a plain connection to a server with TLS works", test.url)
		case plain:
		case test.want == "" && err != nil, test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: got error %v, want %q", test.url, err, test.want)
		case test.want == "unknown authority" && !errors.Is(err, driver.ErrRefused):
			t.Errorf("%s: got %v, want ErrRefused: nothing was sent to a server that is not trusted", test.url, err)
		}
	}
}

func TestSentinels(t *testing.T) {
	certs := testserver.NewCertificates(t)
	s := testserver.StartSentinel(t, testserver.SentinelOptions{
		Replicas: 1, Sentinels: 1,
		Server: testserver.RedisOptions{TLS: certs, Args: []string{
			"--user", "locker", "on", ">p1", "~*", "&*", "+@all", "--user", "default", "on", "nopass", "~*", "&*", "+@all"}},
		Auth: []string{"user watcher on >p2 +@all ~* &*", "user default on nopass +@all ~* &*"},
	})
	query := "?ca=" + certs.CA + "&cert=" + certs.ClientCert + "&key=" + certs.ClientKey
	servers := "127.0.0.1:1," + s.Addrs()[0] // one of them may be down
	for _, url := range []string{
		"rediss+sentinel://" + servers + "/" + s.Name + query,
		"rediss+sentinel://locker:p1@" + servers + "/" + s.Name + "/2" + query + "&sentinel_username=watcher&sentinel_password=p2",
		"rediss-sentinel://locker:p1@" + servers + "/2" + query + "&sentinelMasterId=" + s.Name,
		"rediss-sentinel://" + servers + query + "#" + s.Name,
	} {
		if err := use(t, url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	if v := s.Servers[0].Do("INFO", "keyspace").(string); !strings.Contains(v, "db2:keys=1,") {
		t.Errorf("databases: got %q, want the fence of a lock in number 2", v)
	}
	for url, want := range map[string]string{
		"rediss+sentinel://locker:MARKER@" + servers + "/" + s.Name + query:                                           "WRONGPASS",
		"rediss+sentinel://" + servers + "/" + s.Name + query + "&sentinel_username=watcher&sentinel_password=MARKER": "",
		"rediss+sentinel://" + servers + "/another" + query:                                                           "",
	} {
		err := use(t, url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "MARKER") {
			t.Errorf("%s: got error %v, want one with %q and without the password", url, err, want)
		}
	}
}

func TestClusters(t *testing.T) {
	certs := testserver.NewCertificates(t)
	secure := testserver.StartCluster(t, testserver.ClusterOptions{Masters: 1, Node: testserver.RedisOptions{TLS: certs}})
	plain := testserver.StartCluster(t, testserver.ClusterOptions{Masters: 1, Node: testserver.RedisOptions{Args: []string{
		"--user", "locker", "on", ">p@", "~*", "&*", "+@all"}}})
	for _, url := range []string{
		"rediss+cluster://" + secure.Addrs()[0] + "?ca=" + certs.CA + "&cert=" + certs.ClientCert + "&key=" + certs.ClientKey,
		"redis+cluster://locker:p@@127.0.0.1:1," + plain.Addrs()[0],
	} {
		if err := use(t, url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestSocketsAndUsers(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{Socket: true, Args: []string{
		"--user", "locker", "on", ">p@#/1", "~*", "&*", "+@all", "--user", "default", "off"}})
	for _, url := range []string{
		"unix://locker:p@#%2F1@" + s.Socket,
		"redis+unix://locker:p@#%2F1@" + s.Socket + "?db=3",
		"redis://locker:p@#%2F1@" + s.Addr,
	} {
		if err := use(t, url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	if err := use(t, "unix://locker:wrong@"+s.Socket); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("a wrong password: got %v, want WRONGPASS", err)
	}
}

func TestAQuorumOfServers(t *testing.T) {
	var hosts []string
	var servers []*testserver.Redis
	for i := range 3 {
		s := testserver.StartRedis(t, testserver.RedisOptions{Args: []string{"--requirepass", fmt.Sprint("p", i)}})
		hosts, servers = append(hosts, s.Addr), append(servers, s)
	}
	passwords := func(target *open.Target) {
		for i, n := range target.Servers() {
			n.Password = fmt.Sprint("p", i)
		}
	}
	if err := use(t, "redlock://"+strings.Join(hosts, ","), passwords); err != nil {
		t.Errorf("a quorum of three: %v", err)
	}
	if err := use(t, "redlock://"+strings.Join(append(hosts[:2:2], "127.0.0.1:1"), ","), passwords); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("other servers than before: got %v, want that the configuration is another", err)
	}
	for i := range 2 {
		c := servers[i].Client() // which forget the configuration
		for _, command := range [][]any{{"AUTH", fmt.Sprint("p", i)}, {"DEL", "pawl.quorum:lock:"}} {
			if _, err := c.Do(t.Context(), command...); err != nil {
				t.Fatal(err)
			}
		}
	}
	same := "localhost" + strings.TrimPrefix(hosts[0], "127.0.0.1")
	if err := use(t, "redlock://"+hosts[0]+","+same+","+hosts[1], func(target *open.Target) {
		for i, p := range []string{"p0", "p0", "p1"} {
			target.Nodes[i].Password = p
		}
	}); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "same server") {
		t.Errorf("a server under two names: got %v, want ErrInvalid that says so", err)
	}
}

// The password changes while a lock is held, and every connection is cut.
func TestThePasswordIsReadForEachConnection(t *testing.T) {
	s := testserver.StartRedis(t, testserver.RedisOptions{Args: []string{"--user", "locker", "on", ">old", "~*", "&*", "+@all"}})
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	target, err := open.Parse("redis://locker@" + s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	target.Refresh = func() (string, error) { b, err := os.ReadFile(file); return string(b), err }
	b, err := target.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := driver.Claim{Key: "k", ID: driver.NewIdentity("me").Next(), Weight: 1, Capacity: 1, TTL: time.Minute}
	if c.Grant, err = b.Acquire(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.Do("ACL", "SETUSER", "locker", "resetpass", ">new")
	if _, err := b.Renew(t.Context(), c); err != nil {
		t.Errorf("Renew on a connection from before: %v", err)
	}
	s.Do("CLIENT", "KILL", "USER", "locker", "SKIPME", "yes")
	var refused error
	for range 10 { // the first ones find their connections closed
		if _, refused = b.Renew(t.Context(), c); errors.Is(refused, driver.ErrRefused) {
			break
		}
	}
	if !errors.Is(refused, driver.ErrRefused) || errors.Is(refused, driver.ErrLost) {
		t.Errorf("Renew with the old password: got %v, want ErrRefused", refused)
	}
	write("new")
	if g, err := b.Renew(t.Context(), c); err != nil || g.Token != c.Grant.Token {
		t.Errorf("Renew with the new password: got %+v, %v, want the same grant", g, err)
	}
}

func TestEtcdClusters(t *testing.T) {
	certs := testserver.NewCertificates(t)
	secure := testserver.StartEtcd(t, testserver.EtcdOptions{TLS: certs})[0]
	plain := testserver.StartEtcd(t, testserver.EtcdOptions{})[0]
	pair := "?ca=" + certs.CA + "&cert=" + certs.ClientCert + "&key=" + certs.ClientKey
	for _, url := range []string{
		"etcd://" + plain.Addr,
		"etcd://127.0.0.1:1," + plain.Addr + "//some/prefix/", // one of them may be down
		"etcds://" + secure.Addr + pair,
	} {
		if err := use(t, url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for url, want := range map[string]string{
		"etcds://" + secure.Addr:                            "authority",
		"etcds://" + secure.Addr + "?ca=" + certs.CA:        "", // which of them tells differs
		"etcds://" + plain.Addr + "?ca=" + certs.CA:         "handshake",
		"etcd://locker:@" + plain.Addr:                      "PAWL_PASSWORD",
		"etcd://:MARKER@" + plain.Addr:                      "with a user",
		"etcds://" + secure.Addr + "?ca=" + certs.ServerKey: "has no certificate",
	} {
		if err := use(t, url); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "MARKER") {
			t.Errorf("%s: got error %v, want %q, without the password", url, err, want)
		}
	}

	// With users: one that may write below a prefix and nowhere else.
	server := testserver.StartEtcd(t, testserver.EtcdOptions{})[0]
	etcdctl := func(args ...string) {
		cmd := exec.Command(testserver.EtcdProgram(t, "etcdctl", false), append([]string{"--endpoints", server.Addr}, args...)...)
		cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("etcdctl %q: %v: %s", args, err, out)
		}
	}
	etcdctl("user", "add", "root:r")
	etcdctl("user", "add", "locker:p@")
	etcdctl("role", "add", "locks")
	etcdctl("role", "grant-permission", "locks", "--prefix=true", "readwrite", "locks/")
	etcdctl("user", "grant-role", "locker", "locks")
	etcdctl("user", "grant-role", "root", "root")
	etcdctl("auth", "enable")
	if err := use(t, "etcd://locker:p%40@"+server.Addr+"/locks/"); err != nil {
		t.Errorf("a user where it may write: %v", err)
	}
	if err := use(t, "etcd://locker@"+server.Addr+"/locks/", func(target *open.Target) {
		target.Refresh = func() (string, error) { return "p@", nil }
	}); err != nil {
		t.Errorf("a password from a file: %v", err)
	}
	for _, url := range []string{
		"etcd://locker:p%40@" + server.Addr + "/others/",
		"etcd://locker:MARKER@" + server.Addr + "/locks/",
		"etcd://" + server.Addr + "/locks/",
	} {
		if err := use(t, url); !errors.Is(err, driver.ErrRefused) || strings.Contains(err.Error(), "MARKER") {
			t.Errorf("%s: got %v, want ErrRefused, without the password", url, err)
		}
	}
}

func TestEnsembles(t *testing.T) {
	server := testserver.StartZooKeeper(t, 1)[0]
	for _, url := range []string{
		"zk://" + server.Addr,
		"zk://127.0.0.1:1," + server.Addr + "/some/root", // one of them may be down
		"zk://locker:p%40@" + server.Addr + "/guarded?session=20s&tick=100ms",
	} {
		if err := use(t, url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	err := use(t, "zk://locker:MARKER@"+server.Addr+"/guarded")
	if !errors.Is(err, driver.ErrRefused) || strings.Contains(err.Error(), "MARKER") {
		t.Errorf("a wrong password: got %v, want ErrRefused, without the password", err)
	}
	if err := use(t, "zk://"+server.Addr+"/root", func(target *open.Target) { target.Password, target.HasPassword = "p", true }); err == nil {
		t.Error("a password without a user: got no error")
	}
}
