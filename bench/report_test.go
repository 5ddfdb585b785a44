package bench_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	rounds = flag.Int("rounds", 1, "how often each library has its turn")
	period = flag.Duration("period", 50*time.Millisecond, "how long a turn is")
	batch  = flag.Int("batch", 20, "locks of a test that counts")
	file   = flag.String("report", "", "the file that the tables are written to, none if empty")
)

// A report is the tables of a comparison, as Markdown.
type report struct {
	t      testing.TB
	guard  *guard
	title  string
	tables []*table
}

type table struct {
	title  string
	header []string
	rows   [][]string
}

// newReport returns a report that is written when the test has ended.
func newReport(t testing.TB, title string) *report {
	r := &report{t: t, guard: newGuard(t), title: title}
	load := loads()
	t.Cleanup(func() {
		switch {
		case t.Failed():
			return
		case *file == "":
			t.Log(r.markdown(load)) // with -v
			return
		}
		f, err := os.OpenFile(*file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666) // one file for all tests
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := f.WriteString(r.markdown(load) + "\n"); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// table begins a table.
func (r *report) table(title string, header ...string) *table {
	b := &table{title: title, header: header}
	r.tables = append(r.tables, b)
	return b
}

func (b *table) row(cells ...any) {
	var row []string
	for _, c := range cells {
		row = append(row, fmt.Sprint(c))
	}
	b.rows = append(b.rows, row)
}

func (r *report) markdown(load string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "## %s\n\n%s, %d processors, %s, %s; %d rounds of %v; load average %s at the start and %s at the end.\n",
		r.title, processor(), runtime.NumCPU(), runtime.Version(), server(), *rounds, *period, load, loads())
	for _, b := range r.tables {
		fmt.Fprintf(&s, "\n**%s**\n\n", b.title)
		line := func(cells []string) { fmt.Fprintf(&s, "| %s |\n", strings.Join(cells, " | ")) }
		line(b.header)
		fmt.Fprintf(&s, "|%s\n", strings.Repeat("---|", len(b.header)))
		for _, row := range b.rows {
			line(row)
		}
	}
	return s.String()
}

// processor returns what the machine calls its own, as far as it says.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func server() string {
	out, _ := exec.Command("redis-server", "--version").Output()
	for word := range strings.FieldsSeq(string(out)) {
		if v, ok := strings.CutPrefix(word, "v="); ok {
			return "redis-server " + v
		}
	}
	return "redis-server"
}

// loads returns how busy the machine has been for a minute.
func loads() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

// quantile returns what percent of x are not above.
func quantile(x []time.Duration, percent int) time.Duration {
	x = slices.Clone(x)
	slices.Sort(x)
	d := x[min(len(x)*percent/100, len(x)-1)]
	if d > 10*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Microsecond)
}
