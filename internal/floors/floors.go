// Package floors checks the rules of the house that a compiler lets through:
// which package may import which, that the root module needs nothing but the
// standard library, that the files are the ones a reader expects, and that the
// cases of docs/cases.md and the tests name each other.
//
//	driver < internal < backends < pawl < sim, fence and other helpers < cmd
//
// ARCHITECTURE.md says why. The rules stand in rules.go, one function each.
package floors

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Root is the path of the root module, and of the package that users import.
const Root = "github.com/pawlock/pawl"

// A Finding says where a rule is broken, and why that matters.
type Finding struct {
	File string // relative to the root of the repository
	Line int    // 0 for a finding about the whole file
	Why  string
}

// String renders f as compilers do.
func (f Finding) String() string {
	if f.Line == 0 {
		return f.File + ": " + f.Why
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Why)
}

// Check returns what breaks the rules in the repository repo, in the order of
// the files. It fails if a file can't be read or parsed.
func Check(repo fs.FS) ([]Finding, error) {
	r, err := read(repo)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, rule := range rules {
		rule(r, func(file string, line int, why string) {
			found = append(found, Finding{file, line, why})
		})
	}
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Why, b.Why))
	})
	return found, nil
}

// A repository is what the rules look at.
type repository struct {
	files   []*file
	modules map[string]string // folder of a go.mod to its text; "." is the root
	work    string            // text of go.work
	sums    []string          // paths of the go.sum files
	cases   string            // text of docs/cases.md
	scripts map[string]string // path of a test's script to its text
}

// A file is a Go file, parsed.
type file struct {
	path   string // relative to the root of the repository
	dir    string // folder of path, "." for the root package
	module string // folder of the module it belongs to
	test   bool
	set    *token.FileSet
	syntax *ast.File
}

// line tells where n stands in f.
func (f *file) line(n ast.Node) int { return f.set.Position(n.Pos()).Line }

// imports yields what f imports, and the line where it does.
func (f *file) imports(yield func(string, int) bool) {
	for _, spec := range f.syntax.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err == nil && !yield(p, f.line(spec)) { // the parser has seen to it that err is nil
			return
		}
	}
}

func read(repo fs.FS) (*repository, error) {
	r := &repository{modules: make(map[string]string), scripts: make(map[string]string)}
	err := fs.WalkDir(repo, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && ignored(d.Name()):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		return r.add(repo, name)
	})
	if err != nil {
		return nil, err
	}
	for _, f := range r.files {
		for f.module = f.dir; f.module != "." && r.modules[f.module] == ""; {
			f.module = path.Dir(f.module)
		}
	}
	return r, nil
}

// ignored reports whether the go command passes over a folder of this name, and
// so do we. In testdata we look for scripts.
func ignored(dir string) bool { return strings.HasPrefix(dir, ".") || strings.HasPrefix(dir, "_") }

func (r *repository) add(repo fs.FS, name string) error {
	base := path.Base(name)
	switch {
	case isScript(name), name == "go.work", name == casesDoc:
	case slices.Contains(strings.Split(name, "/"), "testdata"):
		return nil
	case path.Ext(name) != ".go" && base != "go.mod" && base != "go.sum":
		return nil
	}
	text, err := fs.ReadFile(repo, name)
	if err != nil {
		return err
	}
	switch {
	case base == "go.mod":
		r.modules[path.Dir(name)] = string(text)
	case base == "go.sum":
		r.sums = append(r.sums, name)
	case name == "go.work":
		r.work = string(text)
	case name == casesDoc:
		r.cases = string(text)
	case isScript(name):
		r.scripts[name] = string(text)
	default:
		f := &file{path: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), set: token.NewFileSet()}
		f.syntax, err = parser.ParseFile(f.set, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		r.files = append(r.files, f)
	}
	return nil
}
