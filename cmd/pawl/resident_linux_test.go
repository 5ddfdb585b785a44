package main

import (
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// resident returns the largest resident set of a run of program so far, in bytes. It
// is asked for by the command that is run: what the kernel tells the parent counts
// the parent's own memory too, of which the child has a copy until it begins.
func resident(t *testing.T, program, url string) int64 {
	t.Helper()
	out, err := exec.Command(program, "run", "--url", url, "k", "--", "/bin/sh", "-c", "cat /proc/$PPID/status").CombinedOutput()
	m := highWater.FindSubmatch(out)
	if err != nil || m == nil {
		t.Fatalf("the status of pawl run: %v\n%s", err, out)
	}
	kib, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return kib << 10
}
