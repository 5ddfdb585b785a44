package visitor_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// hello is a program that needs nothing but pawl and the standard library.
const hello = `package main

import (
	"context"
	"fmt"
	"os"

	"github.com/pawlock/pawl"
	"github.com/pawlock/pawl/memory"
)

func main() {
	client, err := pawl.New(memory.New(nil), nil)
	if err == nil {
		err = client.Mutex("hello").Do(context.Background(), func(_ context.Context, lease *pawl.Lease) error {
			fmt.Println("alone:", lease.Token() > 0)
			return nil
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
`

func TestAModuleOfTheirOwnBuildsAndRuns(t *testing.T) {
	dir := module(t, clone(t), hello, "github.com/pawlock/pawl=.")
	got := run(t, dir, []string{"GOWORK=off", "GOFLAGS=-mod=mod"}, "go", "run", ".")
	if want := "alone: true\n"; got != want {
		t.Errorf("the program printed %q, want %q", got, want)
	}
	if sums, err := os.ReadFile(filepath.Join(dir, "go.sum")); err == nil {
		t.Errorf("got a go.sum, want none: pawl requires nothing:\n%s", sums)
	}
}

func TestRedisBringsItsClientAndNothingElse(t *testing.T) {
	repo := clone(t)
	dir := module(t, repo, "package main\n\nimport (\n\t_ \"github.com/pawlock/pawl\"\n\t_ \"github.com/pawlock/pawl/redis/goredis\"\n)\n\nfunc main() {}\n",
		"github.com/pawlock/pawl=.", "github.com/pawlock/pawl/redis/goredis=redis/goredis")
	if err := copyFile(filepath.Join(dir, "go.sum"), filepath.Join(repo, "redis/goredis/go.sum")); err != nil {
		t.Fatal(err)
	}
	list := run(t, dir, []string{"GOWORK=off", "GOFLAGS=-mod=mod"}, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	got := make(map[string]bool)
	for mod := range strings.FieldsSeq(list) {
		got[mod] = true
	}
	for _, mod := range []string{
		"example.com/hello",
		"github.com/pawlock/pawl",
		"github.com/pawlock/pawl/redis/goredis",
		"github.com/redis/go-redis/v9",
	} {
		if !got[mod] {
			t.Errorf("got modules without %s: this test does not look where it should", mod)
		}
		delete(got, mod)
	}
	for _, mod := range []string{ // what go-redis itself brings
		"github.com/cespare/xxhash/v2",
		"github.com/dgryski/go-rendezvous",
		"go.uber.org/atomic",
		"golang.org/x/sys",
	} {
		delete(got, mod)
	}
	if len(got) != 0 {
		t.Errorf("a user of pawl on Redis also gets %q, want nothing but the client's own needs", slices.Sorted(maps.Keys(got)))
	}
}

// module makes a module with the program main beside the clone repo. Each
// replace reads module=folder in the clone.
func module(t *testing.T, repo, main string, replace ...string) string {
	t.Helper()
	dir := filepath.Join(filepath.Dir(repo), "hello")
	mod := "module example.com/hello\n\ngo 1.26.0\n"
	for _, r := range replace {
		name, folder, _ := strings.Cut(r, "=")
		mod += "\nrequire " + name + " v0.0.0\n\nreplace " + name + " => " + filepath.Join(repo, folder) + "\n"
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"go.mod": mod, "main.go": main} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// What the stores that a user does not use need is nowhere in the graph of his
// modules, not even unused: it would raise the versions of what he does use.
func TestOtherStoresAreInNobodysModules(t *testing.T) {
	repo := clone(t)
	dir := module(t, repo, "package main\n\nimport (\n\t_ \"github.com/pawlock/pawl\"\n\t_ \"github.com/pawlock/pawl/redis/goredis\"\n)\n\nfunc main() {}\n",
		"github.com/pawlock/pawl=.", "github.com/pawlock/pawl/redis/goredis=redis/goredis")
	if err := copyFile(filepath.Join(dir, "go.sum"), filepath.Join(repo, "redis/goredis/go.sum")); err != nil {
		t.Fatal(err)
	}
	list := run(t, dir, []string{"GOWORK=off", "GOFLAGS=-mod=mod"}, "go", "list", "-m", "all")
	if !strings.Contains(list, "github.com/redis/go-redis/v9") {
		t.Errorf("got modules without go-redis: this test does not look where it should:\n%s", list)
	}
	for _, word := range []string{"etcd", "grpc", "zookeeper", "protobuf"} {
		for line := range strings.Lines(list) {
			if strings.Contains(line, word) {
				t.Errorf("a user of pawl on Redis also gets %s", line)
			}
		}
	}
}
