package main

// The house is held to its plan: what packages may import stands in ARCHITECTURE.md and nowhere else.

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const modulePath = "flow"

// tableRow is one line of the table of packages.
type tableRow struct {
	allowed  map[string]bool // import paths
	all      bool
	starlark bool
}

// readPackageTable parses the table of ARCHITECTURE.md. Short names ("diag", "stats") mean the package of the
// table whose path ends so; it must be one.
func readPackageTable(t *testing.T, text string) map[string]tableRow {
	t.Helper()
	type raw struct{ path, may, star string }
	var raws []raw
	line := regexp.MustCompile("^\\| `([^`]+)` \\| .* \\| ([^|]+) \\| (yes|no) \\|$")
	for _, l := range strings.Split(text, "\n") {
		if m := line.FindStringSubmatch(l); m != nil {
			raws = append(raws, raw{modulePath + "/" + m[1], strings.TrimSpace(m[2]), m[3]})
		}
	}
	if len(raws) < 10 {
		t.Fatalf("the table of ARCHITECTURE.md has %d rows that could be read", len(raws))
	}
	table := map[string]tableRow{}
	for _, r := range raws {
		if _, twice := table[r.path]; twice {
			t.Errorf("ARCHITECTURE.md: %s has two rows", r.path)
		}
		to := tableRow{allowed: map[string]bool{}, all: r.may == "all", starlark: r.star == "yes"}
		if r.may != "–" && !to.all {
			for _, name := range strings.Split(r.may, ", ") {
				var found []string
				for _, x := range raws {
					if x.path == modulePath+"/"+name || strings.HasSuffix(x.path, "/"+name) {
						found = append(found, x.path)
					}
				}
				if len(found) != 1 {
					t.Errorf("ARCHITECTURE.md: %s may import %q, which names %d packages of the table", r.path, name, len(found))
				}
				for _, f := range found {
					to.allowed[f] = true
				}
			}
		}
		table[r.path] = to
	}
	return table
}

type goPackage struct {
	ImportPath, Dir, Doc string
	Imports, Deps        []string
	GoFiles, CgoFiles    []string
	IgnoredGoFiles       []string
}

func repositoryRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatalf("the root of the repository: %v", err)
	}
	return root
}

func goList(t *testing.T, root string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Dir,Doc,Imports,Deps,GoFiles,CgoFiles,IgnoredGoFiles", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var ps []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if isOurs(p.ImportPath) {
			ps = append(ps, p)
		}
	}
	return ps
}

func isOurs(path string) bool { return path == modulePath || strings.HasPrefix(path, modulePath+"/") }

func inModule(path, of string) bool { return path == of || strings.HasPrefix(path, of+"/") }

func TestArchitecture(t *testing.T) {
	root := repositoryRoot(t)
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	table := readPackageTable(t, string(text))
	seen := map[string]bool{}
	for _, p := range goList(t, root) {
		if len(p.GoFiles)+len(p.CgoFiles) == 0 {
			continue // tests only
		}
		seen[p.ImportPath] = true
		r, ok := table[p.ImportPath]
		if !ok {
			t.Errorf("%s has no row in the table of ARCHITECTURE.md", p.ImportPath)
			continue
		}
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
		for _, i := range p.Imports {
			if isOurs(i) && !r.all && !r.allowed[i] {
				t.Errorf("%s imports %s: ARCHITECTURE.md does not allow it", p.ImportPath, i)
			}
			if inModule(i, "modernc.org/sqlite") && p.ImportPath != modulePath+"/db" {
				t.Errorf("%s imports %s: only db may", p.ImportPath, i)
			}
		}
		for _, d := range p.Deps {
			if inModule(d, "go.starlark.net") && !r.starlark {
				t.Errorf("%s reaches %s: ARCHITECTURE.md says no Starlark", p.ImportPath, d)
				break
			}
		}
		for _, d := range p.Deps {
			if inModule(d, "modernc.org/sqlite") && p.ImportPath != modulePath+"/db" && !r.all {
				t.Errorf("%s reaches %s through another package", p.ImportPath, d)
				break
			}
		}
	}
	for path := range table {
		if !seen[path] {
			t.Errorf("ARCHITECTURE.md has a row for %s, which is no package", path)
		}
	}
}

// knownArchitectures that a file name can end in: such a file silently drops out of the build elsewhere.
var knownArchitectures = []string{"386", "amd64", "arm", "arm64", "loong64", "mips", "mips64", "mips64le", "mipsle", "ppc64", "ppc64le", "riscv64", "s390x", "wasm", "sparc64", "riscv", "armbe", "arm64be"}

// knownSystems whose suffix is meant where it stands.
var knownSystems = []string{"linux", "darwin"}

// TestEveryFileIsMeant finds Go files that the build leaves out without saying so.
func TestEveryFileIsMeant(t *testing.T) {
	root := repositoryRoot(t)
	ignored := map[string]bool{}
	for _, p := range goList(t, root) {
		for _, f := range p.IgnoredGoFiles {
			ignored[filepath.Join(p.Dir, f)] = true
		}
	}
	files := 0
	eachGoFile(t, root, func(path string) {
		files++
		name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".go"), "_test")
		if strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") {
			t.Errorf("%s: the build ignores files of that name", path)
		}
		end := name[strings.LastIndex(name, "_")+1:]
		suffixed := end != name
		if suffixed && slices.Contains(knownArchitectures, end) {
			t.Errorf("%s: _%s is the suffix of an architecture, so the file drops out of the build elsewhere; name it otherwise", path, end)
		}
		if ignored[path] && !(suffixed && slices.Contains(knownSystems, end)) && !hasBuildLine(t, path) {
			t.Errorf("%s is not built here and has no //go:build line", path)
		}
		if filepath.Dir(path) == filepath.Join(root, "starlark") {
			t.Errorf("%s: there is no Go package directly in starlark/", path)
		}
	})
	if files < 50 {
		t.Errorf("%d Go files found: the walk is wrong", files)
	}
}

func eachGoFile(t *testing.T, root string, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || d.Name() == "vendor") {
			return fs.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(path, ".go") {
			visit(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func hasBuildLine(t *testing.T, path string) bool {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(l, "package ") {
			return false
		}
		if constraint.IsGoBuild(l) {
			return true
		}
	}
	return false
}

// TestHouseRules holds the code to rules that a reader would otherwise have to remember: no init, os.Exit
// in main only, nothing printed past the streams that main was given, no package that says nothing.
func TestHouseRules(t *testing.T) {
	root := repositoryRoot(t)
	fset := token.NewFileSet()
	eachGoFile(t, root, func(path string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		if slices.Contains([]string{"util", "utils", "common", "helpers", "types", "manager"}, f.Name.Name) {
			t.Errorf("%s: package %s says nothing of what lives there", path, f.Name.Name)
		}
		main := path == filepath.Join(root, "cmd", "flow", "main.go")
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil && n.Name.Name == "init" {
					t.Errorf("%s: init runs whether or not it is wanted; call it from main", fset.Position(n.Pos()))
				}
			case *ast.CallExpr:
				s, ok := n.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				x, ok := s.X.(*ast.Ident)
				if !ok {
					return true
				}
				what := x.Name + "." + s.Sel.Name
				switch what {
				case "os.Exit", "log.Fatal", "log.Fatalf", "log.Fatalln":
					if !main {
						t.Errorf("%s: %s outside main; return an error", fset.Position(n.Pos()), what)
					}
				case "fmt.Print", "fmt.Printf", "fmt.Println":
					t.Errorf("%s: %s writes to a stream that nobody gave it", fset.Position(n.Pos()), what)
				}
			}
			return true
		})
	})
}
