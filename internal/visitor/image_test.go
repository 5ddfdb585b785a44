package visitor_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheDockerfileBuildsWhatIsHere checks the Dockerfile for what can be told
// without an engine: it is of instructions that there are, what it copies is
// there or was made by the stage before, its Go is new enough, and its build is
// one that the go command takes.
func TestTheDockerfileBuildsWhatIsHere(t *testing.T) {
	repo := clone(t)
	stages, made := map[string]bool{}, map[string]bool{"/etc/ssl/certs/ca-certificates.crt": true} // the base image's
	placed := map[string]bool{}
	entry, builds := "", 0
	for line := range strings.Lines(read(t, repo, "Dockerfile")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		instruction, rest, _ := strings.Cut(line, " ")
		fields := strings.Fields(rest)
		switch instruction {
		case "FROM":
			if version, ok := strings.CutPrefix(fields[0], "golang:"); ok {
				goMod := read(t, repo, "go.mod")
				if want := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(goMod)[1]; version != want {
					t.Errorf("Dockerfile: it builds with Go %s, and go.mod asks for %s", version, want)
				}
			}
			if len(fields) == 3 && fields[1] == "AS" {
				stages[fields[2]] = true
			}
		case "COPY":
			if stage, ok := strings.CutPrefix(fields[0], "--from="); ok {
				if !stages[stage] || !made[fields[1]] {
					t.Errorf("Dockerfile: %s: the stage does not make that", line)
				}
				to := fields[2]
				if strings.HasSuffix(to, "/") {
					to = path.Join(to, path.Base(fields[1]))
				}
				placed[to] = true
			} else if _, err := os.Stat(filepath.Join(repo, fields[0])); err != nil {
				t.Errorf("Dockerfile: %s: %v", line, err)
			}
		case "RUN":
			m := regexp.MustCompile(`go build .*-o (\S+) \S+$`).FindStringSubmatch(rest)
			if m == nil {
				t.Fatalf("Dockerfile: got %q, want a go build -o", line)
			}
			builds++
			made[m[1]] = true
			// -n has the go command read it all, and build nothing.
			run(t, repo, nil, "bash", "-c", "("+strings.Replace(rest, "go build", "go build -n", 1)+") 2>/dev/null")
		case "ENTRYPOINT":
			entry = strings.Trim(rest, `["]`)
		case "WORKDIR", "ENV", "USER":
		default:
			t.Errorf("Dockerfile: %s is no instruction that this test knows", instruction)
		}
	}
	if builds != 1 || !placed[entry] {
		t.Errorf("Dockerfile: got the entry point %q and %d builds, want what the one build has made", entry, builds)
	}
}
