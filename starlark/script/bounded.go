package script

// Single steps that could fill memory. The interpreter looks at its limits between instructions, and a whole
// [0] * n or list(range(n)) is one of them: with n from a parameter it would hold gigabytes before anybody can
// say where. So a file is compiled from a second tree, in which a multiplication calls a builtin that looks
// before it multiplies, and list, sorted and their like look at the length of what they are given. The first
// tree stays as it was written: identities and messages are read from it. What is left to the watch on the
// heap (BoundMemory) grows by what a step already holds: s + s, "".join(parts), x += parts.

import (
	"fmt"
	"maps"
	"reflect"

	"flow/starlark/diag"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// What one step may make: so many elements, and a text or number of so many bytes.
const (
	maxRepeat = 10_000_000
	maxText   = 128 << 20
)

// timesName is no word that a file could contain.
const timesName = "*"

// bound makes a tree's large steps calls of the builtins of bounded.
func bound(tree *syntax.File) {
	for _, s := range tree.Stmts {
		boundIn(reflect.ValueOf(s))
	}
}

// boundIn goes through a node with reflection, as printer.tree does: a place for an expression is the only
// thing that is ever set.
func boundIn(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		boundIn(v.Elem())
		if b, ok := v.Interface().(*syntax.BinaryExpr); ok && b.Op == syntax.STAR && !number(b.X) && !number(b.Y) {
			v.Set(reflect.ValueOf(times(b.OpPos, b.X, b.Y)))
		}
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		boundIn(v.Elem())
		// What stands left of "*=" is evaluated once, and here twice: only where nobody can tell.
		if s, ok := v.Interface().(*syntax.AssignStmt); ok && s.Op == syntax.STAR_EQ && plain(s.LHS) {
			s.Op, s.RHS = syntax.EQ, times(s.OpPos, s.LHS, s.RHS)
		}
	case reflect.Slice:
		for i := range v.Len() {
			boundIn(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.IsExported() && f.Type != reflect.TypeFor[syntax.Position]() && f.Name != "Function" && f.Name != "Binding" {
				boundIn(v.Field(i))
			}
		}
	}
}

func times(at syntax.Position, x, y syntax.Expr) *syntax.CallExpr {
	return &syntax.CallExpr{Fn: &syntax.Ident{NamePos: at, Name: timesName}, Lparen: at, Args: []syntax.Expr{x, y}, Rparen: at}
}

// number: a product with a written fraction is one.
func number(e syntax.Expr) bool {
	l, ok := bare(e).(*syntax.Literal)
	return ok && l.Token == syntax.FLOAT
}

// plain: to evaluate it changes nothing.
func plain(e syntax.Expr) bool {
	switch e := bare(e).(type) {
	case *syntax.Ident, *syntax.Literal:
		return true
	case *syntax.DotExpr:
		return plain(e.X)
	case *syntax.IndexExpr:
		return plain(e.X) && plain(e.Y)
	}
	return false
}

func bare(e syntax.Expr) syntax.Expr {
	for {
		p, ok := e.(*syntax.ParenExpr)
		if !ok {
			return e
		}
		e = p.X
	}
}

// bounded is predeclared with the builtins that look before they make something.
func bounded(predeclared starlark.StringDict) starlark.StringDict {
	all := maps.Clone(predeclared)
	if all == nil {
		all = starlark.StringDict{}
	}
	all[timesName] = starlark.NewBuiltin(timesName, func(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		if err := fits(t, args[0], args[1]); err != nil {
			return nil, err
		}
		return starlark.Binary(syntax.STAR, args[0], args[1])
	})
	for _, name := range []string{"list", "tuple", "set", "sorted", "reversed", "enumerate", "zip"} {
		if _, ours := all[name]; ours {
			continue
		}
		its := starlark.Universe[name].(*starlark.Builtin)
		all[name] = starlark.NewBuiltin(name, func(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			if n := shortest(args); n > maxRepeat {
				return nil, Error(t, name, fmt.Sprintf("got %d elements, want at most %d", n, maxRepeat), memoryFix)
			}
			return starlark.Call(t, its, args, kwargs)
		})
	}
	return all
}

// shortest is the length of the shortest argument, which is what zip makes; 0 where there is none with one.
func shortest(args starlark.Tuple) int {
	n := 0
	for i, a := range args {
		if l := starlark.Len(a); i == 0 || l < n {
			n = l
		}
	}
	return n
}

// fits refuses a product that is too large.
func fits(t *starlark.Thread, x, y starlark.Value) *diag.Error {
	a, ok := x.(starlark.Int)
	if !ok {
		if a, ok = y.(starlark.Int); !ok {
			return nil // not a repetition
		}
		y = x
	}
	unit, size, most := "elements", 0, maxRepeat
	switch v := y.(type) {
	case starlark.Int:
		bits := a.BigInt().BitLen() + v.BigInt().BitLen()
		if bits/8 <= maxText/64 {
			return nil
		}
		return Error(t, "", fmt.Sprintf("got a number of %d bytes, want at most %d", bits/8, maxText/64), memoryFix)
	case *starlark.List:
		size = v.Len()
	case starlark.Tuple:
		size = len(v)
	case starlark.String:
		unit, size, most = "bytes", len(v), maxText
	case starlark.Bytes:
		unit, size, most = "bytes", len(v), maxText
	}
	if n, ok := a.Int64(); size == 0 || ok && n <= int64(most/size) || a.Sign() <= 0 {
		return nil
	}
	return Error(t, "", fmt.Sprintf("repeated %s times this has more than %d %s", a, most, unit), memoryFix)
}
