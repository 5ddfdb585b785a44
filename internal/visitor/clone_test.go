// Package visitor has the tests of what someone does who has just cloned this
// repository: run the commands in the README, and use pawl in a module of his
// own.
package visitor_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// clone returns a folder that is named pawl, as a clone of the repository is,
// with all files in it that git keeps or would keep. It skips the test where
// that can't be told.
func clone(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	names, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Skipf("git can't list the files of the repository: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "pawl")
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		if err := copyFile(filepath.Join(dir, name), filepath.Join(root, name)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err) // one that does not exist has been deleted and not yet committed
		}
	}
	return dir
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// run runs a command in dir and returns what it wrote to stdout. The test ends
// if the command fails.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(environ(t), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(append([]string{name}, args...), " "), err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// environ is this process's environment without what the visitor does not
// have: settings of pawl, and a state directory that has been used before. He
// shares the caches of the go command.
func environ(t *testing.T) []string {
	t.Helper()
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "PAWL_") && !strings.HasPrefix(kv, "XDG_") && !strings.HasPrefix(kv, "GOFLAGS=") && !strings.HasPrefix(kv, "GOWORK=") {
			env = append(env, kv)
		}
	}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		value, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, name+"="+strings.TrimSpace(string(value)))
	}
	return append(env, "HOME="+t.TempDir())
}
