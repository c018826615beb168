package script

import (
	"fmt"

	starlarkjson "go.starlark.net/lib/json"
	starlarkmath "go.starlark.net/lib/math"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"
)

// options is the dialect: no while, no recursion, no if or for at top level, no reassigned globals, names
// bound by load stay in their file; sets are allowed. Strict on purpose: what ends is what can be checked,
// and a global that never changes can be part of a function's identity.
func options() *syntax.FileOptions { return &syntax.FileOptions{Set: true} }

// Dialect is a text that changes whenever the same file could mean something else: the options, the
// interpreter's compiled form, and the names of Standard. Sessions record its digest.
func Dialect() string {
	return fmt.Sprintf("starlark %+v compiler=%d standard=%v", *options(), starlark.CompilerVersion, Standard().Keys())
}

// Standard is what every workflow sees beside Starlark's own names: json, math, struct. There is no time
// module: a workflow that reads the clock could not be replayed.
func Standard() starlark.StringDict {
	return starlark.StringDict{
		"json":   starlarkjson.Module,
		"math":   starlarkmath.Module,
		"struct": starlark.NewBuiltin("struct", starlarkstruct.Make),
	}
}
