package script_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"flow/starlark/script"
	"flow/starlark/startest"

	"go.starlark.net/starlark"
)

// files is the workflow's folder of the tests, library the @flow// files.
func files() fstest.MapFS {
	return tree(map[string]string{
		"lib.star":    "limit = 3\ndef helper(x):\n    return x\n_private = 1\n",
		"broken.star": "y = 1\nx = [1][y]\n",
		"chain.star":  "# comment\nload(\"syntax.star\", \"x\")\n",
		"syntax.star": "x = 1 +\n",
		"a.star":      "load(\"b.star\", \"x\")\n",
		"b.star":      "load(\"//a.star\", \"x\")\n",
	})
}

func library() fstest.MapFS {
	return tree(map[string]string{
		"gates.star": "load(\"limits.star\", \"number\")\n" +
			"def no_swap_growth(limit = 1):\n    return gate(\"no_swap_growth\", limit = number(limit))\n",
		"limits.star": "def number(x):\n    return x + 1\n",
	})
}

func tree(m map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range m {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

// newLoader has a builtin gate(name, check) beside the standard names, which captures its check.
func newLoader() *script.Loader {
	names := script.Standard()
	names["gate"] = script.Builtin("gate", func(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		for _, a := range args[1:] {
			if err := script.LoaderOf(t).Capture("gate "+string(args[0].(starlark.String)), a); err != nil {
				return nil, err
			}
		}
		return args[0], nil
	})
	return &script.Loader{Root: files(), Library: library(), Predeclared: names}
}

func TestFixes(t *testing.T) { startest.Golden(t, newLoader, "testdata/fixes.golden") }

// TestEveryHabitHasAnExample keeps the table and its examples together: a row without one, or one whose
// chunk got no fix, is not tested.
func TestEveryHabitHasAnExample(t *testing.T) {
	data, err := os.ReadFile("testdata/fixes.golden")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, chunk := range strings.Split(string(data), "\n---\n") {
		first, _, _ := strings.Cut(chunk, "\n")
		name, ok := strings.CutPrefix(first, "# habit: ")
		if !ok {
			continue
		}
		name, _, _ = strings.Cut(name, ",")
		seen[name] = true
		if !strings.Contains(chunk, "\n#> \tfix: ") {
			t.Errorf("the example of %q has no fix", name)
		}
	}
	for _, name := range script.HabitNames() {
		if !seen[name] {
			t.Errorf("no example of %q in testdata/fixes.golden", name)
		}
	}
}
