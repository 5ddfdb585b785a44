package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pawlock/pawl/internal/testserver"
)

// fenced returns the blocks of a language in docs/wrapper.md.
func fenced(t *testing.T, lang string) []string {
	t.Helper()
	var found []string
	for _, m := range regexp.MustCompile("(?ms)^```"+lang+"\n(.*?)^```$").FindAllStringSubmatch(read(t, "../../docs/wrapper.md"), -1) {
		found = append(found, m[1])
	}
	if len(found) == 0 {
		t.Fatalf("docs/wrapper.md has no %s", lang)
	}
	return found
}

// dryRun checks that a command line of the document is one that pawl takes: with
// a store and a command of ours in place of those.
func dryRun(t *testing.T, args []string) {
	t.Helper()
	dashes := slices.Index(args, "--")
	if len(args) < 3 || filepath.Base(args[0]) != "pawl" || args[1] != "run" || dashes < 0 {
		t.Fatalf("got %q, want pawl run ... -- COMMAND", args)
	}
	if code, _ := ask(t, fileURL(t), append(slices.Clone(args[1:dashes]), "--", "true")...); code != 0 {
		t.Errorf("%q: got exit code %d, want 0", args, code)
	}
}

func TestTheCronJobOfTheDocumentsIsValid(t *testing.T) {
	for _, text := range fenced(t, "yaml") {
		var job struct {
			Kind string
			Spec struct {
				JobTemplate struct {
					Spec struct {
						Template struct {
							Spec struct {
								RestartPolicy string `yaml:"restartPolicy"`
								Containers    []struct {
									Command []string
									Env     []struct{ Name string }
								}
							}
						}
					}
				} `yaml:"jobTemplate"`
			}
		}
		if err := yaml.Unmarshal([]byte(text), &job); err != nil {
			t.Fatal(err)
		}
		pod := job.Spec.JobTemplate.Spec.Template.Spec
		if job.Kind != "CronJob" || len(pod.Containers) != 1 || pod.RestartPolicy != "Never" {
			t.Fatalf("got %+v, want a CronJob with one container", job)
		}
		dryRun(t, pod.Containers[0].Command)
		for _, env := range pod.Containers[0].Env {
			if !slices.Contains(append([]string{"PAWL_URL"}, otherVariables...), env.Name) {
				t.Errorf("got the variable %s, which pawl does not know", env.Name)
			}
		}
	}
}

func TestTheCrontabOfTheDocumentsIsValid(t *testing.T) {
	for _, text := range fenced(t, "cron") {
		for line := range strings.Lines(text) {
			if name, _, ok := strings.Cut(line, "="); ok && !strings.Contains(name, " ") {
				continue
			}
			fields := strings.Fields(line)
			if len(fields) < 6 {
				t.Fatalf("got %q, want five times and a command", line)
			}
			dryRun(t, fields[5:])
		}
	}
}

// The lines that systemd runs are tried, and the whole is read by systemd itself
// where that is there.
func TestTheUnitsOfTheDocumentsAreValid(t *testing.T) {
	dir := t.TempDir()
	program, err := exec.LookPath("pawl")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`^# /etc/systemd/system/(\S+)\n`)
	var units []string
	for _, text := range fenced(t, "ini") {
		m := name.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("got a unit without a name: %q", text)
		}
		if start := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(text); start != nil {
			dryRun(t, strings.Fields(start[1]))
		}
		text = strings.NewReplacer("/usr/local/bin/pawl", program, "/usr/local/bin/report", "/bin/true").Replace(text)
		unit := filepath.Join(dir, m[1])
		if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		units = append(units, unit)
	}
	testserver.Require(t, "systemd", "systemd-analyze")
	out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, units...)...).CombinedOutput()
	if err != nil || strings.Contains(string(out), dir) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
