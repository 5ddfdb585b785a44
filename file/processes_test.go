package file_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlock/pawl/driver"
	"github.com/pawlock/pawl/file"
)

// Where a test binary is to play one of several processes, these tell it the
// part, the directory and its name.
const (
	partEnv = "PAWL_FILE_TEST_PART"
	dirEnv  = "PAWL_FILE_TEST_DIR"
	nameEnv = "PAWL_FILE_TEST_NAME"
)

func TestMain(m *testing.M) {
	var play func(b driver.Backend, dir, name string) error
	switch part := os.Getenv(partEnv); part {
	case "":
		os.Exit(m.Run())
	case "worker":
		play = work
	case "holder":
		play = hold
	case "waiter":
		play = stayInLine
	case "creator":
		play = tryOnce
	default:
		fmt.Fprintf(os.Stderr, "there is no part %q\n", part)
		os.Exit(1)
	}
	dir := os.Getenv(dirEnv)
	b, err := file.New(filepath.Join(dir, "locks"))
	if err == nil {
		err = play(b, dir, os.Getenv(nameEnv))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A process is a test binary that plays a part.
type process struct {
	*exec.Cmd
	name   string
	stderr strings.Builder
	ended  chan error
}

func start(t *testing.T, dir, part, name string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0]), name: name, ended: make(chan error, 1)}
	p.Env = append(os.Environ(), partEnv+"="+part, dirEnv+"="+dir, nameEnv+"="+name)
	p.Stderr = &p.stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.Wait() }()
	t.Cleanup(func() { p.Process.Kill() })
	return p
}

// kill kills p as kill -9 does, and waits for its end.
func (p *process) kill() {
	p.Process.Kill()
	<-p.ended
}

// wait fails the test unless p ends well.
func (p *process) wait(t *testing.T) {
	t.Helper()
	select {
	case err := <-p.ended:
		if err != nil {
			t.Errorf("process %s: %v\n%s", p.name, err, p.stderr.String())
		}
	case <-time.After(time.Minute):
		p.Process.Kill()
		t.Errorf("process %s did not end", p.name)
	}
}

// eventually waits until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after a minute: not yet %s", what)
		}
	}
}

const workerTTL = 2 * time.Second

// work takes turns until the file "stop" is there. Each turn is seen by
// others: a file that only one can create, and a token in a log.
func work(b driver.Backend, dir, name string) error {
	ids := driver.NewIdentity(name)
	for !exists(filepath.Join(dir, "stop")) {
		c := mutex("k", ids.Next())
		c.TTL, c.Queue = workerTTL, true
		sent, err := acquireInTurn(b, &c)
		if err != nil {
			return err
		}
		if time.Since(sent) < workerTTL/2 { // else this process was stopped for long
			if err := turn(dir, name, c.Grant.Token, sent); err != nil {
				return err
			}
		}
		if err := b.Release(context.Background(), c); err != nil && !errors.Is(err, driver.ErrLost) {
			return err
		}
	}
	return nil
}

// acquireInTurn waits in line for c, and returns when the request that was
// granted was sent.
func acquireInTurn(b driver.Backend, c *driver.Claim) (sent time.Time, err error) {
	for {
		sent = time.Now()
		g, err := b.Acquire(context.Background(), *c)
		if err == nil {
			c.Grant = g
			return sent, nil
		}
		var held *driver.HeldError
		if !errors.As(err, &held) {
			return sent, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), c.TTL/3) // to keep the place in line
		err = b.Wait(ctx, *c, held)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return sent, err
		}
	}
}

// turn enters and leaves with the grant of token.
func turn(dir, name string, token uint64, sent time.Time) error {
	inside := filepath.Join(dir, "inside")
	me := name + "-" + strconv.FormatUint(token, 10)
	mine := filepath.Join(dir, me)
	if err := os.WriteFile(mine, []byte(me), 0o600); err != nil {
		return err
	}
	defer os.Remove(mine)
	for os.Link(mine, inside) != nil {
		other, err := os.ReadFile(inside)
		if err != nil {
			return fmt.Errorf("%s came in as another left: %w", me, err)
		}
		if err := excused(dir, string(other)); err != nil {
			return fmt.Errorf("%s came in: %w", me, err)
		}
		os.Remove(inside)
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "%d %s\n", token, name)
	log.Close()
	time.Sleep(rand.N(2 * time.Millisecond))
	if time.Since(sent) > workerTTL*9/10 { // the machine slept: who comes in now may do so
		return mark(dir, "late-"+me)
	}
	return os.Remove(inside)
}

// excused waits to hear that other, who is inside, was killed there or had the
// end of its claim go by, and returns an error if neither is so.
func excused(dir, other string) error {
	name, _, _ := strings.Cut(other, "-")
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		if exists(filepath.Join(dir, "killed-"+name)) || exists(filepath.Join(dir, "late-"+other)) {
			return nil
		}
		still, _ := os.ReadFile(filepath.Join(dir, "inside"))
		if string(still) != other || time.Now().After(end) {
			return fmt.Errorf("%s was inside", other)
		}
	}
}

func mark(dir, name string) error { return os.WriteFile(filepath.Join(dir, name), nil, 0o600) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestProcessesExcludeEachOtherAlsoWhenKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var (
		workers []*process
		started int
	)
	launch := func() *process {
		started++
		return start(t, dir, "worker", fmt.Sprintf("w%d", started))
	}
	for range 6 {
		workers = append(workers, launch())
	}
	turns := func() int {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		return strings.Count(string(log), "\n")
	}
	for range 12 {
		before := turns()
		eventually(t, "turns after a kill", func() bool { return turns() >= before+20 })
		time.Sleep(rand.N(3 * time.Millisecond)) // anywhere in a turn
		i := rand.N(len(workers))
		p := workers[i]
		select {
		case err := <-p.ended:
			t.Fatalf("process %s: %v\n%s", p.name, err, p.stderr.String())
		default:
		}
		p.kill()
		mark(dir, "killed-"+p.name)
		workers[i] = launch()
	}
	mark(dir, "stop")
	for _, p := range workers {
		p.wait(t)
	}
	checkLog(t, filepath.Join(dir, "log"))
}

// checkLog fails the test unless the tokens in the log strictly increase.
func checkLog(t *testing.T, path string) {
	t.Helper()
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var last uint64
	for line := range strings.Lines(string(log)) {
		var (
			token uint64
			name  string
		)
		if _, err := fmt.Sscanf(line, "%d %s\n", &token, &name); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if token <= last {
			t.Errorf("token of %s: got %d after %d, want more", name, token, last)
		}
		last = token
	}
}

// hold takes the lock and never lets it go.
func hold(b driver.Backend, dir, name string) error {
	c := mutex("k", driver.NewIdentity(name).Next())
	c.TTL = workerTTL
	g, err := b.Acquire(context.Background(), c)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "held"), fmt.Append(nil, g.Token), 0o600); err != nil {
		return err
	}
	select {}
}

func TestClaimOfAKilledHolderEndsWithItsTTL(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, filepath.Join(dir, "locks"))
	began := time.Now()
	holder := start(t, dir, "holder", "h")
	var text []byte
	eventually(t, "held", func() bool {
		text, _ = os.ReadFile(filepath.Join(dir, "held"))
		return len(text) > 0
	})
	holder.kill()
	c := mutex("k", "next")
	c.Queue = true
	granted, err := acquireInTurn(b, &c)
	if err != nil {
		t.Fatal(err)
	}
	if token, err := strconv.ParseUint(string(text), 10, 64); err != nil || c.Grant.Token <= token {
		t.Errorf("token after the killed holder's %s: got %d, want more", text, c.Grant.Token)
	}
	if took := granted.Sub(began); took < workerTTL*9/10 {
		t.Errorf("granted %v after the killed holder was started: its TTL is %v", took, workerTTL)
	}
}

// stayInLine takes a place in line and keeps it for an hour.
func stayInLine(b driver.Backend, dir, name string) error {
	c := mutex("k", driver.NewIdentity(name).Next())
	c.TTL, c.Queue = time.Hour, true
	if _, err := b.Acquire(context.Background(), c); !errors.Is(err, driver.ErrHeld) {
		return fmt.Errorf("the waiter was not sent to the line: %v", err)
	}
	if err := mark(dir, "in-line-"+name); err != nil {
		return err
	}
	for ; ; time.Sleep(10 * time.Millisecond) { // the backend stays in use
		if _, err := b.Inspect(context.Background(), c.Key, 1); err != nil {
			return err
		}
	}
}

// Case E02.
func TestKilledWaitersDelayNobody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, filepath.Join(dir, "locks"))
	holder := mutex("k", "holder")
	holder.TTL = time.Hour
	holder.Grant = acquire(t, b, holder)
	var waiters []*process
	for i := range 3 {
		p := start(t, dir, "waiter", fmt.Sprintf("w%d", i))
		eventually(t, "in line", func() bool { return exists(filepath.Join(dir, "in-line-"+p.name)) })
		waiters = append(waiters, p)
	}
	last := mutex("k", "last")
	last.TTL, last.Queue = time.Hour, true
	var held *driver.HeldError
	if _, err := b.Acquire(t.Context(), last); !errors.As(err, &held) || held.Place != 4 {
		t.Fatalf("behind three live waiters: got %+v, want place 4", held)
	}
	if err := b.Release(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	_, err := b.Acquire(t.Context(), last)
	wantErr(t, "while the first in line lives", err, driver.ErrHeld)
	for _, p := range waiters {
		p.kill()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // far below the TTL
	defer cancel()
	if err := b.Wait(ctx, last, held); err != nil {
		t.Errorf("Wait behind three that were killed: %v", err)
	}
	acquire(t, b, last)
}

// tryOnce waits for the file "go" and makes one attempt on a new key.
func tryOnce(b driver.Backend, dir, name string) error {
	mark(dir, "ready-"+name)
	for !exists(filepath.Join(dir, "go")) {
		time.Sleep(time.Millisecond)
	}
	_, err := b.Acquire(context.Background(), mutex("new", driver.NewIdentity(name).Next()))
	if errors.Is(err, driver.ErrHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	return mark(dir, "granted-"+name)
}

func TestFirstClaimOnANewKeyIsGrantedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var creators []*process
	for i := range 8 {
		creators = append(creators, start(t, dir, "creator", fmt.Sprintf("c%d", i)))
	}
	for _, p := range creators {
		eventually(t, "ready", func() bool { return exists(filepath.Join(dir, "ready-"+p.name)) })
	}
	mark(dir, "go")
	for _, p := range creators {
		p.wait(t)
	}
	if granted, _ := filepath.Glob(filepath.Join(dir, "granted-*")); len(granted) != 1 {
		t.Errorf("granted: got %q, want one", granted)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "locks", "new-*")); len(left) != 0 {
		t.Errorf("records in the making that are left: got %q, want none", left)
	}
}
