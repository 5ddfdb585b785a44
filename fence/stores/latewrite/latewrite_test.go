//go:build unix

package main

import (
	"bufio"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlock/pawl/fence/fencesql"
	"github.com/pawlock/pawl/internal/testserver"
)

// The test binary is the program, too.
func TestMain(m *testing.M) {
	if os.Getenv("LATEWRITE") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Case Q01: a worker that was stopped past its lease, while another wrote, writes at
// once when it is continued.
func TestTheLateWriteOfAPausedWorker(t *testing.T) {
	for _, store := range []struct {
		name  string
		start func(t *testing.T) (url string, set func(balance int), balance func() string)
	}{{"PostgreSQL", startPostgres}, {"Redis", startRedis}} {
		t.Run(store.name, func(t *testing.T) {
			url, set, balance := store.start(t)
			t.Run("Unguarded", func(t *testing.T) {
				set(100)
				code, out := pausedWhileAnotherWrites(t, url, "-unguarded")
				if got := balance(); code != 0 || got != "110" {
					t.Errorf("the balance is %s, and the late worker ended with %d; want 110, the 5 of the other worker being lost:\n%s", got, code, out)
				}
			})
			t.Run("Guarded", func(t *testing.T) {
				set(100)
				code, out := pausedWhileAnotherWrites(t, url)
				if got := balance(); code != 79 || !strings.Contains(out, "refused") || got != "105" {
					t.Errorf("the balance is %s, and the late worker ended with %d; want 105 and a refusal:\n%s", got, code, out)
				}
			})
		})
	}
}

// pausedWhileAnotherWrites runs a worker that adds 10, stops it when it has read the
// balance, has another add 5, and continues the first. It returns how that ends.
func pausedWhileAnotherWrites(t *testing.T, url string, flags ...string) (code int, out string) {
	t.Helper()
	flags = append(flags, "-account", url, "-locks", t.TempDir())
	first := worker(append(flags, "-add", "10", "-pause")...)
	in, err := first.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { first.Process.Kill() }) // if the test ends before it does
	lines := bufio.NewScanner(pipe)
	for lines.Scan() && lines.Text() != "read 100" {
	}
	if lines.Text() != "read 100" {
		t.Fatal("the first worker ended before it had read the balance")
	}
	signal := func(s syscall.Signal) {
		if err := first.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	awaitStop(t, first.Process.Pid)
	if _, err := fmt.Fprintln(in); err != nil { // it writes as soon as it goes on
		t.Fatal(err)
	}
	began := time.Now()
	if text, err := worker(append(flags, "-add", "5")...).Output(); err != nil || !strings.Contains(string(text), "wrote 105") {
		t.Fatalf("the other worker: got %v after %v, want it to write 105:\n%s", err, time.Since(began), text)
	}
	signal(syscall.SIGCONT)
	for lines.Scan() {
		out += lines.Text() + "\n"
	}
	first.Wait() // its code is looked at
	return first.ProcessState.ExitCode(), out
}

// awaitStop waits until all threads of a child stand still: until then one of them
// might go on.
func awaitStop(t *testing.T, pid int) {
	t.Helper()
	var status syscall.WaitStatus
	for {
		switch _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); {
		case err == syscall.EINTR:
		case err != nil || !status.Stopped():
			t.Fatalf("the worker did not stop: status %v, %v", status, err)
		default:
			return
		}
	}
}

func worker(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "LATEWRITE=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

func startPostgres(t *testing.T) (string, func(int), func() string) {
	url := "postgres://postgres@" + testserver.StartPostgres(t).Addr + "/postgres?sslmode=disable"
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	exec := func(query string, args ...any) {
		if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(fencesql.Migration(fencesql.PostgreSQL))
	exec("CREATE TABLE account (balance int)")
	exec("INSERT INTO account VALUES (0)")
	return url, func(balance int) { exec("UPDATE account SET balance = $1", balance) }, func() (balance string) {
		if err := db.QueryRowContext(t.Context(), "SELECT balance FROM account").Scan(&balance); err != nil {
			t.Fatal(err)
		}
		return balance
	}
}

func startRedis(t *testing.T) (string, func(int), func() string) {
	server := testserver.StartRedis(t, testserver.RedisOptions{})
	return "redis://" + server.Addr, func(balance int) { server.Do("SET", "account", balance) }, func() string { return server.Do("GET", "account").(string) }
}
