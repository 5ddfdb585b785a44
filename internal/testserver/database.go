package testserver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Database is the process of a database server. It asks nobody for a password.
type Database struct {
	Addr string // host:port on the loopback interface

	t     testing.TB
	what  string // as PAWL_REQUIRE has it
	user  string // that it runs as
	argv  []string
	ready func() error
	dir   string

	mu   sync.Mutex
	kill func() // guarded by mu
	log  *output
}

// StartPostgres starts a PostgreSQL server, with the user and the database postgres.
// It skips the test if that is not installed, and fails it if PAWL_REQUIRE names
// postgres.
func StartPostgres(t testing.TB) *Database {
	t.Helper()
	server, initdb, isReady := postgresProgram("postgres"), postgresProgram("initdb"), postgresProgram("pg_isready")
	Require(t, "postgres", server, initdb, isReady)
	d := newDatabase(t, "postgres", "postgres")
	data := filepath.Join(d.dir, "data")
	d.run(initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	host, port, _ := net.SplitHostPort(d.Addr)
	d.argv = []string{server, "-D", data, "-p", port, "-h", host, "-k", "", "-c", "fsync=off", "-c", "max_connections=64", "-c", "shared_buffers=16MB"}
	d.ready = func() error { return exec.Command(isReady, "-q", "-h", host, "-p", port).Run() }
	d.Start()
	return d
}

// postgresProgram returns a program of PostgreSQL, which Debian keeps out of the
// path.
func postgresProgram(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	if all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); len(all) > 0 {
		return slices.Max(all)
	}
	return name
}

// StartMariaDB starts a MariaDB server, with the database test. It skips the test
// if that is not installed, and fails it if PAWL_REQUIRE names mariadb.
func StartMariaDB(t testing.TB) *Database {
	t.Helper()
	Require(t, "mariadb", "mariadbd", "mariadb-install-db")
	d := newDatabase(t, "mariadb", "mysql")
	data := filepath.Join(d.dir, "data")
	d.run("mariadb-install-db", "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal")
	host, port, _ := net.SplitHostPort(d.Addr)
	d.argv = []string{"mariadbd", "--no-defaults", "--datadir=" + data, "--bind-address=" + host, "--port=" + port, "--socket=" + filepath.Join(d.dir, "s.sock"),
		"--skip-grant-tables", "--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M"}
	d.ready = func() error { return greets(d.Addr) }
	d.Start()
	return d
}

// greets returns nil if the server of MySQL's kind at addr sends its greeting.
func greets(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	head := make([]byte, 5) // of the packet, and the version of the protocol
	if _, err := io.ReadFull(conn, head); err != nil {
		return err
	}
	if head[4] != 10 {
		return errors.New("the server greets with an error")
	}
	return nil
}

// newDatabase readies a server that runs as the user of that name if this process
// is root's: such servers refuse to be.
func newDatabase(t testing.TB, what, user string) *Database {
	t.Helper()
	d := &Database{Addr: freeAddrs(t, 1)[0], t: t, what: what, user: user, dir: tempDir(t), log: new(output)}
	if err := giveTo(user, d.dir); err != nil {
		Miss(t, what, err.Error())
	}
	t.Cleanup(func() {
		d.Kill()
		if t.Failed() {
			t.Logf("log of %s on %s:\n%s", what, d.Addr, d.log)
		}
	})
	return d
}

// command returns a command that runs as the server's user.
func (d *Database) command(argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = d.dir // the test's own may be closed to that user
	cmd.Env = append(os.Environ(), "HOME="+d.dir, "LC_ALL=C")
	cmd.Stdout, cmd.Stderr = d.log, d.log
	runAs(cmd, d.user)
	return cmd
}

func (d *Database) run(argv ...string) {
	d.t.Helper()
	if err := d.command(argv...).Run(); err != nil {
		d.t.Fatalf("%s: %v", strings.Join(argv, " "), err)
	}
}

// Start starts the server again after Kill, and waits until it answers. It tries
// more than once: a server that was killed may have left processes behind, which
// are about to notice, and keep the next one out until then.
func (d *Database) Start() {
	d.t.Helper()
	var ended chan error
	poll(d.t, fmt.Sprintf("%s on %s answers", d.what, d.Addr), func() error {
		if ended == nil {
			ended = d.launch()
		}
		select {
		case err := <-ended:
			ended = nil
			return fmt.Errorf("the server has ended: %w", err)
		default:
			return d.ready()
		}
	})
}

// launch starts the process, and tells when it has ended.
func (d *Database) launch() chan error {
	d.t.Helper()
	cmd := d.command(d.argv...)
	if err := cmd.Start(); err != nil {
		d.t.Fatalf("start %s: %v", d.argv[0], err)
	}
	ended, gone := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- cmd.Wait()
		close(gone)
	}()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kill = func() {
		cmd.Process.Kill()
		<-gone
	}
	return ended
}

// Kill ends the server at once, as a crash would, and waits for its end.
func (d *Database) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kill != nil {
		d.kill()
	}
}
