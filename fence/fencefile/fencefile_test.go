package fencefile_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/fence"
	"github.com/pawlock/pawl/fence/fencefile"
	"github.com/pawlock/pawl/fence/fencetest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("PAWL_TEST_GUARD"); path != "" {
		child(path)
		return
	}
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	fencetest.Run(t, fencetest.Harness{New: func(t *testing.T) fencetest.Store {
		dir := t.TempDir()
		var mu sync.Mutex
		data := make(map[string][]string)
		return fencetest.Store{
			Guard: func() fence.Guard { return guard(t, filepath.Join(dir, "fence")) },
			Append: func(_ context.Context, resource, value string) error {
				mu.Lock()
				defer mu.Unlock()
				data[resource] = append(data[resource], value)
				return nil
			},
			Read: func(resource string) []string {
				mu.Lock()
				defer mu.Unlock()
				return append([]string(nil), data[resource]...)
			},
		}
	}})
}

func guard(t *testing.T, path string) *fencefile.Guard {
	t.Helper()
	g, err := fencefile.New(path)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func token(number uint64) pawl.Token { return pawl.Token{Key: "k", Number: number} }

func nothing(context.Context) error { return nil }

// child writes its tokens, one by one, to the file beside the guard's.
func child(path string) {
	g, err := fencefile.New(path)
	if err != nil {
		panic(err)
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		number, _ := strconv.ParseUint(in.Text(), 10, 64)
		err := g.Do(context.Background(), "r", token(number), func(context.Context) error {
			f, err := os.OpenFile(path+".data", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = fmt.Fprintln(f, number)
			return err
		})
		if err != nil && !errors.Is(err, fence.ErrStale) {
			panic(err)
		}
		fmt.Println(number, err == nil)
	}
}

// Processes get tokens dealt at random, and the file of what they wrote rises.
func TestProcessesWriteInTheOrderOfTheirTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fence")
	const processes, tokens = 4, 120
	var outs [processes]bytes.Buffer
	var running sync.WaitGroup
	for p := range processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "PAWL_TEST_GUARD="+path)
		var mine strings.Builder
		for n := p + 1; n <= tokens; n += processes {
			fmt.Fprintln(&mine, n)
		}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(mine.String()), &outs[p], os.Stderr
		running.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	accepted := make(map[string]bool)
	for p := range outs {
		for line := range strings.Lines(outs[p].String()) {
			number, yes, _ := strings.Cut(strings.TrimSpace(line), " ")
			accepted[number] = yes == "true"
		}
	}
	data, err := os.ReadFile(path + ".data")
	if err != nil {
		t.Fatal(err)
	}
	var last, count int
	for line := range strings.Lines(string(data)) {
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || n <= last {
			t.Fatalf("%d was written after %d (%v):\n%s", n, last, err, data)
		}
		if !accepted[strconv.Itoa(n)] {
			t.Errorf("%d was refused, and is written", n)
		}
		last = n
		count++
	}
	for n, yes := range accepted {
		if yes {
			count--
		}
		_ = n
	}
	if len(accepted) != tokens || count != 0 || last != tokens {
		t.Errorf("%d answers for %d tokens, %+d writes beyond those that were accepted, the last of %d", len(accepted), tokens, count, last)
	}
}

func TestTheTokenIsInTheFileBeforeTheWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fence")
	err := guard(t, path).Do(t.Context(), "the resource", pawl.Token{Key: "a b", Shared: true, Number: 17}, func(context.Context) error {
		text, err := os.ReadFile(path)
		if want := "pawl fence 1\nthe+resource a+b 0 17\nend 1\n"; string(text) != want {
			t.Errorf("got %q, %v, want %q", text, err, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A file that is damaged lets nobody pass: it may have been cut after a later token.
func TestADamagedFileRefusesAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fence")
	g := guard(t, path)
	for _, n := range []uint64{1, 2} {
		if err := g.Do(t.Context(), fmt.Sprint("r", n), token(n), nothing); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := []string{"pawl fence 2" + string(whole[12:]), string(whole) + "x", string(whole) + string(whole), "pawl fence 1\nr k x 0\nend 1\n",
		"pawl fence 1\nr k 1 0\nr k 1 0\nend 2\n", "pawl fence 1\nr k 1 0\nend 2\n", "pawl fence 1\nr  1 0\nend 1\n", "pawl fence 1\nr k 1\nend 1\n"}
	for n := range whole {
		damaged = append(damaged, string(whole[:n]))
	}
	for _, text := range damaged {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		err := g.Do(t.Context(), "r1", token(5), func(context.Context) error {
			t.Errorf("the write was called with %q", text)
			return nil
		})
		if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), path) {
			t.Errorf("with %q: got %v, want an error that names the file", text, err)
		}
	}
}

func TestWhatCantBeWrittenLetsNobodyPass(t *testing.T) {
	dir := t.TempDir()
	g := guard(t, filepath.Join(dir, "fence"))
	if err := os.Mkdir(filepath.Join(dir, "fence.new"), 0o700); err != nil { // in the way
		t.Fatal(err)
	}
	err := g.Do(t.Context(), "r", token(5), func(context.Context) error {
		t.Error("the write was called, and its token is not on disk")
		return nil
	})
	if pathErr := new(fs.PathError); !errors.As(err, &pathErr) {
		t.Errorf("got %v, want a PathError", err)
	}
}

func TestAnotherResourceOfTheSameFileIsNestedToo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fence")
	err := guard(t, path).Do(t.Context(), "a", token(1), func(ctx context.Context) error {
		return guard(t, path).Do(ctx, "b", token(1), nothing)
	})
	if !errors.Is(err, fence.ErrNested) {
		t.Errorf("got %v, want ErrNested", err)
	}
}

func TestAMissingDirectoryIsSaidAtOnce(t *testing.T) {
	if _, err := fencefile.New(filepath.Join(t.TempDir(), "no", "fence")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
	if _, err := fencefile.New(""); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
}

// A command that has the lock's file keeps the turn when the process that started
// it is gone: here, has returned from its Do.
func TestACommandCanKeepTheTurn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fence")
	g := guard(t, path)
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	err = g.Do(t.Context(), "r", token(1), func(ctx context.Context) error {
		lock, ok := fencefile.LockFromContext(ctx)
		if !ok {
			return errors.New("the context has no lock")
		}
		cmd.ExtraFiles = []*os.File{lock}
		return cmd.Start()
	})
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan error, 1)
	go func() { next <- g.Do(t.Context(), "r", token(2), nothing) }()
	select {
	case err := <-next:
		t.Errorf("the turn was given away while the command runs: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := <-next; err != nil {
		t.Error(err)
	}
}

func FuzzTable(f *testing.F) {
	f.Add([]byte("pawl fence 1\nr k 1 2\nend 1\n"))
	f.Add([]byte("pawl fence 1\nend 0\n"))
	f.Fuzz(func(t *testing.T, text []byte) { fencefile.RoundTrip(t, text) })
}
