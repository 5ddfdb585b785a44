package redis_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func readScripts(t *testing.T) map[string]string {
	paths, err := filepath.Glob("scripts/*.lua")
	if err != nil || len(paths) != 8 {
		t.Fatalf("scripts: got %q, %v, want eight", paths, err)
	}
	scripts := make(map[string]string)
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		scripts[filepath.Base(path)] = string(b)
	}
	return scripts
}

// Case K02.
func TestScriptHeadersDocumentWhatIsUsed(t *testing.T) {
	for name, source := range readScripts(t) {
		if !strings.HasSuffix(source, "\n") {
			t.Errorf("%s does not end with a newline", name)
		}
		for _, list := range []string{"KEYS", "ARGV"} {
			documented, used := 0, 0
			number := regexp.MustCompile(list + `\[(\d+)\]`)
			for _, line := range strings.Split(source, "\n") {
				code, comment, _ := strings.Cut(line, "--")
				for _, m := range number.FindAllStringSubmatch(code, -1) {
					n, _ := strconv.Atoi(m[1])
					used = max(used, n)
				}
				if m := regexp.MustCompile(`^ ` + list + `\[(\d+)\] +\S`).FindStringSubmatch(comment); m != nil {
					n, _ := strconv.Atoi(m[1])
					if n != documented+1 {
						t.Errorf("%s documents %s[%d] after %s[%d]", name, list, n, list, documented)
					}
					documented = n
				}
			}
			if documented == 0 || used != documented {
				t.Errorf("%s: %s up to %d are used, up to %d documented", name, list, used, documented)
			}
		}
	}
}

// A script is one file, so that another program can use it as it is: what
// several have in common is there several times, and the same.
func TestScriptsAgreeOnWhatTheyShare(t *testing.T) {
	scripts := readScripts(t)
	bodies := make(map[string]string)
	shared := make(map[string]int)
	for name, source := range scripts {
		for _, body := range regexp.MustCompile(`(?ms)^local function \w+\(.*?^end$`).FindAllString(source, -1) {
			function := regexp.MustCompile(`\w+\(`).FindString(body)
			if function == "lost(" {
				continue // what a script knows already differs
			}
			if other, ok := bodies[function]; ok && other != body {
				t.Errorf("%s: %s...) differs from that of another script", name, function)
			}
			bodies[function] = body
			shared[function]++
		}
	}
	for function, want := range map[string]int{"wake(": 3, "fits(": 3, "outlive(": 4, "lasting(": 3, "settle(": 2} {
		if shared[function] != want {
			t.Errorf("%s...): got %d scripts that have it, want %d", function, shared[function], want)
		}
	}
}

func TestScriptSyntax(t *testing.T) {
	luac, err := exec.LookPath("luac5.1")
	if err != nil {
		t.Skip("luac5.1 is not installed")
	}
	for name, source := range readScripts(t) {
		flags, body, _ := strings.Cut(source, "\n")
		if !strings.HasPrefix(flags, "#!lua") {
			t.Errorf("%s begins with %q, want script flags", name, flags)
		}
		cmd := exec.Command(luac, "-p", "-")
		cmd.Stdin = strings.NewReader(body)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		cmd = exec.Command(luac, "-l", "-p", "-")
		cmd.Stdin = strings.NewReader(body)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		for _, global := range regexp.MustCompile(`SETGLOBAL.*`).FindAllString(string(out), -1) {
			t.Errorf("%s sets a global variable, which Redis refuses: %s", name, global)
		}
	}
}
