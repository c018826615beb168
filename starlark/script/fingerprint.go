package script

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"

	"flow/starlark/diag"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"
)

// Digester is a value that knows its own identity; Fingerprint takes its word.
type Digester interface {
	starlark.Value
	Digest() (string, error)
}

// Fingerprint is the identity of a function: a digest of the syntax tree it can reach. In it are its own
// tree, the defaults of its parameters, what it captured, and every global it names, functions in the same
// way; callables of Go by name, other values by content. Not in it are comments, docstrings, parentheses,
// places, file names, the function's own name, and globals it does not name. So moving a file or commenting it changes nothing, and a
// threshold in a helper does. It also takes any other value.
//
// Ask late: at declaration a helper below the function does not exist yet. A capability is an error.
func (l *Loader) Fingerprint(fn starlark.Value) (string, error) {
	p := &printer{l: l, numbers: make(map[*starlark.Function]int), open: make(map[starlark.Value]int)}
	p.value(fn)
	if p.err != nil {
		return "", &diag.Error{Pos: position(fn), Kind: diag.Workflow, Op: functionName(fn), Msg: p.err.Error(), Fix: p.fix}
	}
	sum := sha256.Sum256([]byte(p.out.String()))
	return hex.EncodeToString(sum[:]), nil
}

// printer writes one unambiguous text for everything reachable. A function is written where it is first met
// and has a number afterwards, which makes cycles of globals end.
type printer struct {
	l       *Loader
	out     strings.Builder
	numbers map[*starlark.Function]int
	open    map[starlark.Value]int // lists and dicts being written: they may contain themselves
	err     error
	fix     string
}

// maxPrinted bounds the text: lists that share elements can be written exponentially often.
const maxPrinted = 8 << 20

func (p *printer) put(format string, args ...any) {
	if p.err == nil && p.out.Len() > maxPrinted {
		p.fail("it reaches too much data to have an identity", "let it capture the few values it needs")
	}
	if p.err == nil {
		fmt.Fprintf(&p.out, format, args...)
	}
}

func (p *printer) fail(msg, fix string) {
	if p.err == nil {
		p.err, p.fix = fmt.Errorf("%s", msg), fix
	}
}

func (p *printer) value(v starlark.Value) {
	if p.err != nil {
		return
	}
	switch v := v.(type) {
	case nil:
		p.put("unset;")
	case Capability:
		p.fail("captures "+v.Capability(), "read what the function needs from "+v.Capability()+" before, and let it capture that")
	case Digester:
		d, err := v.Digest()
		if err != nil {
			p.fail(err.Error(), "")
		}
		p.put("%s digest %q;", v.Type(), d)
	case *starlark.Function:
		p.function(v)
	case *starlark.Builtin:
		p.put("builtin %q", v.Name())
		if v.Receiver() != nil {
			p.put(" of ")
			p.value(v.Receiver())
		}
		p.put(";")
	case starlark.NoneType, starlark.Bool, starlark.Int, starlark.Float:
		p.put("%s %s;", v.Type(), v.String())
	case starlark.String:
		p.put("%q;", string(v))
	case starlark.Bytes:
		p.put("b%q;", string(v))
	case *starlarkstruct.Module: // made in Go
		p.put("module %q;", v.Name)
	case starlark.IterableMapping:
		p.container(v, func() {
			for _, kv := range v.Items() { // in order: it can be seen by looping
				p.value(kv[0])
				p.value(kv[1])
			}
		})
	case starlark.HasAttrs:
		p.attrs(v)
	case starlark.Callable:
		p.put("callable %q;", v.Name())
	case starlark.Iterable: // tuple, range
		if v.Type() == "range" {
			p.put("%s;", v.String())
			return
		}
		p.container(v, func() { p.elements(v) })
	default:
		p.put("%s %q;", v.Type(), v.String())
	}
}

func (p *printer) attrs(v starlark.HasAttrs) {
	if it, ok := v.(starlark.Iterable); ok { // list, set: their attributes are methods
		p.container(v, func() { p.elements(it) })
		return
	}
	p.container(v, func() {
		for _, name := range slices.Sorted(slices.Values(v.AttrNames())) {
			x, err := v.Attr(name)
			if err != nil {
				p.fail(err.Error(), "")
			}
			if b, ok := x.(*starlark.Builtin); ok && b.Receiver() != nil { // a method
				p.put("method %q;", name)
				continue
			}
			p.put("%q=", name)
			p.value(x)
		}
	})
}

func (p *printer) elements(v starlark.Iterable) {
	for x := range starlark.Elements(v) {
		p.value(x)
	}
}

func (p *printer) container(v starlark.Value, inside func()) {
	if reflect.TypeOf(v).Kind() == reflect.Pointer {
		if depth, ok := p.open[v]; ok {
			p.put("up %d;", len(p.open)-depth)
			return
		}
		p.open[v] = len(p.open)
		defer delete(p.open, v)
	}
	p.put("%s(", v.Type())
	inside()
	p.put(")")
}

func (p *printer) function(fn *starlark.Function) {
	if n, ok := p.numbers[fn]; ok {
		p.put("function %d;", n)
		return
	}
	p.numbers[fn] = len(p.numbers)
	pos := fn.Position()
	f := p.l.file(pos.Filename())
	if f == nil || f.defs[place{pos.Line, pos.Col}] == nil {
		p.fail("its source is not known", "")
		return
	}
	var params []syntax.Expr
	var body []syntax.Stmt
	switch n := f.defs[place{pos.Line, pos.Col}].(type) {
	case *syntax.DefStmt:
		params, body = n.Params, n.Body
	case *syntax.LambdaExpr:
		params, body = n.Params, []syntax.Stmt{&syntax.ReturnStmt{Result: n.Body}}
	}
	p.put("function(")
	for _, param := range params { // defaults follow as values
		if b, ok := param.(*syntax.BinaryExpr); ok {
			param = b.X
		}
		p.tree(reflect.ValueOf(param))
	}
	for i := range fn.NumParams() {
		if d := fn.ParamDefault(i); d != nil {
			p.put("default %d ", i)
			p.value(d)
		}
	}
	p.stmts(body)
	for i := range fn.NumFreeVars() {
		b, x := fn.FreeVar(i)
		p.put("captured %q ", b.Name)
		p.value(x)
	}
	globals := fn.Globals()
	for _, name := range globalNames(body) {
		p.put("global %q ", name)
		if x, ok := globals[name]; ok {
			p.value(x)
		} else {
			p.value(p.l.Predeclared[name])
		}
	}
	p.put(")")
}

// globalNames are the globals and predeclared names of a body, nested functions included, in order of first use.
func globalNames(body []syntax.Stmt) (names []string) {
	for _, s := range body {
		syntax.Walk(s, func(n syntax.Node) bool {
			if id, ok := n.(*syntax.Ident); ok {
				if b, ok := id.Binding.(*resolve.Binding); ok && (b.Scope == resolve.Global || b.Scope == resolve.Predeclared) && !slices.Contains(names, id.Name) {
					names = append(names, id.Name)
				}
			}
			return true
		})
	}
	return names
}

// stmts writes statements without those that do nothing: docstrings and pass.
func (p *printer) stmts(list []syntax.Stmt) {
	p.put("{")
	for _, s := range list {
		if e, ok := s.(*syntax.ExprStmt); ok {
			if _, ok := e.X.(*syntax.Literal); ok {
				continue
			}
		}
		if b, ok := s.(*syntax.BranchStmt); ok && b.Token == syntax.PASS {
			continue
		}
		p.tree(reflect.ValueOf(s))
	}
	p.put("}")
}

// tree writes a syntax node with reflection: node types have only positions, tokens, names and other nodes.
func (p *printer) tree(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			p.put("nil;")
			return
		}
		switch n := v.Interface().(type) {
		case *syntax.ParenExpr:
			p.tree(reflect.ValueOf(n.X))
		case *syntax.Literal:
			if big, ok := n.Value.(*big.Int); ok {
				p.put("%s;", big)
			} else {
				p.put("%v %T %q;", n.Token, n.Value, fmt.Sprint(n.Value))
			}
		case *syntax.Ident:
			p.put("name %s;", n.Name)
		default:
			p.tree(v.Elem())
		}
	case reflect.Slice:
		if list, ok := v.Interface().([]syntax.Stmt); ok {
			p.stmts(list)
			return
		}
		p.put("[")
		for i := range v.Len() {
			p.tree(v.Index(i))
		}
		p.put("]")
	case reflect.Struct:
		p.put("%s(", v.Type().Name())
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.IsExported() && f.Type != reflect.TypeFor[syntax.Position]() && f.Name != "Function" && f.Name != "Binding" {
				p.tree(v.Field(i))
			}
		}
		p.put(")")
	case reflect.Bool:
		p.put("%t;", v.Bool())
	default: // syntax.Token
		p.put("%v;", v.Interface())
	}
}
