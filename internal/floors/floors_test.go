package floors_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pawlock/pawl/internal/floors"
)

func TestTheRepositoryKeepsTheRules(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	found, err := floors.Check(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Error(f)
	}
}

// sound is a small repository that keeps all rules.
func sound() map[string]string {
	return map[string]string{
		"go.mod":                    "module github.com/pawlock/pawl\n\ngo 1.26.0\n",
		"go.work":                   "go 1.26.0\n\nuse (\n\t.\n\t./redis/goredis\n)\n",
		"lock.go":                   "package pawl\nimport (\n\t\"time\"\n\t\"github.com/pawlock/pawl/driver\"\n)\nvar _ time.Duration\n",
		"clock.go":                  "package pawl\nimport \"time\"\nvar _ = time.Now\n",
		"lock_test.go":              "package pawl_test\nimport (\n\t\"testing\"\n\t\"time\"\n\t\"github.com/pawlock/pawl/memory\"\n)\nvar _ = time.Sleep\n",
		"driver/driver.go":          "package driver\nimport \"context\"\n",
		"driver/drivertest/run.go":  "package drivertest\nimport (\n\t\"testing\"\n\t\"github.com/pawlock/pawl/driver\"\n)\n",
		"memory/memory.go":          "package memory\nimport \"github.com/pawlock/pawl/driver\"\n",
		"fence/fence.go":            "package fence\nimport \"github.com/pawlock/pawl\"\n",
		"fence/stores/late/main.go": "package main\nimport \"github.com/pawlock/pawl/file\"\n",
		"memory/memory_test.go":     "package memory_test\nimport \"github.com/pawlock/pawl\"\n",
		"redis/goredis/go.mod":      "module github.com/pawlock/pawl/redis/goredis\n\nrequire github.com/redis/go-redis/v9 v9.0.0\n",
		"redis/goredis/go.sum":      "",
		"redis/goredis/node.go":     "package goredis\nimport (\n\t\"github.com/pawlock/pawl/redis\"\n\t\"github.com/redis/go-redis/v9\"\n)\n",
		"tools/go.mod":              "module github.com/pawlock/pawl/tools\n",
		"redis/testdata/x/x.go":     "package x\nimport \"example.com/anything\"\n",

		"docs/cases.md":                     cases("| A01 | lost | told | `pawl: TestLost`, `cmd/pawl: script/lost.txt` |", rowB02),
		"lost_test.go":                      "package pawl_test\n// Case A01.\nfunc TestLost(t *testing.T) {}\n",
		"driver/drivertest/late.go":         "package drivertest\nfunc ownership() []check {\n\treturn []check{\n\t\t{\"late\", nil}, // B02\n\t\t{\"never\", nil},\n\t}\n}\n",
		"cmd/pawl/testdata/script/lost.txt": "# A01\nexec pawl\n",
	}
}

// rowB02 is a row of a case whose test stands in a table.
const rowB02 = "| B02 | freed | kept | `driver/drivertest: Ownership/late` |"

// cases is a document of cases with these rows.
func cases(rows ...string) string {
	return "# Cases\n\n| case | what happened | what holds here | shown by |\n|---|---|---|---|\n" + strings.Join(rows, "\n") + "\n"
}

// planted is a way to break each rule, and a piece of what is said of it.
var planted = []struct {
	name, path, text string
	want             string
}{
	{"RootImportsAnother", "lease.go", "package pawl\nimport \"golang.org/x/sync/errgroup\"\n",
		"lease.go:2: the root module imports golang.org/x/sync/errgroup"},
	{"RootTestImportsAnother", "file/file_test.go", "package file_test\nimport \"github.com/google/go-cmp/cmp\"\n",
		"file/file_test.go:2: the root module imports github.com/google/go-cmp/cmp"},
	{"RootTestImportsANestedModule", "lease_test.go", "package pawl_test\nimport \"github.com/pawlock/pawl/redis/goredis\"\n",
		"lease_test.go:2: the root module imports github.com/pawlock/pawl/redis/goredis, which is another module"},
	{"RootUsesC", "file/lock.go", "package file\nimport \"C\"\n",
		"file/lock.go:2: the root module imports C"},
	{"RootHasSums", "go.sum", "",
		"go.sum: the root module requires nothing"},
	{"RootRequires", "go.mod", "module github.com/pawlock/pawl\n\nrequire golang.org/x/sys v0.1.0\n",
		"go.mod:3: the root module has a require"},
	{"BackendImportsPawl", "memory/wait.go", "package memory\nimport \"github.com/pawlock/pawl\"\n",
		"memory/wait.go:2: the backend memory imports pawl"},
	{"NestedBackendImportsPawl", "redis/goredis/new.go", "package goredis\nimport \"github.com/pawlock/pawl\"\n",
		"redis/goredis/new.go:2: the backend redis imports pawl"},
	{"BackendImportsAnother", "quorum/quorum.go", "package quorum\nimport \"github.com/pawlock/pawl/redis\"\n",
		"quorum/quorum.go:2: the backend quorum imports github.com/pawlock/pawl/redis"},
	{"DriverImportsInternal", "driver/line.go", "package driver\nimport \"github.com/pawlock/pawl/internal/term\"\n",
		"driver/line.go:2: driver imports github.com/pawlock/pawl/internal/term"},
	{"DrivertestImportsPawl", "driver/drivertest/fair.go", "package drivertest\nimport \"github.com/pawlock/pawl\"\n",
		"driver/drivertest/fair.go:2: driver imports github.com/pawlock/pawl"},
	{"InternalImportsPawl", "internal/term/term.go", "package term\nimport \"github.com/pawlock/pawl\"\n",
		"internal/term/term.go:2: internal imports github.com/pawlock/pawl"},
	{"RecipesImportABackend", "internal/recipetest/shares.go", "package recipetest\nimport (\n\"github.com/pawlock/pawl\"\n\"github.com/pawlock/pawl/memory\"\n)\n",
		"internal/recipetest/shares.go:4: internal imports github.com/pawlock/pawl/memory"},
	{"PawlImportsABackend", "client.go", "package pawl\nimport \"github.com/pawlock/pawl/memory\"\n",
		"client.go:2: pawl imports github.com/pawlock/pawl/memory"},
	{"PawlImportsFence", "lease.go", "package pawl\nimport \"github.com/pawlock/pawl/fence\"\n",
		"lease.go:2: pawl imports github.com/pawlock/pawl/fence"},
	{"BackendImportsFence", "memory/write.go", "package memory\nimport \"github.com/pawlock/pawl/fence\"\n",
		"memory/write.go:2: the backend memory imports github.com/pawlock/pawl/fence"},
	{"FenceImportsABackend", "fence/guard.go", "package fence\nimport \"github.com/pawlock/pawl/memory\"\n",
		"fence/guard.go:2: fence imports github.com/pawlock/pawl/memory"},
	{"ImportOfTheRoof", "fence/guard.go", "package fence\nimport \"github.com/pawlock/pawl/cmd/pawl/internal/open\"\n",
		"fence/guard.go:2: fence imports github.com/pawlock/pawl/cmd/pawl/internal/open, which is above it"},
	{"ModuleOutsideWork", "etcd/go.mod", "module github.com/pawlock/pawl/etcd\n",
		"etcd/go.mod: this module is not in go.work"},
	{"ToolsInWork", "go.work", "use .\nuse ./redis/goredis\nuse ./tools\n",
		"go.work: tools is in go.work"},
	{"TestingOutsideTests", "memory/check.go", "package memory\nimport \"testing\"\n",
		"memory/check.go:2: imports testing outside tests"},
	{"SuiteOutsideTests", "memory/suite.go", "package memory\nimport \"github.com/pawlock/pawl/driver/drivertest\"\n",
		"memory/suite.go:2: imports github.com/pawlock/pawl/driver/drivertest outside tests"},
	{"EmptyFileName", "util.go", "package pawl\n",
		"util.go: the file's name does not say"},
	{"EmptySuffix", "redis/script_helpers_test.go", "package redis\n",
		"redis/script_helpers_test.go: the file's name does not say"},
	{"EmptyPackageName", "internal/common/name.go", "package common\n",
		"internal/common/name.go:1: package common does not say"},
	{"Init", "cmd/pawl/main.go", "package main\n\nfunc init() {}\n",
		"cmd/pawl/main.go:3: init runs"},
	{"CoreReadsTheTime", "lease.go", "package pawl\nimport \"time\"\nvar _ = time.Now()\n",
		"lease.go:3: time.Now bypasses the clock"},
	{"CoreSleepsUnderAnotherName", "lease.go", "package pawl\nimport t \"time\"\nfunc f() { t.Sleep(1) }\n",
		"lease.go:3: time.Sleep bypasses the clock"},
	{"TermSetsATimer", "internal/term/term.go", "package term\nimport \"time\"\nvar _ = time.NewTimer(1)\n",
		"internal/term/term.go:3: time.NewTimer bypasses the clock"},
	{"CaseOfNoTest", "docs/cases.md", cases("| A01 | lost | told | `pawl: TestGone` |", rowB02),
		"docs/cases.md:5: A01 is shown by pawl: TestGone, which does not exist"},
	{"CaseOfNoSubtest", "docs/cases.md", cases("| A01 | lost | told | `pawl: TestLost` |", "| B02 | freed | kept | `driver/drivertest: Ownership/gone` |"),
		"docs/cases.md:6: B02 is shown by driver/drivertest: Ownership/gone, which does not exist"},
	{"CaseOfNoScript", "docs/cases.md", cases("| A01 | lost | told | `cmd/pawl: script/gone.txt` |", rowB02),
		"docs/cases.md:5: A01 is shown by cmd/pawl: script/gone.txt, which does not exist"},
	{"CaseThatItsTestDoesNotName", "lost_test.go", "package pawl_test\nfunc TestLost(t *testing.T) {}\n",
		"docs/cases.md:5: A01 is shown by pawl: TestLost, which does not name it"},
	{"CaseThatItsSubtestDoesNotName", "docs/cases.md", cases("| A01 | lost | told | `pawl: TestLost` |", "| B02 | freed | kept | `driver/drivertest: Ownership/never` |"),
		"docs/cases.md:6: B02 is shown by driver/drivertest: Ownership/never, which does not name it"},
	{"CaseThatItsScriptDoesNotName", "cmd/pawl/testdata/script/lost.txt", "exec echo A01\n",
		"docs/cases.md:5: A01 is shown by cmd/pawl: script/lost.txt, which does not name it"},
	{"CaseWithoutARow", "wait_test.go", "package pawl_test\n\n// Cases A01, C03.\nfunc TestWait(t *testing.T) {}\n",
		"wait_test.go:3: case C03 has no row in docs/cases.md"},
	{"CaseWithoutARowInASubtest", "wait_test.go", "package pawl_test\nvar tests = []test{\n\t{name: \"T6a a dead context\"},\n}\n",
		"wait_test.go:3: case T6a has no row in docs/cases.md"},
	{"CaseWithoutARowInAScript", "cmd/pawl/testdata/script/more.txt", "exec pawl\n# C03: another's lock\n",
		"cmd/pawl/testdata/script/more.txt:2: case C03 has no row in docs/cases.md"},
	{"CaseWithNothing", "docs/cases.md", cases("| A01 | lost | told | `pawl: TestLost` |", rowB02, "| C03 | taken | Does not apply: no | |"),
		"docs/cases.md:7: C03 has neither a test"},
	{"CaseTwice", "docs/cases.md", cases("| A01 | lost | told | `pawl: TestLost` |", rowB02, rowB02),
		"docs/cases.md:7: B02 is listed twice"},
	{"CasesOutOfOrder", "docs/cases.md", cases(rowB02, "| A01 | lost | told | `pawl: TestLost` |"),
		"docs/cases.md:6: A01 stands after B02"},
	{"CaseWithATestThatIsNoReference", "docs/cases.md", cases("| A01 | lost | told | `pawl: TestLost`, `TestGone` |", rowB02),
		"docs/cases.md:5: A01 has \"`TestGone`\" among its tests"},
	{"RowWithABarInACell", "docs/cases.md", cases("| A01 | lost | told | `pawl: TestLost` |", rowB02, "| C03 | a|b | Does not apply: nobody has one of those here | |"),
		"docs/cases.md:7: a row of 5 cells"},
	{"RowOfNoCase", "docs/cases.md", cases("| A01 | lost | told | `pawl: TestLost` |", "| B2 | freed | kept | `driver/drivertest: Ownership/late` |", rowB02),
		"docs/cases.md:6: a row of four cells begins with the id of a case"},
	{"LeftToDo", "lease.go", "package pawl\n\n// TO" + "DO: finish.\n",
		"lease.go:3: TO" + "DO in a comment"},
}

func TestASoundRepositoryHasNoFindings(t *testing.T) {
	if got := check(t, sound()); len(got) != 0 {
		t.Errorf("got findings %q in a sound repository, want none", got)
	}
}

func TestEveryPlantedViolationIsReported(t *testing.T) {
	for _, p := range planted {
		t.Run(p.name, func(t *testing.T) {
			tree := sound()
			maps.Copy(tree, map[string]string{p.path: p.text})
			got := check(t, tree)
			if len(got) != 1 || !strings.HasPrefix(got[0], p.want) {
				t.Errorf("got findings %q, want one that begins with %q", got, p.want)
			}
		})
	}
}

func TestAFileThatDoesNotParseIsAnError(t *testing.T) {
	repo := fstest.MapFS{"go.mod": {Data: []byte("module x\n")}, "lock.go": {Data: []byte("packag pawl\n")}}
	if found, err := floors.Check(repo); err == nil {
		t.Errorf("got findings %q and no error, want an error", found)
	}
}

func check(t *testing.T, tree map[string]string) []string {
	t.Helper()
	repo := make(fstest.MapFS)
	for name, text := range tree {
		repo[name] = &fstest.MapFile{Data: []byte(text), Mode: fs.ModePerm}
	}
	found, err := floors.Check(repo)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		got = append(got, f.String())
	}
	return got
}
