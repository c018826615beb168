package builtins

import (
	"strings"
	"testing"

	"go.starlark.net/starlark"
)

// A name that stands twice is found when the language is built, not when somebody wonders.
func TestDuplicatesAreRefused(t *testing.T) {
	nothing := func(c *Call) (starlark.Value, error) { return starlark.None, c.Unpack(0) }
	for name, catalog := range map[string][]Builtin{
		"a function twice":           {{Name: "a", Func: nothing}, {Name: "a", Func: nothing}},
		"a member twice":             {{Name: "a.b", Func: nothing}, {Name: "a.b", Func: nothing}},
		"a function and a namespace": {{Name: "a", Func: nothing}, {Name: "a.b", Func: nothing}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("was accepted")
				}
			}()
			NewEnv().predeclared(catalog)
		})
	}
	if got := NewEnv().predeclared([]Builtin{{Name: "session.x", Func: nothing}, {Name: "a.b", Func: nothing}}); len(got) != 1 || got["a"] == nil {
		t.Errorf("got %v, want a alone: methods of a capability are not predeclared", got)
	}
}

// A builtin that does anything before Unpack cannot be described.
func TestUnpackComesFirst(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("was accepted")
		}
	}()
	Builtin{Name: "x", Func: func(*Call) (starlark.Value, error) { return starlark.None, nil }}.Signature()
}

func TestLayout(t *testing.T) {
	long := `f(name, d={"a": "1, 2", "b": [1, 2]}, ` + strings.Repeat("another=None, ", 6) + `**kwargs)`
	want := "f(\n    name,\n    d={\"a\": \"1, 2\", \"b\": [1, 2]},\n" + strings.Repeat("    another=None,\n", 6) + "    **kwargs,\n)"
	if got := layout(long); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := layout("f(a, b)"); got != "f(a, b)" {
		t.Errorf("a short form became %s", got)
	}
}
