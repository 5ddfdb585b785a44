package zookeeper_test

import (
	"math"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/internal/testserver"
)

// setSequence sets the number of the next sequential node below path, with the
// server down meanwhile.
func setSequence(t *testing.T, server *testserver.ZooKeeper, path string, n int) {
	t.Helper()
	server.Kill()
	const jars = "/usr/share/java/"
	classes := t.TempDir()
	classPath := strings.Join([]string{classes, jars + "zookeeper.jar", jars + "zookeeper-jute.jar", jars + "slf4j-nop.jar"}, ":")
	if out, err := exec.Command("javac", "-d", classes, "-cp", classPath, filepath.Join("testdata", "Cversion.java")).CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	if out, err := exec.Command("java", "-cp", classPath, "Cversion", server.Data, path, strconv.Itoa(n)).CombinedOutput(); err != nil {
		t.Fatalf("java: %v\n%s", err, out)
	}
	server.Start()
}

// The counter of a key's claims comes to its end, where ZooKeeper 3.8
// leaves it: from then on all claims have the same number. They hold in order of
// arrival, one at a time, also the one that another process has taken over.
func TestTheSequenceRunsOut(t *testing.T) {
	t.Parallel()
	testserver.Require(t, "curator", "java", "javac")
	server := testserver.StartZooKeeper(t, 1)[0]
	raw := rawClient(t, server.Addr)
	for _, path := range []string{"/pawl", "/pawl/k"} { // a plain node stays while the server is down
		if _, err := raw.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	setSequence(t, server, "/pawl/k", math.MaxInt32-1)
	users := []user{newUser(t, server.Addr), newUser(t, server.Addr), newUser(t, server.Addr)}
	for _, u := range users {
		await(t, "the server is back", func() error {
			_, err := u.Inspect(t.Context(), "k", 1)
			return err
		})
	}
	var line []driver.Claim
	holds := func(first int) {
		t.Helper()
		st, err := users[2].Inspect(t.Context(), "k", 100)
		if err != nil || len(st.Holders) != len(line)-first || st.Waiting != len(line)-first-1 {
			t.Fatalf("Inspect: got %d claims, %d waiting, %v, want %d, all but one waiting", len(st.Holders), st.Waiting, err, len(line)-first)
		}
		for i, h := range st.Holders {
			if h.ID != line[first+i].ID || h.Held != (i == 0) {
				t.Errorf("place %d: got %s, holds %v, want %s", i, h.ID, h.Held, line[first+i].ID)
			}
		}
	}
	const n = 12
	for i := range n {
		line = append(line, users[i%2].mutex("k", time.Minute/2))
		if i == 0 {
			line[0] = users[0].take(line[0])
			continue
		}
		users[i%2].refuse(line[i])
		for j := range i { // whoever asks again has not come to the front
			users[j%2].Acquire(t.Context(), line[j])
		}
		holds(0)
	}
	if names := nodes(t, raw, "/pawl/k"); strings.Count(strings.Join(names, " "), "-lock-2147483647") < 2 {
		t.Logf("this server gives no number twice: %q", names)
	}
	var last uint64
	for i, c := range line {
		u := users[i%2]
		if i%3 == 1 {
			u = users[2] // the claim goes over to another session
			if i+1 < n {
				u.refuse(line[i+1])
			}
		}
		c = u.take(c)
		if c.Grant.Token <= last && i > 0 {
			t.Errorf("token of claim %d: got %d, want more than %d", i, c.Grant.Token, last)
		}
		last = c.Grant.Token
		holds(i)
		if err := u.Release(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}
