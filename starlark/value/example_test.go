package value_test

import (
	"fmt"
	"time"

	"flow/starlark/value"

	"go.starlark.net/starlark"
)

// A builtin declares its parameters where it takes them; the wrong call explains itself.
func ExampleSignature() {
	var name string
	env := map[string]string{}
	settle := 5 * time.Second
	s := value.Signature{Name: "lever", Positional: 1, Params: []value.Param{
		{Name: "name", Required: true, Into: value.String(&name)},
		{Name: "env", Default: "{}", Into: value.Dict(&env), Example: `{"OMP_NUM_THREADS": 4}`},
		{Name: "settle", Default: `"5s"`, Into: value.Duration(&settle)},
	}}
	err := s.Unpack(nil, starlark.Tuple{starlark.String("threads-4")}, []starlark.Tuple{{starlark.String("settle"), starlark.String("300ms")}})
	fmt.Println(name, settle, err)
	err = s.Unpack(nil, starlark.Tuple{starlark.String("threads-4")}, []starlark.Tuple{{starlark.String("env"), starlark.MakeInt(4)}})
	fmt.Println(err)
	fmt.Println(s)
	// Output:
	// threads-4 300ms <nil>
	// lever: for parameter "env": got int, want dict such as {"OMP_NUM_THREADS": 4}
	// lever(name, env={}, settle="5s")
}
