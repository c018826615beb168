package script_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"flow/starlark/diag"
	"flow/starlark/script"

	"go.starlark.net/starlark"
)

// A step that would fill memory is not begun, whatever its size is made of, and the place is that of the step.
func TestBounded(t *testing.T) {
	const repeated = "repeated 1000000000 times this has more than "
	for _, c := range []struct{ text, at, want string }{
		{"x = [0] * 1000000000", "1:9", repeated + "10000000 elements"},
		{"x = 1000000000 * ([0])", "1:16", repeated + "10000000 elements"},
		{"n = 1000000000\nx = [0] * n", "2:9", repeated + "10000000 elements"},
		{"n = 1000000000\nx = n * (1, 2)", "2:7", repeated + "10000000 elements"},
		{"def f(n):\n    return ('ab' * n)\n\nx = f(1000000000)", "2:18", repeated + "134217728 bytes"},
		{"def f(n):\n    return b'ab' * n\n\nx = f(1000000000)", "2:18", repeated + "134217728 bytes"},
		{"def f(n):\n    x = [0]\n    x *= n\n    return x\n\nx = f(1000000000)", "3:7", repeated + "10000000 elements"},
		{"def f(n):\n    x = {'a': [[0]]}\n    x['a'][0] *= n\n\nf(1000000000)", "3:15", repeated + "10000000 elements"},
		{"def f(n):\n    return [[0] * n for _ in range(2)]\n\nx = f(1000000000)", "2:17", repeated + "10000000 elements"},
		{"f = lambda n, x = [0]: x * n\nf(1000000000)", "1:26", repeated + "10000000 elements"},
		{"x = ['ab' * 1000000000]", "1:11", repeated + "134217728 bytes"},
		{"x = [0] * 99999999999999999999", "1:9", "repeated 99999999999999999999 times"},
		{"def f():\n    x = 3\n    for _ in range(40):\n        x = x * x\n    return x\n\nx = f()", "4:15", "want at most 2097152"},
		{"x = list(range(1000000000))", "1:9", "list: got 1000000000 elements, want at most 10000000"},
		{"x = sorted(range(1000000000), reverse = True)", "1:11", "sorted: got 1000000000 elements"},
		{"x = enumerate(range(1000000000))", "1:14", "enumerate: got 1000000000 elements"},
		{"x = zip(range(1000000000), range(2000000000))", "1:8", "zip: got 1000000000 elements"},
	} {
		l := &script.Loader{Root: fstest.MapFS{"a.star": {Data: []byte(c.text + "\n")}}}
		_, err := l.Load(t.Context(), "a.star")
		if kind, _ := diag.KindOf(err); err == nil || kind != diag.Workflow || !strings.HasPrefix(err.Error(), "a.star:"+c.at+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\ngot  %v\nwant %q at %s", c.text, err, c.want, c.at)
		}
	}
}

// What fits means what it always meant, with the messages it always had.
func TestBoundedChangesNothing(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"x = [0] * 3 + 2 * [1]", "[0, 0, 0, 1, 1]"},
		{"x = [0] * 0 + [0] * -1", "[]"},
		{"x = ['ab' * 2, 3 * b'c', (1,) * 2]", `["abab", b"ccc", (1, 1)]`},
		{"x = [6 * 7, 2 * 1.5, 0.5 * 2, (1 + 2) * 3]", "[42, 3.0, 1.0, 9]"},
		{"x = 1000000000 * 1000000000", "1000000000000000000"},
		{"x = '' * 1000000000", `""`},
		{"def f():\n    x = [2]\n    y = x\n    x *= 3\n    return (x, y)\n\nx = f()", "([2, 2, 2], [2])"},
		{"def f():\n    x = [[2], 5]\n    x[0] *= 3\n    x[1] *= 2\n    return x\n\nx = f()", "[[2, 2, 2], 10]"},
		{"n = [0]\n\ndef i():\n    return 0\n\ndef f():\n    x = [2]\n    x[i()] *= 3\n    return x\n\nx = f()", "[6]"},
		{"def f(*args, **kwargs):\n    return args\n\nx = f(*[1, 2], **{'a': 3 * 4})", "(1, 2)"},
		{"x = [list((1, 2)), tuple([1]), sorted([2, 1], key = lambda v: -v), zip(range(1 << 40), 'ab'.elems())]", `[[1, 2], (1,), [2, 1], [(0, "a"), (1, "b")]]`},
		{"def f():\n    for i in range(1 << 40):\n        if i == 3:\n            return i\n\nx = f()", "3"},
		{"x = [list(), set([1, 1]), reversed(range(3)), enumerate('ab'.elems(), 1)]", `[[], set([1]), [2, 1, 0], [(1, "a"), (2, "b")]]`},
		{"x = str(list)", `"<built-in function list>"`},
	} {
		l := &script.Loader{Root: fstest.MapFS{"a.star": {Data: []byte(c.text + "\n")}}}
		globals, err := l.Load(t.Context(), "a.star")
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := globals["x"].String(); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.text, got, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"x = [1] * 'a'", "a.star:1:9: unknown binary op: list * string"},
		{"x = None * 2", "a.star:1:10: unknown binary op: NoneType * int"},
		{"x = list(5)", "a.star:1:9: list: for parameter 1: got int, want iterable"},
		{"x = list(1, 2)", "a.star:1:9: list: got 2 arguments, want at most 1"},
		{"x = len() * 2", "a.star:1:8: len: got 0 arguments, want 1"},
	} {
		l := &script.Loader{Root: fstest.MapFS{"a.star": {Data: []byte(c.text + "\n")}}}
		if _, err := l.Load(t.Context(), "a.star"); err == nil || err.Error() != c.want {
			t.Errorf("%s:\ngot  %v\nwant %s", c.text, err, c.want)
		}
	}
}

// The identity of a function is that of what was written.
func TestBoundedFingerprint(t *testing.T) {
	load := func(text string) string {
		l := &script.Loader{Root: fstest.MapFS{"a.star": {Data: []byte(text)}}, Predeclared: starlark.StringDict{}}
		globals, err := l.Load(t.Context(), "a.star")
		if err != nil {
			t.Fatal(err)
		}
		id, err := l.Fingerprint(globals["f"])
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	const want = "d9e0912f06e2f7dd96ddf1e5d9d52e0481cc9b77f95105c5a6be764bb4141048"
	if got := load("def f(x, n):\n    y = [x] * n\n    y *= 2\n    return list(y)\n"); got != want {
		t.Errorf("got %s, want %s, as before products were looked at", got, want)
	}
}
