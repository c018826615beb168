package value_test

import (
	"errors"
	"testing"
	"time"

	"flow/starlark/diag"
	"flow/starlark/script"
	"flow/starlark/startest"
	"flow/starlark/value"

	"go.starlark.net/starlark"
)

// taken is what the builtin of the tests was given.
type taken struct {
	name, pick, data string
	env, args        map[string]string
	tags             []string
	n                int
	big, size        int64
	x, ratio         float64
	on               bool
	wait             time.Duration
	limit            *float64
	check            starlark.Callable
	any              starlark.Value
	more             []starlark.Tuple
	extra            starlark.Tuple
}

// errUnit is a cause with a type, which an error must not lose.
var errUnit = errors.New("unknown unit")

func (g *taken) signature() value.Signature {
	return value.Signature{Name: "lever", Positional: 1, Params: []value.Param{
		{Name: "name", Required: true, Into: value.String(&g.name), Doc: "what it is called"},
		{Name: "env", Default: "{}", Into: value.Dict(&g.env)},
		{Name: "args", Default: "{}", Into: value.Dict(&g.args), Example: `{"-ub": 1024}`},
		{Name: "tags", Default: "[]", Into: value.Strings(&g.tags)},
		{Name: "n", Default: "0", Into: value.Int(&g.n)},
		{Name: "big", Default: "0", Into: value.Int64(&g.big)},
		{Name: "x", Default: "0.5", Into: value.Float(&g.x)},
		{Name: "on", Default: "False", Into: value.Bool(&g.on)},
		{Name: "wait", Default: `"5s"`, Into: value.Duration(&g.wait)},
		{Name: "ratio", Default: `"1%"`, Into: value.Percent(&g.ratio)},
		{Name: "size", Default: "0", Into: value.Size(&g.size)},
		{Name: "pick", Default: `"ABBA"`, Into: value.OneOf(&g.pick, "ABBA", "BAAB", "ladder")},
		{Name: "data", Default: "None", Into: value.JSON(&g.data)},
		{Name: "check", Default: "None", Into: value.Callable(&g.check), Kind: "function of an arm"},
		{Name: "limit", Default: "None", Into: value.Maybe(&g.limit, value.Float)},
		{Name: "anything", Into: value.Any(&g.any)},
		{Name: "ignored", Default: "None"},
		{Name: "level", Default: "None", Into: value.Func("level", func(v starlark.Value) error {
			if v.Type() != "int" {
				return value.Wrong(v, "level")
			}
			return &diag.Error{Kind: diag.Machine, Op: "level", Msg: "no such level", Fix: "plug it in", Err: errUnit}
		})},
	}}
}

func newLoader() *script.Loader {
	l := &script.Loader{Predeclared: script.Standard()}
	builtin := func(name string, f func(t *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error)) {
		l.Predeclared[name] = script.Builtin(name, func(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			return f(t, args, kwargs)
		})
	}
	builtin("lever", func(t *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		return starlark.None, new(taken).signature().Unpack(t, args, kwargs)
	})
	builtin("group", func(t *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		return starlark.None, value.Signature{Name: "group", Params: []value.Param{
			{Name: "engine", Required: true}, {Name: "workload", Required: true}, {Name: "stops", Default: "[]"}}}.Unpack(t, args, kwargs)
	})
	builtin("pair", func(t *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		return starlark.None, value.Signature{Name: "pair", Positional: 2, Params: []value.Param{
			{Name: "a", Required: true}, {Name: "b", Required: true}}}.Unpack(t, args, kwargs)
	})
	builtin("duration", func(t *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var d time.Duration
		err := value.Signature{Name: "duration", Positional: 1, Params: []value.Param{{Name: "d", Required: true, Into: value.Duration(&d)}}}.Unpack(t, args, kwargs)
		return value.DurationValue(d), err
	})
	builtin("record", func(t *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var typ string
		var fields []starlark.Tuple
		err := value.Signature{Name: "record", Positional: 1, Kwargs: &fields, Params: []value.Param{{Name: "type", Required: true, Into: value.String(&typ)}}}.Unpack(t, args, kwargs)
		var list []value.Field
		for _, kv := range fields {
			list = append(list, value.Field{Name: string(kv[0].(starlark.String)), Value: kv[1]})
		}
		return value.NewStruct(typ, list...), err
	})
	builtin("to_json", func(t *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		s, err := value.ToJSON(args[0])
		return starlark.String(s), err
	})
	half := 0.5
	rows, err := value.TableFromGo("row", []string{"name", "effect", "count(*)"}, [][]any{{"a", &half, 3}, {"b", (*float64)(nil), int64(4)}})
	if err != nil {
		panic(err)
	}
	l.Predeclared["rows"] = rows
	return l
}

func TestMessages(t *testing.T) { startest.Golden(t, newLoader, "testdata/messages.golden") }

func TestValues(t *testing.T) {
	l := newLoader()
	l.Root = dir("testdata")
	startest.Run(t, l, "values.star")
}

func TestUnpack(t *testing.T) {
	var g taken
	s := g.signature()
	s.Args, s.Kwargs = &g.extra, &g.more
	kw := func(pairs ...any) (kwargs []starlark.Tuple) {
		for i := 0; i < len(pairs); i += 2 {
			kwargs = append(kwargs, starlark.Tuple{starlark.String(pairs[i].(string)), pairs[i+1].(starlark.Value)})
		}
		return kwargs
	}
	dict := starlark.NewDict(3)
	for k, v := range map[string]starlark.Value{"a": starlark.String("x"), "b": starlark.MakeInt(1024), "c": starlark.Float(1)} {
		if err := dict.SetKey(starlark.String(k), v); err != nil {
			t.Fatal(err)
		}
	}
	list := starlark.NewList([]starlark.Value{starlark.String("p"), starlark.String("q")})
	err := s.Unpack(nil, starlark.Tuple{starlark.String("ub"), starlark.MakeInt(1), starlark.MakeInt(2)}, kw(
		"env", dict, "tags", list, "n", starlark.MakeInt(3), "big", starlark.MakeInt64(1<<40), "x", starlark.MakeInt(2), "on", starlark.True,
		"wait", starlark.String("1m30s"), "ratio", starlark.String("-3%"), "size", starlark.String("512MiB"), "pick", starlark.String("BAAB"),
		"data", dict, "check", starlark.Universe["len"], "limit", starlark.Float(0.25), "anything", starlark.None, "ignored", list, "level", starlark.None,
		"unknown", starlark.None))
	if err != nil {
		t.Fatal(err)
	}
	if g.name != "ub" || g.env["a"] != "x" || g.env["b"] != "1024" || g.env["c"] != "1.0" || len(g.tags) != 2 || g.n != 3 || g.big != 1<<40 ||
		g.x != 2 || !g.on || g.wait != 90*time.Second || g.ratio != -0.03 || g.size != 512<<20 || g.pick != "BAAB" ||
		g.data != `{"a":"x","b":1024,"c":1.0}` || g.check.Name() != "len" || *g.limit != 0.25 || g.any != starlark.None ||
		len(g.extra) != 2 || len(g.more) != 1 {
		t.Errorf("got %+v", g)
	}
	// What is not given, or given as its default None, stays.
	g = taken{name: "before", wait: time.Second, x: 0.5}
	if err := g.signature().Unpack(nil, nil, kw("name", starlark.String("after"), "check", starlark.None, "data", starlark.None)); err != nil {
		t.Fatal(err)
	}
	if g.name != "after" || g.wait != time.Second || g.x != 0.5 || g.check != nil || g.data != "" {
		t.Errorf("got %+v", g)
	}
	// A failed value leaves its variable.
	g = taken{tags: []string{"old"}, env: map[string]string{"old": "1"}}
	for _, bad := range [][]starlark.Tuple{
		kw("name", starlark.String("x"), "tags", starlark.NewList([]starlark.Value{starlark.String("new"), starlark.None})),
		kw("name", starlark.String("x"), "env", func() *starlark.Dict {
			d := starlark.NewDict(1)
			_ = d.SetKey(starlark.MakeInt(1), starlark.None)
			return d
		}()),
	} {
		if err := g.signature().Unpack(nil, nil, bad); err == nil || len(g.tags) != 1 || len(g.env) != 1 {
			t.Errorf("%v: %+v, %v", bad, g, err)
		}
	}
	// A typed cause survives, with its kind and its fix.
	err = g.signature().Unpack(nil, nil, kw("name", starlark.String("x"), "level", starlark.MakeInt(1)))
	var d *diag.Error
	if !errors.Is(err, errUnit) || !errors.As(err, &d) || d.Kind != diag.Machine || d.Fix != "plug it in" {
		t.Errorf("got %#v", err)
	}
}

func TestOptional(t *testing.T) {
	s := "before"
	u := value.Optional(value.String(&s))
	if err := u.Unpack(starlark.None); err != nil || s != "before" {
		t.Errorf("%q, %v", s, err)
	}
	if err := u.Unpack(starlark.String("after")); err != nil || s != "after" {
		t.Errorf("%q, %v", s, err)
	}
	if err := u.Unpack(starlark.MakeInt(1)); err == nil || u.Want() != "string" {
		t.Error(err)
	}
	x := 1.0
	p := &x
	if err := value.Maybe(&p, value.Float).Unpack(starlark.None); err != nil || p != nil {
		t.Error(p, err)
	}
}
