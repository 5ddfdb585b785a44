package testserver

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// An Etcd is an etcd process: a member of a cluster, or all of it.
type Etcd struct {
	Addr string // host:port for clients, on the loopback interface
	Name string // of the member

	t    testing.TB
	args []string
	log  *output

	mu  sync.Mutex
	cmd *exec.Cmd // guarded by mu
}

// EtcdProgram returns the server that is tested: etcd, or what the environment
// variable PAWL_ETCD_SERVER names.
func EtcdProgram() string { return programOr("PAWL_ETCD_SERVER", "etcd") }

// EtcdctlProgram returns the client program that is tested: etcdctl, or what the
// environment variable PAWL_ETCDCTL names.
func EtcdctlProgram() string { return programOr("PAWL_ETCDCTL", "etcdctl") }

func programOr(variable, otherwise string) string {
	if p := os.Getenv(variable); p != "" {
		return p
	}
	return otherwise
}

// StartEtcd starts a cluster of n members and waits until each answers. It skips
// the test where the server is missing, and fails it if PAWL_REQUIRE names etcd.
// The logs are shown if the test fails. More args are added to the command lines.
func StartEtcd(t testing.TB, n int, args ...string) []*Etcd {
	t.Helper()
	Require(t, "etcd", EtcdProgram())
	addrs := freeAddrs(t, 2*n)
	var cluster []string
	for i := range n {
		cluster = append(cluster, fmt.Sprintf("m%d=http://%s", i, addrs[n+i]))
	}
	var members []*Etcd
	for i := range n {
		e := &Etcd{Addr: addrs[i], Name: fmt.Sprintf("m%d", i), t: t, log: new(output)}
		client, peer := "http://"+addrs[i], "http://"+addrs[n+i]
		e.args = append([]string{
			"--name", e.Name, "--data-dir", filepath.Join(tempDir(t), "data"),
			"--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-state", "new",
			"--log-level", "warn", "--logger", "zap",
		}, args...)
		e.cleanUp()
		e.launch()
		members = append(members, e)
	}
	for _, e := range members {
		e.await()
	}
	return members
}

func (e *Etcd) cleanUp() {
	e.t.Cleanup(func() {
		e.Kill()
		if e.t.Failed() {
			e.t.Logf("log of etcd on %s:\n%s", e.Addr, e.log)
		}
	})
}

// Start starts the member again after Kill, with the data that it had.
func (e *Etcd) Start() {
	e.t.Helper()
	e.launch()
	e.await()
}

func (e *Etcd) launch() {
	e.t.Helper()
	cmd := exec.Command(EtcdProgram(), e.args...)
	cmd.Env = append(os.Environ(), "ETCD_UNSUPPORTED_ARCH=arm64")
	cmd.Stdout, cmd.Stderr = e.log, e.log
	if err := cmd.Start(); err != nil {
		e.t.Fatalf("start %s: %v", EtcdProgram(), err)
	}
	e.mu.Lock()
	e.cmd = cmd
	e.mu.Unlock()
}

// await waits until the member answers, with a leader.
func (e *Etcd) await() {
	e.t.Helper()
	client := &http.Client{Timeout: 2 * time.Second}
	defer client.CloseIdleConnections()
	poll(e.t, "etcd on "+e.Addr+" is healthy", func() error {
		resp, err := client.Get("http://" + e.Addr + "/health")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil && !strings.Contains(string(body), `"health":"true"`) {
			err = fmt.Errorf("it says %s", body)
		}
		return err
	})
}

// Kill ends the member at once, as a crash would, and waits for its end.
func (e *Etcd) Kill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cmd == nil {
		return
	}
	e.cmd.Process.Kill()
	e.cmd.Wait() // the error is that it was killed
	e.cmd = nil
}
