package floors

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A rule reports what breaks it.
type rule func(r *repository, report func(file string, line int, why string))

var rules = []rule{
	rootStandsAlone,
	floorsHold,
	workIsComplete,
	testingStaysInTests,
	namesSayWhat,
	nothingRunsUnasked,
	clockIsASeam,
	nothingIsLeftToDo,
	casesAreShown,
}

// rootStandsAlone keeps the root module free of requirements. An import of a
// nested module would pass in the workspace and fail for users.
func rootStandsAlone(r *repository, report func(string, int, string)) {
	if slices.Contains(r.sums, "go.sum") {
		report("go.sum", 0, "the root module requires nothing, and so has no sums")
	}
	for i, line := range strings.Split(r.modules["."], "\n") {
		if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word == "require" || word == "replace" || word == "tool" {
			report("go.mod", i+1, "the root module has a "+word+": it needs nothing but the standard library")
		}
	}
	for _, f := range r.files {
		if f.module != "." {
			continue
		}
		for p, line := range f.imports {
			first, _, _ := strings.Cut(p, "/")
			dir, ours := within(p)
			switch {
			case !ours && (strings.Contains(first, ".") || first == "C"):
				report(f.path, line, "the root module imports "+p+": it needs nothing but the standard library, in tests too")
			case ours && r.moduleOf(dir) != ".":
				report(f.path, line, "the root module imports "+p+", which is another module: without the workspace it does not build")
			}
		}
	}
}

// The floors, from the ground up. A folder stands on a floor with all that is
// in it; fence stands on pawl, beside the backends, but for fence/stores, which
// tests the two together; cmd, sim and bench are the
// roof, which nothing else imports.
var (
	backends = []string{"memory", "file", "redis", "quorum", "etcd", "zookeeper", "fault"}
	roof     = []string{"cmd", "sim", "bench"}
)

// floorsHold keeps every import pointing down. Tests may look up: a backend's
// may use the core, and the core's need a backend.
func floorsHold(r *repository, report func(string, int, string)) {
	for _, f := range r.files {
		if f.test {
			continue
		}
		from := top(f.dir)
		for p, line := range f.imports {
			dir, ours := within(p)
			if !ours {
				continue
			}
			to := top(dir)
			switch {
			case from == to:
			case from == "driver":
				report(f.path, line, "driver imports "+p+": it is the ground and stands on the standard library alone")
			case f.dir == "internal/recipetest" && to == ".": // it tests what the core makes of a backend
			case from == "internal" && to != "driver":
				report(f.path, line, "internal imports "+p+": it stands on driver alone")
			case slices.Contains(backends, from) && to == ".":
				report(f.path, line, "the backend "+from+" imports pawl: backends are below it and know driver alone")
			case slices.Contains(backends, from) && to != "driver" && to != "internal":
				report(f.path, line, "the backend "+from+" imports "+p+": backends know driver alone, not each other")
			case from == "fence" && !strings.HasPrefix(f.dir, "fence/stores") && to != "." && to != "driver" && to != "internal" && !slices.Contains(roof, to):
				report(f.path, line, "fence imports "+p+": it knows tokens, and no backend that grants them")
			case from == "." && to != "driver" && to != "internal":
				report(f.path, line, "pawl imports "+p+": it knows driver and no backend, so that users choose theirs")
			case slices.Contains(roof, to) && !slices.Contains(roof, from):
				report(f.path, line, from+" imports "+p+", which is above it")
			}
		}
	}
}

// workIsComplete keeps every module in go.work, so that the pattern "work"
// reaches it. Those that raise other people's versions stay outside.
func workIsComplete(r *repository, report func(string, int, string)) {
	for dir := range r.modules {
		in := regexp.MustCompile(`(?m)^\s*(use\s+)?(\./)?` + regexp.QuoteMeta(dir) + `\s*$`).MatchString(r.work)
		switch out := top(dir) == "tools" || dir == "bench"; {
		case !in && !out:
			report(path.Join(dir, "go.mod"), 0, "this module is not in go.work, where the checks and tests look for it")
		case in && out:
			report("go.work", 0, dir+" is in go.work, where it raises the versions of all other modules")
		}
	}
}

// testingStaysInTests keeps package testing, and what else tests need, out of
// users' programs.
func testingStaysInTests(r *repository, report func(string, int, string)) {
	forTests := func(dir string) bool {
		return strings.HasSuffix(dir, "test") || dir == "internal/testserver"
	}
	for _, f := range r.files {
		if f.test || forTests(f.dir) {
			continue
		}
		for p, line := range f.imports {
			dir, ours := within(p)
			if p == "testing" || strings.HasPrefix(p, "testing/") || ours && forTests(dir) {
				report(f.path, line, "imports "+p+" outside tests: it would end up in users' programs")
			}
		}
	}
}

// namesSayWhat keeps names that say nothing away from files and packages.
func namesSayWhat(r *repository, report func(string, int, string)) {
	empty := []string{"util", "utils", "common", "helper", "helpers", "types", "models", "base", "misc"}
	for _, f := range r.files {
		stem := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.path), ".go"), "_test")
		if i := strings.LastIndex(stem, "_"); slices.Contains(empty, stem) || slices.Contains(append(empty, "impl"), stem[i+1:]) {
			report(f.path, 0, "the file's name does not say what is in it")
		}
		if name := strings.TrimSuffix(f.syntax.Name.Name, "_test"); slices.Contains(empty, name) {
			report(f.path, f.line(f.syntax.Name), "package "+name+" does not say what is in it")
		}
	}
}

// nothingRunsUnasked forbids init: importing a package has no effect.
func nothingRunsUnasked(r *repository, report func(string, int, string)) {
	for _, f := range r.files {
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				report(f.path, f.line(fn), "init runs without being asked")
			}
		}
	}
}

// clockIsASeam keeps the core on its clock, so that a lease can be tested to
// the nanosecond and simulated. The root package reads the time in the files of
// its clock alone, and stops every timer that it starts. The state machine of a
// lease has neither: it is told what time it is.
func clockIsASeam(r *repository, report func(string, int, string)) {
	for _, f := range r.files {
		var bypasses []string
		switch {
		case f.dir == "internal/term" || f.dir == "internal/ballot":
			bypasses = []string{"Now", "Since", "Until", "Sleep", "After", "Tick", "AfterFunc", "NewTimer", "NewTicker"}
		case f.dir == "." && !strings.HasPrefix(f.path, "clock"):
			bypasses = []string{"Now", "Since", "Sleep", "After", "Tick"} // Until is for the deadlines of contexts
		}
		if f.test || bypasses == nil {
			continue
		}
		name := "time" // under which f imports it
		for _, spec := range f.syntax.Imports {
			if spec.Path.Value == `"time"` && spec.Name != nil {
				name = spec.Name.Name
			}
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.Contains(bypasses, sel.Sel.Name) {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == name {
				report(f.path, f.line(sel), "time."+sel.Sel.Name+" bypasses the clock: only clock.go reads the time")
			}
			return true
		})
	}
}

// nothingIsLeftToDo keeps notes to oneself out of the code.
func nothingIsLeftToDo(r *repository, report func(string, int, string)) {
	note := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`)
	for _, f := range r.files {
		for _, group := range f.syntax.Comments {
			for _, c := range group.List {
				if m := note.FindString(c.Text); m != "" {
					report(f.path, f.line(c), m+" in a comment: do it or file it")
				}
			}
		}
	}
}

// within returns the folder of the package p if it is one of ours.
func within(p string) (dir string, ours bool) {
	if p == Root {
		return ".", true
	}
	return strings.CutPrefix(p, Root+"/")
}

// top returns the first element of a folder's path: the floor it stands on.
func top(dir string) string {
	first, _, _ := strings.Cut(dir, "/")
	return first
}

// moduleOf returns the folder of the module that dir belongs to.
func (r *repository) moduleOf(dir string) string {
	for dir != "." && r.modules[dir] == "" {
		dir = path.Dir(dir)
	}
	return dir
}
