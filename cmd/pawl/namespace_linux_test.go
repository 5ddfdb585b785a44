package main

import (
	"os"
	"os/exec"
	"testing"
)

func hasNamespaces() bool {
	return exec.Command("unshare", "--fork", "--pid", "--mount-proc", "true").Run() == nil
}

// unshared runs pawl as process 1 of a namespace and returns its exit code.
func unshared(t *testing.T, args ...string) int {
	t.Helper()
	cmd := exec.Command("unshare", append([]string{"--fork", "--pid", "--mount-proc", "pawl"}, args...)...)
	cmd.Env = append(os.Environ(), "PAWL_URL="+fileURL(t))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if t.Failed() || cmd.ProcessState.ExitCode() < 0 {
		t.Logf("%s", out)
	}
	return cmd.ProcessState.ExitCode()
}
