package script_test

import (
	"context"
	"fmt"
	"testing/fstest"

	"flow/starlark/diag"
	"flow/starlark/script"

	"go.starlark.net/starlark"
)

// A file is loaded, one of its functions called, and its mistake shown as a user sees it.
func ExampleLoader() {
	l := &script.Loader{
		Root: fstest.MapFS{"screen.star": {Data: []byte(`
limit = 3

def check(arm):
    return "swap grew by %.1f MiB" % arm if arm > limit else None
`)}},
		Predeclared: script.Standard(),
	}
	globals, err := l.Load(context.Background(), "screen.star")
	if err != nil {
		fmt.Println(diag.Format(err))
		return
	}
	check := globals["check"].(starlark.Callable)
	v, err := l.Call(context.Background(), "gate no_swap_growth", check, starlark.Tuple{starlark.Float(1)}, nil)
	fmt.Println(v, err)
	_, err = l.Call(context.Background(), "gate no_swap_growth", check, starlark.Tuple{starlark.Float(4.5)}, nil)
	fmt.Println(err)
	// Output:
	// None <nil>
	// screen.star:5:36: gate no_swap_growth: a format takes no width and no digits
}
