package script_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"flow/starlark/diag"
	"flow/starlark/script"

	"go.starlark.net/starlark"
)

func load(t *testing.T, l *script.Loader, label string) starlark.StringDict {
	t.Helper()
	g, err := l.Load(t.Context(), label)
	if err != nil {
		t.Fatal(diag.Format(err))
	}
	return g
}

func one(text string) *script.Loader {
	l := newLoader()
	l.Root = tree(map[string]string{"x.star": text})
	return l
}

// function loads text as x.star and gives its function of that name.
func function(t *testing.T, l *script.Loader, name string) starlark.Callable {
	t.Helper()
	fn, ok := load(t, l, "x.star")[name].(starlark.Callable)
	if !ok {
		t.Fatalf("no function %s", name)
	}
	return fn
}

func asDiag(t *testing.T, err error) *diag.Error {
	t.Helper()
	d, ok := err.(*diag.Error)
	if !ok {
		t.Fatalf("got %T %v, want *diag.Error", err, err)
	}
	return d
}

func TestLoadOnce(t *testing.T) {
	counted := 0
	l := &script.Loader{Root: tree(map[string]string{
		"main.star":      `load("lib/a.star", "a"); load("//lib/b.star", "b"); load("./lib/../lib/a.star", c = "a"); x = (a, b, c)`,
		"lib/a.star":     `load("b.star", "b"); count(); a = [b]`,
		"lib/b.star":     `count(); b = "b"; _hidden = 1`,
		"lib/sub/c.star": `load("../a.star", "a"); c = a`,
	}), Library: tree(map[string]string{
		"gates.star":         `load("engines/sim.star", "sim"); gate = sim`,
		"engines/sim.star":   `load("other.star", "other"); load("//stops.star", "stop"); sim = (other, stop)`,
		"engines/other.star": `other = 1`,
		"stops.star":         `stop = 2`,
	})}
	l.Predeclared = starlark.StringDict{"count": script.Builtin("count", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		counted++
		return starlark.None, nil
	})}
	if got := load(t, l, "main.star")["x"].String(); got != `(["b"], "b", ["b"])` {
		t.Errorf("x = %s", got)
	}
	if got := load(t, l, "lib/sub/c.star")["c"].String(); got != `["b"]` {
		t.Errorf("c = %s", got)
	}
	if got := load(t, l, "@flow//gates.star")["gate"].String(); got != "(1, 2)" {
		t.Errorf("gate = %s", got)
	}
	if counted != 2 {
		t.Errorf("two files ran %d times", counted)
	}
	var labels []string
	for _, s := range l.Sources() {
		labels = append(labels, s.Label)
		if len(s.SHA256) != 64 || s.Text == "" {
			t.Errorf("source %+v", s)
		}
	}
	want := "@flow//engines/other.star @flow//engines/sim.star @flow//gates.star @flow//stops.star lib/a.star lib/b.star lib/sub/c.star main.star"
	if got := strings.Join(labels, " "); got != want {
		t.Errorf("sources %s, want %s", got, want)
	}
	// What a caller does to its globals is its own business.
	delete(load(t, l, "main.star"), "x")
	if !load(t, l, "main.star").Has("x") {
		t.Error("the cached globals were changed")
	}
}

func TestLabelsAreConfined(t *testing.T) {
	l := newLoader()
	for _, label := range []string{"", ".", "..", "../x.star", "a/../../x.star", "/etc/passwd", "//", "///etc/passwd",
		"//../x.star", "@flow//../x.star", "@flow///x.star", "@other//x.star", "@flow", `..\x.star`, "a\x00b", "\xff.star", "lib/"} {
		_, err := l.Load(t.Context(), label)
		d, ok := err.(*diag.Error)
		if !ok || d.Kind != diag.Workflow {
			t.Errorf("Load(%q) = %v, want an error of the workflow", label, err)
		}
	}
	if n := len(l.Sources()); n != 0 {
		t.Errorf("%d files were read", n)
	}
	_, err := l.Load(t.Context(), "nowhere.star")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	if _, err := new(script.Loader).Load(t.Context(), "x.star"); err == nil {
		t.Error("a loader without folder loaded")
	}
}

func TestLoadConcurrently(t *testing.T) {
	const n = 20
	fsys := fstest.MapFS{}
	for i := range n { // a chain, entered everywhere at once
		fsys[fmt.Sprintf("f%d.star", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "load(\"f%d.star\", before = \"x\")\nx = before + 1", i+1)}
	}
	fsys[fmt.Sprintf("f%d.star", n)] = &fstest.MapFile{Data: []byte("x = 1")}
	l := &script.Loader{Root: fsys}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			g, err := l.Load(t.Context(), fmt.Sprintf("f%d.star", i))
			if err != nil || g["x"].String() != fmt.Sprint(n-i+1) {
				t.Error(g, err)
			}
			l.Sources()
		})
	}
	wg.Wait()
	l = &script.Loader{Root: tree(map[string]string{"a.star": "load('b.star', 'x')", "b.star": "load('a.star', 'x')"})}
	for range 20 {
		for _, label := range []string{"a.star", "b.star"} {
			wg.Go(func() {
				if _, err := l.Load(t.Context(), label); err == nil || !strings.Contains(err.Error(), "load each other") {
					t.Errorf("got %v, want a cycle", err)
				}
			})
		}
	}
	wg.Wait()
}

func TestFailuresAreNotCached(t *testing.T) {
	fsys := tree(map[string]string{"x.star": "x = 1 +"})
	l := &script.Loader{Root: fsys}
	if _, err := l.Load(t.Context(), "x.star"); err == nil {
		t.Fatal("loaded")
	}
	fsys["x.star"].Data = []byte("x = 1 + 1")
	if got := load(t, l, "x.star")["x"].String(); got != "2" {
		t.Errorf("x = %s", got)
	}
}

// forever is a loop that no test would wait for.
const forever = "def main():\n    for i in range(1000000000):\n        for j in range(1000000000):\n            pass\n"

// ends fails when f does not end soon; the loops of these tests end never, so the limit is wide enough for a
// busy machine. BenchmarkCancel says how soon it is.
func ends(t *testing.T, f func()) {
	t.Helper()
	done := make(chan bool)
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
}

func TestCancelPureLoop(t *testing.T) {
	l := one(forever)
	l.Limits.Steps = 1 << 60
	fn := function(t, l, "main")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	ends(t, func() {
		_, err := l.Call(ctx, "main", fn, nil, nil)
		d := asDiag(t, err)
		if !errors.Is(err, context.Canceled) || d.Kind != diag.Stopped || d.Pos.File != "x.star" || d.Pos.Line < 2 {
			t.Errorf("got %+v, want stopped at a line of the loop", d)
		}
		if got := d.Error(); strings.Count(got, "context canceled") != 1 || !strings.Contains(got, ": main: stopped: ") {
			t.Errorf("message %q", got)
		}
	})
	// A context that has ended already runs nothing; its cause is told.
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errors.New("budget of 3h is spent"))
	_, err := l.Call(ctx, "main", fn, nil, nil)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "budget of 3h is spent") {
		t.Errorf("got %v, want the cause", err)
	}
}

func TestCancelKeepsWhatABuiltinSaid(t *testing.T) {
	left := &diag.Error{Kind: diag.Machine, Op: "stop engine", Msg: "process 12 is left"}
	for _, c := range []struct {
		name string
		fail func(ctx context.Context) error
		want string
	}{
		{"its own words", func(ctx context.Context) error {
			return &diag.Error{Kind: diag.Stopped, Op: "session.run", Msg: "stopped in arm A2", Err: ctx.Err()}
		}, "x.star:2:9: session.run: stopped in arm A2: context canceled"},
		{"the context's error", func(ctx context.Context) error { return ctx.Err() }, "x.star:2:9: stopped: context canceled"},
		{"something else", func(context.Context) error { return left }, "x.star:2:9: stopped: context canceled; stop engine: process 12 is left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l := one("def main():\n    wait()\n")
			l.Predeclared = starlark.StringDict{"wait": script.Builtin("wait", func(th *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
				cancel()
				<-script.Context(th).Done()
				return nil, c.fail(script.Context(th))
			})}
			_, err := l.Call(ctx, "", function(t, l, "main"), nil, nil)
			if got := err.Error(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if !errors.Is(err, context.Canceled) {
				t.Error("not context.Canceled")
			}
			if c.name == "something else" && !errors.Is(err, error(left)) {
				t.Error("the cause is lost")
			}
		})
	}
}

func TestLimits(t *testing.T) {
	l := one(forever + "x = [1 for _ in range(1000)]\n")
	l.Limits.Steps = 100_000
	_, err := l.Call(t.Context(), "gate quiet", function(t, l, "main"), nil, nil)
	if d := asDiag(t, err); d.Kind != diag.Workflow || d.Op != "gate quiet" || !strings.Contains(d.Msg, "more than 100000") || d.Pos.Line < 2 || d.Fix == "" {
		t.Errorf("got %+v", d)
	}
	l = one("def f():\n    for i in range(1000000000): pass\nf()\n")
	l.Limits.Steps = 1000
	if _, err := l.Load(t.Context(), "x.star"); err == nil || !strings.Contains(err.Error(), "too many steps") {
		t.Errorf("got %v", err)
	}
	// The wall deadline, on Starlark code...
	l = one("def f():\n    for i in range(1000000000): pass\nf()\n")
	l.Limits = script.Limits{Steps: 1 << 60, Load: 30 * time.Millisecond}
	ends(t, func() {
		_, err := l.Load(t.Context(), "x.star")
		if d := asDiag(t, err); d.Kind != diag.Workflow || d.Msg != "loading took longer than 30ms" || d.Pos.Line != 2 {
			t.Errorf("got %+v", d)
		}
	})
	// ...and on a builtin that heeds nothing: few steps, much work.
	release := make(chan bool)
	l = one("work()\n")
	l.Limits.Load = 30 * time.Millisecond
	l.Predeclared = starlark.StringDict{"work": script.Builtin("work", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		<-release
		return starlark.None, nil
	})}
	ends(t, func() {
		_, err := l.Load(t.Context(), "x.star")
		if d := asDiag(t, err); d.Msg != "loading took longer than 30ms" || d.Pos.File != "x.star" {
			t.Errorf("got %+v", d)
		}
	})
	close(release)
	// Cancelling a load is no timeout.
	ctx, cancel := context.WithCancel(t.Context())
	l = one("def f():\n    for i in range(1000000000): pass\nf()\n")
	l.Limits.Steps = 1 << 60
	time.AfterFunc(20*time.Millisecond, cancel)
	ends(t, func() {
		if _, err := l.Load(ctx, "x.star"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	big := one("# " + strings.Repeat("x", 2<<20))
	if _, err := big.Load(t.Context(), "x.star"); err == nil || !strings.Contains(err.Error(), "want at most") {
		t.Errorf("got %v", err)
	}
}

func TestPanics(t *testing.T) {
	thrown := errors.New("index out of range")
	boom := func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		panic(thrown)
	}
	l := one("load('@flow//lib.star', 'library')\ndef helper():\n    boom()\ndef main():\n    helper()\ndef other():\n    raw()\ndef third():\n    library()\n")
	l.Library = tree(map[string]string{"lib.star": "def library():\n    boom()\n"})
	l.Predeclared = starlark.StringDict{"boom": script.Builtin("boom", boom), "raw": starlark.NewBuiltin("raw", boom)}
	_, err := l.Call(t.Context(), "", function(t, l, "main"), nil, nil)
	d := asDiag(t, err)
	if d.Kind != diag.Bug || d.Pos != (diag.Pos{File: "x.star", Line: 3, Col: 9}) || len(d.Via) != 1 || !errors.Is(err, thrown) {
		t.Errorf("got %+v", d)
	}
	var p *script.Panic
	if !errors.As(err, &p) || !strings.Contains(string(p.Stack), "script_test.go") {
		t.Error("the stack of the panic is lost")
	}
	if kind, _ := diag.KindOf(err); kind.ExitCode() != 70 {
		t.Errorf("exit code %d", kind.ExitCode())
	}
	// A builtin that was not made by script.Builtin: at least the function that was called.
	_, err = l.Call(t.Context(), "", function(t, l, "other"), nil, nil)
	if d := asDiag(t, err); d.Kind != diag.Bug || d.Pos.Line != 6 || !errors.Is(err, thrown) {
		t.Errorf("got %+v", d)
	}
	_, err = l.Call(t.Context(), "", function(t, l, "third"), nil, nil)
	if d := asDiag(t, err); d.Pos.Line != 9 || len(d.Via) != 1 || d.Via[0].Pos.File != "@flow//lib.star" {
		t.Errorf("got %+v", d)
	}
	l = one("raw()")
	l.Predeclared = starlark.StringDict{"raw": starlark.NewBuiltin("raw", boom)}
	if _, err := l.Load(t.Context(), "x.star"); asDiag(t, err).Kind != diag.Bug {
		t.Errorf("got %v", err)
	}
}

func TestErrorsHaveCauseOperationAndFrames(t *testing.T) {
	cause := errors.New("no space left")
	l := one("def helper(x):\n    return save(x)\ndef main():\n    helper(1)\ndef nested():\n    callback(helper)\n")
	l.Predeclared = starlark.StringDict{
		"save": script.Builtin("save", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
			return nil, fmt.Errorf("save: %w", cause)
		}),
		"callback": script.Builtin("callback", func(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			return script.LoaderOf(t).Call(script.Context(t), "gate quiet, arm A1", args[0].(starlark.Callable), starlark.Tuple{starlark.None}, nil)
		}),
	}
	_, err := l.Call(t.Context(), "", function(t, l, "main"), nil, nil)
	want := "x.star:2:16: save: no space left\n\tin main at x.star:4:11"
	if got := diag.Format(err); got != want || !errors.Is(err, cause) {
		t.Errorf("got %q, want %q", got, want)
	}
	_, err = l.Call(t.Context(), "", function(t, l, "nested"), nil, nil)
	want = "x.star:2:16: gate quiet, arm A1: save: no space left\n\tin nested at x.star:6:13"
	if got := diag.Format(err); got != want || !errors.Is(err, cause) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestThreadsHaveTheirEnvironment(t *testing.T) {
	l := one("def main():\n    print(\"a\", look())\n")
	l.Locals = map[string]any{"env": "hello"}
	l.Predeclared = starlark.StringDict{"look": script.Builtin("look", func(th *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		if script.LoaderOf(th) != l || script.Context(th).Value(ctxKey{}) != 3 {
			t.Error("no loader or context")
		}
		return starlark.String(th.Local("env").(string)), nil
	})}
	fn := function(t, l, "main")
	ctx := context.WithValue(t.Context(), ctxKey{}, 3)
	if _, err := l.Call(ctx, "", fn, nil, nil); err != nil {
		t.Error(err) // print goes nowhere
	}
	var printed string
	l.Print = func(pos diag.Pos, msg string) { printed = pos.String() + " " + msg }
	if _, err := l.Call(ctx, "", fn, nil, nil); err != nil || printed != "x.star:2:10 a hello" {
		t.Errorf("printed %q, %v", printed, err)
	}
	if script.LoaderOf(&starlark.Thread{}) != nil || script.Context(&starlark.Thread{}) != context.Background() {
		t.Error("a thread of nobody has a loader")
	}
}

type ctxKey struct{}

func TestDialect(t *testing.T) {
	if a, b := script.Dialect(), script.Dialect(); a != b || !strings.Contains(a, "Set:true") || strings.Contains(a, "0x") {
		t.Errorf("dialect %q", a)
	}
	l := one("x = set([1]) | set([2])\ny = json.encode({\"b\": 1, \"a\": math.floor(2.5)})\nz = struct(a = 1).a\nf = lambda x: x\n")
	g := load(t, l, "x.star")
	if g["y"].String() != `"{\"a\":2,\"b\":1}"` || g["z"].String() != "1" {
		t.Error(g)
	}
	if script.Standard().Has("time") {
		t.Error("a clock in the language")
	}
}

func TestNoGoroutineIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	l := one("def main():\n    return 1\n")
	fn := function(t, l, "main")
	for range 100 {
		ctx, cancel := context.WithCancel(context.Background())
		if _, err := l.Call(ctx, "", fn, nil, nil); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > before+2 {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		runtime.Gosched()
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		l := newLoader()
		if _, err := l.Load(b.Context(), "@flow//gates.star"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCancel(b *testing.B) {
	l := one(forever)
	l.Limits.Steps = 1 << 60
	g, err := l.Load(b.Context(), "x.star")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if _, err := l.Call(ctx, "", g["main"].(starlark.Callable), nil, nil); !errors.Is(err, context.Canceled) {
			b.Fatal(err)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	l := one("def main():\n    return 1\n")
	g, err := l.Load(b.Context(), "x.star")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := l.Call(b.Context(), "", g["main"].(starlark.Callable), nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}
