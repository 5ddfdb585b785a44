package floors

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// casesDoc lists what went wrong with locks in the field, and the tests that
// show what holds here.
const casesDoc = "docs/cases.md"

// casesAreShown compares the document of cases with the tests, in both
// directions: each row names tests that exist and name its case, or says why
// there can't be one; and each case that a test names has a row.
func casesAreShown(r *repository, report func(string, int, string)) {
	named := r.namedCases()
	rows := make(map[string]bool)
	last := ""
	for i, line := range strings.Split(r.cases, "\n") {
		row, ok := parseRow(line)
		if !ok {
			if cells := strings.Split(line, "|"); len(cells) > 2 && caseID.FindString(cells[1]) != "" {
				report(casesDoc, i+1, fmt.Sprintf("a row of %d cells: a case has four", len(cells)-2))
			}
			continue
		}
		complain := func(format string, a ...any) { report(casesDoc, i+1, row.id+fmt.Sprintf(format, a...)) }
		switch {
		case row.id == "":
			report(casesDoc, i+1, "a row of four cells begins with the id of a case, and not with "+strconv.Quote(row.first))
			continue
		case rows[row.id]:
			complain(" is listed twice")
		case last != "" && compareCases(last, row.id) > 0:
			complain(" stands after %s: sort the cases", last)
		}
		rows[row.id], last = true, row.id
		if len(row.tests) == 0 && len(row.reason) < 20 {
			complain(" has neither a test, as `package: Test`, nor a reason, after %q", notOurs)
		}
		if row.rest != "" {
			complain(" has %q among its tests: there is room for tests alone, each as `package: Test`", row.rest)
		}
		for _, ref := range row.tests {
			switch cases, ok := named.of(ref); {
			case !ok:
				complain(" is shown by %s, which does not exist", ref)
			case !cases[row.id]:
				complain(" is shown by %s, which does not name it in a comment", ref)
			}
		}
	}
	for id, where := range named.first {
		if !rows[id] {
			report(where.file, where.line, "case "+id+" has no row in "+casesDoc)
		}
	}
}

// A caseRow is one line of a table of the document.
type caseRow struct {
	first, id string
	tests     []string // as "package: Test"
	rest      string   // what else stands beside them
	reason    string   // why there is none
}

const notOurs = "Does not apply: "

var (
	caseID = regexp.MustCompile(`\b(?:[A-SUV][0-9]{2}|T[0-9]{1,2}[ab]?)\b`)
	ref    = regexp.MustCompile("`([^`]+: [^`]+)`")
)

// parseRow reads a row of four cells: the case, what happened, what holds here,
// and what shows it. It reports false for every other line, and heads of tables.
func parseRow(line string) (row caseRow, ok bool) {
	cells := strings.Split(line, "|")
	if len(cells) != 6 || cells[0] != "" || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[1]) == "case" {
		return row, false
	}
	row.first = strings.TrimSpace(cells[1])
	if caseID.FindString(row.first) == row.first {
		row.id = row.first
	}
	for _, m := range ref.FindAllStringSubmatch(cells[4], -1) {
		row.tests = append(row.tests, m[1])
	}
	row.rest = strings.Trim(ref.ReplaceAllString(cells[4], ""), " ,")
	_, row.reason, _ = strings.Cut(cells[3], notOurs)
	return row, true
}

// compareCases orders ids by letter, number and suffix.
func compareCases(a, b string) int {
	parts := func(id string) (letter string, n int, suffix string) {
		digits := strings.TrimRight(id[1:], "ab")
		n, _ = strconv.Atoi(digits) // caseID has seen to it
		return id[:1], n, id[1+len(digits):]
	}
	la, na, sa := parts(a)
	lb, nb, sb := parts(b)
	return cmp.Or(cmp.Compare(la, lb), cmp.Compare(na, nb), cmp.Compare(sa, sb))
}

// namedCases are the cases that tests name, by "package: Test".
type namedCases struct {
	tests map[string]map[string]bool
	first map[string]place // of each case, where it is named
}

type place struct {
	file string
	line int
}

// of returns the cases that a test names, and whether there is such a test. A
// subtest may stand in a table outside of its test, and in the suite for backends
// it stands in the function of its guarantee.
func (n *namedCases) of(ref string) (map[string]bool, bool) {
	if cases, ok := n.tests[ref]; ok {
		return cases, true
	}
	dir, name, _ := strings.Cut(ref, ": ")
	test, sub, ok := strings.Cut(name, "/")
	if !ok || test == "" {
		return nil, false
	}
	if _, ok := n.tests[dir+": "+test]; ok {
		cases, ok := n.tests[dir+": /"+sub]
		return cases, ok
	}
	cases, ok := n.tests[dir+": "+strings.ToLower(test[:1])+test[1:]+"/"+sub]
	return cases, ok
}

// add notes that a test of this name exists and names the cases in texts.
func (n *namedCases) add(name string, at place, texts ...string) {
	if n.tests[name] == nil {
		n.tests[name] = make(map[string]bool)
	}
	for _, text := range texts {
		for _, id := range caseID.FindAllString(text, -1) {
			n.tests[name][id] = true
			if old, ok := n.first[id]; !ok || cmp.Or(cmp.Compare(at.file, old.file), cmp.Compare(at.line, old.line)) < 0 {
				n.first[id] = at
			}
		}
	}
}

func (r *repository) namedCases() *namedCases {
	n := &namedCases{tests: make(map[string]map[string]bool), first: make(map[string]place)}
	for _, name := range slices.Sorted(maps.Keys(r.scripts)) {
		dir, rest, _ := strings.Cut(name, "/testdata/")
		n.add(dir+": "+rest, place{name, 1})
		for i, line := range strings.Split(r.scripts[name], "\n") {
			if strings.HasPrefix(line, "#") {
				n.add(dir+": "+rest, place{name, i + 1}, line)
			}
		}
	}
	for _, f := range r.files {
		if f.test || strings.HasSuffix(f.dir, "test") {
			n.read(f)
		}
	}
	return n
}

// read notes the tests of f and the subtests in its tables, which are known by a
// string among their fields or arguments. A case is named in a comment, or at the
// beginning of the name of a subtest.
func (n *namedCases) read(f *file) {
	comments := make(map[int]string) // by line
	for _, group := range f.syntax.Comments {
		for _, c := range group.List {
			for i, text := range strings.Split(c.Text, "\n") {
				comments[f.line(c)+i] += text
			}
		}
	}
	note := func(name string, from, to int, extra string) {
		n.add(name, place{f.path, from}, extra)
		for line := from; line <= to; line++ {
			n.add(name, place{f.path, line}, comments[line])
		}
	}
	end := func(x ast.Node) int { return f.set.Position(x.End()).Line }
	dir := f.dir
	if dir == "." {
		dir = path.Base(Root)
	}
	for _, d := range f.syntax.Decls {
		owner := dir + ": "
		from := f.line(d)
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
			if fn.Doc != nil {
				from = f.line(fn.Doc)
			}
			if isTest(fn.Name.Name) || !f.test {
				owner += fn.Name.Name
				note(owner, from, end(d), "")
			}
		}
		ast.Inspect(d, func(x ast.Node) bool {
			for _, sub := range subtests(x) {
				begins := ""
				if id := caseID.FindStringIndex(sub); id != nil && id[0] == 0 && id[1] < len(sub) && strings.ContainsAny(sub[id[1]:id[1]+1], " :,") {
					begins = sub[:id[1]]
				}
				note(owner+"/"+sub, f.line(x), end(x), begins)
			}
			return true
		})
	}
}

func isTest(name string) bool {
	for _, prefix := range []string{"Test", "Fuzz", "Benchmark", "Example"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// subtests returns the names that x may give to a subtest: it is a row of a
// table, or a call.
func subtests(x ast.Node) (names []string) {
	var fields []ast.Expr
	switch x := x.(type) {
	case *ast.CompositeLit:
		fields = x.Elts
	case *ast.CallExpr:
		fields = x.Args
	}
	for _, field := range fields {
		if kv, ok := field.(*ast.KeyValueExpr); ok {
			field = kv.Value
		}
		if lit, ok := field.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if name, err := strconv.Unquote(lit.Value); err == nil {
				names = append(names, name)
			}
		}
	}
	return names
}

// isScript reports whether name is a script that a test runs.
func isScript(name string) bool {
	return path.Ext(name) == ".txt" && strings.Contains(name, "/testdata/")
}
