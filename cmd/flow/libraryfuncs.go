package main

// The functions of @flow// as flow builtins explains them: read from their source, so that what a screen
// passes on to group() is said by group() itself.

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"go.starlark.net/syntax"

	"flow/builtins"
	"flow/workflows/library"
)

// libraryFunction is one that workflows load.
type libraryFunction struct {
	name, file, form, doc string
	params                []string
	passes                []string // arguments that it gives to group() itself; nil where it passes nothing on
}

// libraryFunctions are all of them, by file.
func libraryFunctions() []libraryFunction {
	var out []libraryFunction
	_ = fs.WalkDir(library.FS, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".star") {
			return err
		}
		text, err := fs.ReadFile(library.FS, path)
		if err != nil {
			return err
		}
		f, err := (&syntax.FileOptions{Set: true}).Parse(path, text, 0)
		if err != nil {
			return err
		}
		for _, s := range f.Stmts {
			if def, ok := s.(*syntax.DefStmt); ok && !strings.HasPrefix(def.Name.Name, "_") {
				out = append(out, functionOf(path, string(text), def))
			}
		}
		return nil
	})
	return out
}

func functionOf(path, text string, def *syntax.DefStmt) libraryFunction {
	f := libraryFunction{name: def.Name.Name, file: "@flow//" + path}
	lines := strings.Split(text, "\n")
	var form strings.Builder // the def as it is written, up to its colon
	for i := int(def.Def.Line) - 1; i < len(lines); i++ {
		l := strings.TrimSpace(lines[i])
		form.WriteString(strings.TrimPrefix(l, "def "))
		if strings.HasSuffix(l, ":") {
			break
		}
		form.WriteString(" ")
	}
	f.form = strings.TrimSuffix(form.String(), ":")
	rest := false
	for _, p := range def.Params {
		switch p := p.(type) {
		case *syntax.Ident:
			f.params = append(f.params, p.Name)
		case *syntax.BinaryExpr:
			f.params = append(f.params, p.X.(*syntax.Ident).Name)
		case *syntax.UnaryExpr:
			rest = rest || p.Op == syntax.STARSTAR
		}
	}
	if len(def.Body) > 0 {
		if x, ok := def.Body[0].(*syntax.ExprStmt); ok {
			if lit, ok := x.X.(*syntax.Literal); ok && lit.Token == syntax.STRING {
				f.doc = strings.TrimSpace(lit.Value.(string))
			}
		}
	}
	if !rest {
		return f
	}
	syntax.Walk(def, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		if id, ok := call.Fn.(*syntax.Ident); ok && (id.Name == "group" || id.Name == "_combinations") {
			f.passes = append(f.passes, "name", "sides", "role")
			for _, a := range call.Args {
				if kw, ok := a.(*syntax.BinaryExpr); ok && kw.Op == syntax.EQ {
					f.passes = append(f.passes, kw.X.(*syntax.Ident).Name)
				}
			}
			if id.Name == "_combinations" {
				f.passes = append(f.passes, "design", "order")
			}
		}
		return true
	})
	return f
}

func (f libraryFunction) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nload(%q, %q)\n\n%s\n", strings.Join(foldCell(f.form, 100), "\n    "), f.file, f.name, unindented(f.doc))
	if f.passes == nil {
		return b.String()
	}
	b.WriteString("\n**kwargs are passed on to group():\n")
	g, _ := builtins.Lookup("group")
	for _, p := range g.Signature().Params {
		if slices.Contains(f.passes, p.Name) || slices.Contains(f.params, p.Name) {
			continue
		}
		for i, l := range foldCell(p.Doc, 84) {
			name := ""
			if i == 0 {
				name = p.Name
			}
			fmt.Fprintf(&b, "  %-12s  %s\n", name, l)
		}
	}
	return b.String()
}

// unindented is a docstring without the columns that its lines share.
func unindented(doc string) string {
	lines := strings.Split(doc, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "    ")
	}
	return strings.Join(lines, "\n")
}
