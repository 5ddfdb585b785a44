package testserver

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// An Etcd is an etcd process: a member of a cluster, or all of it.
type Etcd struct {
	Addr string // host:port for clients, on the loopback interface
	Name string // of the member

	t       testing.TB
	program string
	args    []string
	url     string
	http    *http.Client
	log     *output

	mu  sync.Mutex
	cmd *exec.Cmd // guarded by mu
}

// EtcdOptions say how a cluster is started. The zero value is one member of the
// etcd that is installed.
type EtcdOptions struct {
	Members int           // default 1
	Current bool          // the current release, which .ci/etcd builds, in place of the one installed
	TLS     *Certificates // for clients, who need a certificate
	Args    []string      // added to the command lines, one word each
}

// EtcdProgram returns the path of etcd, or of etcdctl. It skips the test where it is
// missing, and fails it if PAWL_REQUIRE names etcd or, for the current release,
// etcd-current.
func EtcdProgram(t testing.TB, name string, current bool) string {
	t.Helper()
	if !current {
		Require(t, "etcd", name)
		return name
	}
	_, here, _, _ := runtime.Caller(0)
	p := filepath.Join(filepath.Dir(here), "../../.bin/etcd", name)
	if _, err := os.Stat(p); err != nil {
		Miss(t, "etcd-current", err.Error()+": .ci/etcd builds it")
	}
	return p
}

// StartEtcd starts a cluster and waits until each member answers. The logs are
// shown if the test fails.
func StartEtcd(t testing.TB, o EtcdOptions) []*Etcd {
	t.Helper()
	program := EtcdProgram(t, "etcd", o.Current)
	n := max(o.Members, 1)
	addrs := freeAddrs(t, 2*n)
	scheme, transport := "http://", new(http.Transport)
	if o.TLS != nil {
		scheme, transport.TLSClientConfig = "https://", o.TLS.Client()
	}
	var cluster []string
	for i := range n {
		cluster = append(cluster, fmt.Sprintf("m%d=http://%s", i, addrs[n+i]))
	}
	var members []*Etcd
	for i := range n {
		e := &Etcd{
			Addr: addrs[i], Name: fmt.Sprintf("m%d", i), t: t, program: program, url: scheme + addrs[i],
			http: &http.Client{Timeout: 2 * time.Second, Transport: transport}, log: new(output),
		}
		peer := "http://" + addrs[n+i]
		e.args = []string{
			"--name", e.Name, "--data-dir", filepath.Join(memoryDir(t), "data"),
			"--listen-client-urls", e.url, "--advertise-client-urls", e.url,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-state", "new",
			"--log-level", "warn", "--logger", "zap",
		}
		if o.TLS != nil {
			e.args = append(e.args, o.TLS.etcdArgs()...)
		}
		e.args = append(e.args, o.Args...)
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
		e.http.CloseIdleConnections()
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
	cmd := exec.Command(e.program, e.args...)
	cmd.Env = os.Environ()
	if runtime.GOARCH != "amd64" {
		cmd.Env = append(cmd.Env, "ETCD_UNSUPPORTED_ARCH="+runtime.GOARCH) // 3.4 asks for it
	}
	cmd.Stdout, cmd.Stderr = e.log, e.log
	if err := cmd.Start(); err != nil {
		e.t.Fatalf("start %s: %v", e.program, err)
	}
	e.mu.Lock()
	e.cmd = cmd
	e.mu.Unlock()
}

// await waits until the member answers, with a leader.
func (e *Etcd) await() {
	e.t.Helper()
	poll(e.t, "etcd on "+e.Addr+" is healthy", func() error {
		resp, err := e.http.Get(e.url + "/health")
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
