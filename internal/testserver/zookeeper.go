package testserver

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// ZooKeeperTick is the tickTime of the servers, which bounds how exactly they
// keep time-outs.
const ZooKeeperTick = 100 * time.Millisecond

// ZooKeeperMaxSession is the longest session that the servers agree to.
const ZooKeeperMaxSession = time.Minute

// Where Debian's libzookeeper-java has the server; its manifest names the rest.
const zooKeeperJar = "/usr/share/java/zookeeper.jar"

// A ZooKeeper is a server, alone or in an ensemble.
type ZooKeeper struct {
	Addr       string // host:port on the loopback interface
	SecureAddr string // the same for TLS, if it was asked for
	Data       string // the directory of its data

	t    testing.TB
	main string // the class
	conf string // the path of zoo.cfg
	log  *output

	mu  sync.Mutex
	cmd *exec.Cmd // guarded by mu
}

// StartZooKeeper starts an ensemble of n servers, and waits until all serve. It
// skips the test where java or the server is missing, and fails it if PAWL_REQUIRE
// names zookeeper.
func StartZooKeeper(t testing.TB, n int) []*ZooKeeper {
	t.Helper()
	Require(t, "zookeeper", "java")
	if _, err := os.Stat(zooKeeperJar); err != nil {
		Miss(t, "zookeeper", err.Error())
	}
	addrs := freeAddrs(t, 3*n)
	var ensemble strings.Builder
	if n > 1 {
		fmt.Fprintf(&ensemble, "initLimit=100\nsyncLimit=20\n")
		for i := range n {
			_, electionPort, _ := net.SplitHostPort(addrs[2*n+i])
			fmt.Fprintf(&ensemble, "server.%d=%s:%s\n", i+1, addrs[n+i], electionPort)
		}
	}
	return start(t, addrs, n, ensemble.String())
}

// StartSecureZooKeeper starts a server that takes clients over TLS as well, if
// they have a certificate.
func StartSecureZooKeeper(t testing.TB, certs *Certificates) *ZooKeeper {
	t.Helper()
	Require(t, "zookeeper", "java")
	if _, err := os.Stat(zooKeeperJar); err != nil {
		Miss(t, "zookeeper", err.Error())
	}
	pem := func(name string, files ...string) string {
		var all []byte
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text...)
		}
		path := filepath.Join(tempDir(t), name)
		if err := os.WriteFile(path, all, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	addrs := freeAddrs(t, 2)
	_, port, _ := net.SplitHostPort(addrs[1])
	z := start(t, addrs[:1], 1, fmt.Sprintf("secureClientPort=%s\nsecureClientPortAddress=127.0.0.1\nserverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"+
		"ssl.keyStore.type=PEM\nssl.keyStore.location=%s\nssl.trustStore.type=PEM\nssl.trustStore.location=%s\nssl.clientAuth=need\n",
		port, pem("server.pem", certs.ServerCert, certs.ServerKey), pem("ca.pem", certs.CA)))[0]
	z.SecureAddr = addrs[1]
	return z
}

// start starts n servers that clients find at the first n of addrs.
func start(t testing.TB, addrs []string, n int, with string) (servers []*ZooKeeper) {
	t.Helper()
	for i := range n {
		z := &ZooKeeper{Addr: addrs[i], t: t, log: new(output), main: "ZooKeeperServerMain"}
		if n > 1 {
			z.main = "quorum.QuorumPeerMain"
		}
		z.configure(i+1, with)
		servers = append(servers, z)
		z.launch()
	}
	for _, z := range servers {
		z.await()
	}
	return servers
}

func (z *ZooKeeper) configure(id int, ensemble string) {
	z.t.Helper()
	dir := tempDir(z.t)
	z.Data = dir
	z.conf = filepath.Join(dir, "zoo.cfg")
	_, port, _ := net.SplitHostPort(z.Addr)
	conf := fmt.Sprintf("tickTime=%d\nminSessionTimeout=200\nmaxSessionTimeout=%d\ndataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\n"+
		"admin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n%s", ZooKeeperTick.Milliseconds(), ZooKeeperMaxSession.Milliseconds(), dir, port, ensemble)
	if err := os.WriteFile(z.conf, []byte(conf), 0o600); err != nil {
		z.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "myid"), fmt.Appendln(nil, id), 0o600); err != nil {
		z.t.Fatal(err)
	}
	z.t.Cleanup(func() {
		z.Kill()
		if z.t.Failed() {
			z.t.Logf("log of the server on %s:\n%s", z.Addr, z.log)
		}
	})
}

// Start starts the server again after Kill, with the data it had.
func (z *ZooKeeper) Start() {
	z.t.Helper()
	z.launch()
	z.await()
}

func (z *ZooKeeper) launch() {
	z.t.Helper()
	cmd := exec.Command("java", "-Xmx128m", "-Xms32m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dzookeeper.forceSync=no",
		"-Dreadonlymode.enabled=true", "-Dznode.container.checkIntervalMs=1000", "-cp", zooKeeperJar+":/usr/share/java/slf4j-nop.jar:/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar",
		"org.apache.zookeeper.server."+z.main, z.conf)
	cmd.Stdout, cmd.Stderr = z.log, z.log
	if err := cmd.Start(); err != nil {
		z.t.Fatalf("start ZooKeeper: %v", err)
	}
	z.mu.Lock()
	z.cmd = cmd
	z.mu.Unlock()
}

func (z *ZooKeeper) await() {
	z.t.Helper()
	// Servers with nobody to lead them need patience on a machine that is busy.
	var err error
	for end := time.Now().Add(3 * patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, err = z.Mode(); err == nil {
			return
		}
	}
	z.t.Fatalf("the server on %s serves: not after %v: %v", z.Addr, 3*patience, err)
}

// Mode returns standalone, leader or follower, and an error while the server
// does not serve.
func (z *ZooKeeper) Mode() (string, error) {
	c, err := net.DialTimeout("tcp", z.Addr, time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second)) // it may take a connection while it starts, and never answer
	if _, err := io.WriteString(c, "srvr"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		return "", err
	}
	_, mode, ok := strings.Cut(string(answer), "Mode: ")
	if !ok {
		return "", fmt.Errorf("it says %.60q", answer)
	}
	mode, _, _ = strings.Cut(mode, "\n")
	return mode, nil
}

// Kill ends the server at once, as a crash would, and waits for its end.
func (z *ZooKeeper) Kill() {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.cmd == nil {
		return
	}
	z.cmd.Process.Kill()
	z.cmd.Wait() // the error is that it was killed
	z.cmd = nil
}
