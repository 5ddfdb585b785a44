package zookeeper_test

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
	"github.com/pawlock/pawl/zookeeper"
)

// with returns a user of a backend with o.
func with(t *testing.T, addr string, o zookeeper.Options) user {
	t.Helper()
	o.TickTime = testserver.ZooKeeperTick
	b, err := zookeeper.New([]string{addr}, &o)
	if err != nil {
		t.Fatal(err)
	}
	u := user{b, t, driver.NewIdentity("t")}
	t.Cleanup(func() { u.Close() })
	return u
}

// Over TLS the servers are known by their names, and the client by its certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	certs := testserver.NewCertificates(t)
	server := testserver.StartSecureZooKeeper(t, certs)
	byName := "localhost" + strings.TrimPrefix(server.SecureAddr, "127.0.0.1")
	for _, addr := range []string{server.SecureAddr, byName} {
		u := with(t, addr, zookeeper.Options{TLS: certs.Client()})
		if err := u.Release(t.Context(), u.await(t.Context(), u.mutex("k", 10*time.Second))); err != nil { // a busy server takes its time to agree
			t.Errorf("Release over TLS: %v", err)
		}
	}
	stranger := certs.Client()
	stranger.ServerName = "another.example"
	anonymous := certs.Client()
	anonymous.Certificates = nil
	for name, test := range map[string]struct {
		config *tls.Config
		want   string
	}{
		"an unknown authority":           {&tls.Config{MinVersion: tls.VersionTLS12}, "unknown authority"},
		"a server of another name":       {stranger, "another.example"},
		"a client without a certificate": {anonymous, ""},
	} {
		u := with(t, server.SecureAddr, zookeeper.Options{TLS: test.config})
		_, err := u.Acquire(t.Context(), u.mutex("k", 10*time.Second))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, test.want)
		}
	}
}

// With a user the nodes are his: no other password, and nobody without one, reads
// or deletes a claim. Others may have another root.
func TestOnlyTheUserTouchesHisLocks(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t, 1)[0]
	alice := zookeeper.Options{Root: "/locks/alice", User: "alice", Password: "secret:1"}
	first, second := with(t, server.Addr, alice), with(t, server.Addr, alice)
	held := first.take(first.mutex("k", 20*time.Second))
	waits := second.mutex("k", 20*time.Second)
	second.refuse(waits)
	if err := second.Release(t.Context(), waits); err != nil {
		t.Error(err)
	}
	if err := second.Revoke(t.Context(), "k", held.ID, driver.Notice{Force: true, By: "me"}); err != nil {
		t.Errorf("Revoke by the same user: %v", err)
	}
	held = first.take(first.mutex("k", 20*time.Second))

	wrong := alice
	wrong.Password = "guessed"
	for name, u := range map[string]user{"another password": with(t, server.Addr, wrong), "no user": with(t, server.Addr, zookeeper.Options{Root: "/locks/alice"})} {
		_, acquired := u.Acquire(t.Context(), u.mutex("k", 20*time.Second))
		_, inspected := u.Inspect(t.Context(), "k", 1)
		for what, err := range map[string]error{
			"Acquire": acquired, "Inspect": inspected, "Release": u.Release(t.Context(), held),
			"Revoke": u.Revoke(t.Context(), "k", held.ID, driver.Notice{Force: true}),
		} {
			if !errors.Is(err, driver.ErrRefused) || strings.Contains(err.Error(), "guessed") {
				t.Errorf("%s with %s: got %v, want ErrRefused, and no password", what, name, err)
			}
		}
		listed := false
		for _, err := range u.List(t.Context(), "") {
			listed = true
			if !errors.Is(err, driver.ErrRefused) {
				t.Errorf("List with %s: got %v, want ErrRefused", name, err)
			}
		}
		if !listed {
			t.Errorf("List with %s: got nothing, want ErrRefused", name)
		}
	}
	raw := rawClient(t, server.Addr)
	names, _, err := raw.Children("/locks")
	if !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("what others see of it: got %q, %v, want nothing", names, err)
	}
	if _, err := first.Renew(t.Context(), held); err != nil {
		t.Errorf("Renew: %v", err)
	}

	// Roots are apart.
	other := with(t, server.Addr, zookeeper.Options{Root: "/other", User: "bob", Password: "p"})
	other.take(other.mutex("k", 20*time.Second))
}

// The servers shorten the session: the grant tells what is left of the TTL. J10.
func TestTheGrantTellsTheEffectiveTTL(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t, 1)[0]
	u := with(t, server.Addr, zookeeper.Options{SessionTimeout: 5 * time.Minute})
	before := time.Now()
	await(t, "the client is connected", func() error {
		_, err := u.Inspect(t.Context(), "k", 1)
		return err
	})
	c := u.mutex("k", 3*time.Minute)
	for op, ask := range map[string]func(context.Context, driver.Claim) (driver.Grant, error){"Acquire": u.Acquire, "Renew": u.Renew} {
		if op == "Renew" {
			c = u.take(c)
		}
		g, err := ask(t.Context(), c)
		least := testserver.ZooKeeperMaxSession - 2*time.Since(before)
		if err != nil || g.TTL < least || g.TTL > testserver.ZooKeeperMaxSession {
			t.Errorf("TTL that %s is granted of 3m: got %v, %v, want the session that the server allows, %v, less what passed since it heard of us, %v at least",
				op, g.TTL, err, testserver.ZooKeeperMaxSession, least)
		}
	}
	short := u.mutex("short", 50*time.Millisecond)
	if _, err := u.Acquire(t.Context(), short); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a TTL of 50ms: got %v, want ErrInvalid", err)
	}
}

// Servers that agree to less than two ticks, as the backend was told how long those
// are, can keep no claim.
func TestASessionThatIsTooShort(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t, 1)[0]
	b, err := zookeeper.New([]string{server.Addr}, &zookeeper.Options{SessionTimeout: 5 * time.Minute, TickTime: testserver.ZooKeeperMaxSession})
	if err != nil {
		t.Fatal(err)
	}
	u := user{b, t, driver.NewIdentity("t")}
	t.Cleanup(func() { u.Close() })
	if g, err := u.Acquire(t.Context(), u.mutex("k", time.Second)); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "tickTime") {
		t.Errorf("Acquire: got %+v, %v, want ErrUnsupported and the word tickTime", g, err)
	}
}

func TestOptionsThatCanNotBe(t *testing.T) {
	for field, o := range map[string]*zookeeper.Options{
		"servers":        nil,
		"Root":           {Root: "pawl"},
		"SessionTimeout": {SessionTimeout: time.Second},
		"User":           {User: "a:b"},
	} {
		servers := []string{"127.0.0.1:1"}
		if o == nil {
			servers = nil
		}
		_, err := zookeeper.New(servers, o)
		var bad *driver.FieldError
		if !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("New with %+v: got %v, want a *FieldError for %s", o, err, field)
		}
	}
	for _, root := range []string{"/", "/a/", "//a", "/a/../b", "/a/./b", "/zookeeper", "/zookeeper/a", "/a\x00", "/a\n"} {
		if _, err := zookeeper.New([]string{"127.0.0.1:1"}, &zookeeper.Options{Root: root}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("Root %q: got %v, want ErrInvalid", root, err)
		}
	}
}
