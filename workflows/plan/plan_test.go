package plan_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
)

func server(args ...string) plan.Engine {
	return plan.Engine{Name: "e", Command: append([]string{"srv"}, args...), API: &plan.API{Kind: plan.APIChat},
		Flags: map[string][]string{"-ub": {"--ubatch-size"}}}
}

func TestEffectiveArguments(t *testing.T) {
	tests := []struct {
		name    string
		command []string
		lever   plan.Lever
		want    string
	}{
		{"replaces a value where it stands", []string{"-ub", "512", "-t", "1"}, plan.Lever{Args: []plan.Arg{{Flag: "-ub", Values: []string{"1024"}}}}, "srv -ub 1024 -t 1"},
		{"replaces an alias", []string{"--ubatch-size", "512", "-t", "1"}, plan.Lever{Args: []plan.Arg{{Flag: "-ub", Values: []string{"1024"}}}}, "srv -ub 1024 -t 1"},
		{"replaces the joined form", []string{"--ubatch-size=512", "-t", "1"}, plan.Lever{Args: []plan.Arg{{Flag: "-ub", Values: []string{"1024"}}}}, "srv -ub 1024 -t 1"},
		{"appends what was not there", []string{"-t", "1"}, plan.Lever{Args: []plan.Arg{{Flag: "-ub", Values: []string{"64"}}}}, "srv -t 1 -ub 64"},
		{"a list repeats the flag", []string{"-ot", "old", "-t", "1"}, plan.Lever{Args: []plan.Arg{{Flag: "-ot", Values: []string{"a", "b"}}}}, "srv -ot a -ot b -t 1"},
		{"every old occurrence goes", []string{"-ot", "x", "-t", "1", "-ot", "y"}, plan.Lever{Args: []plan.Arg{{Flag: "-ot", Values: []string{"a"}}}}, "srv -ot a -t 1"},
		{"a bare flag", []string{"-t", "1"}, plan.Lever{Args: []plan.Arg{{Flag: "--mlock", Bare: true}}}, "srv -t 1 --mlock"},
		{"None removes it with its value", []string{"-ub", "512", "-t", "1"}, plan.Lever{Args: []plan.Arg{{Flag: "-ub", Remove: true}}}, "srv -t 1"},
		{"without removes it", []string{"--mlock", "-t", "1"}, plan.Lever{Without: []string{"--mlock"}}, "srv -t 1"},
		{"a negative number is a value", []string{"-ngl", "-1", "-t", "1"}, plan.Lever{Args: []plan.Arg{{Flag: "-ngl", Values: []string{"20"}}}}, "srv -ngl 20 -t 1"},
		{"a positional argument keeps its place", []string{"bench", "-ub", "512", "file"}, plan.Lever{Args: []plan.Arg{{Flag: "-t", Values: []string{"2"}}}}, "srv bench -ub 512 file -t 2"},
		{"without a pair as it stands", []string{"-ot", "a", "-ot", "b"}, plan.Lever{Without: []string{"-ot a"}}, "srv -ot b"},
		{"True does not take the word after it", []string{"-v", "file"}, plan.Lever{Args: []plan.Arg{{Flag: "-v", Bare: true}}}, "srv -v file"},
		{"a bare flag goes alone", []string{"-6", "file"}, plan.Lever{Without: []string{"-6"}, Args: []plan.Arg{{Flag: "-1", Bare: true}}}, "srv file -1"},
		{"nothing follows that could be its value", []string{"file", "-x", "-t", "1"}, plan.Lever{Without: []string{"-x"}}, "srv file -t 1"},
		{"another binary", []string{"-t", "1"}, plan.Lever{Binary: "./new"}, "./new -t 1"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			e := server(tc.command...)
			e.Bare = []string{"-6"}
			c, err := plan.Effective(e, plan.Stack{tc.lever})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(c.Argv, " "); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestAmbiguousRemoval: what stands after a flag may be its value or a file. Taking the file away from one
// side made it 99.9 % faster.
func TestAmbiguousRemoval(t *testing.T) {
	for _, l := range []plan.Lever{{Name: "l", Without: []string{"-7"}}, {Name: "l", Args: []plan.Arg{{Flag: "-7", Remove: true}}}} {
		for _, next := range []string{"{prompt_file}", "-1"} {
			_, err := plan.Effective(server("-k", "-7", next), plan.Stack{l})
			var d *diag.Error
			if !errors.As(err, &d) || d.Kind != diag.Workflow || !strings.Contains(d.Msg, `"-7"`) || !strings.Contains(d.Fix, `bare = ["-7"]`) || !strings.Contains(d.Fix, `"-7 `+next) {
				t.Errorf("%+v before %s: got %v", l, next, err)
			}
		}
	}
}

func TestEffectiveDelta(t *testing.T) {
	e := server("-ub", "512", "--mlock")
	e.Env = map[string]string{"KEEP": "1", "OLD": "1", "GONE": "1"}
	e.Config = map[string]string{"c.json": "{}"}
	e.API.Body = `{"a":1}`
	l := plan.Lever{Name: "l", Env: map[string]string{"OLD": "2", "NEW": "3"}, Unset: []string{"GONE", "NEVER"}, Without: []string{"--mlock"},
		Args: []plan.Arg{{Flag: "-ub", Values: []string{"64"}}}, Config: map[string]string{"c.json": "{1}"}, Request: `{"b":2}`, Binary: "other"}
	c, err := plan.Effective(e, plan.Stack{l})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"env OLD": "2", "env NEW": "3", "unset GONE": "", "unset NEVER": "", "without --mlock": "", "arg -ub": "64",
		"config c.json": "{1}", "request": `{"a":1,"b":2}`, "binary": "other"}
	if !maps.Equal(c.Delta, want) {
		t.Errorf("got  %v\nwant %v", c.Delta, want)
	}
	if c.Env["KEEP"] != "1" || c.Env["GONE"] != "" || !slices.Equal(c.Unset, []string{"GONE", "NEVER"}) {
		t.Errorf("absolute state: env %v, unset %v", c.Env, c.Unset)
	}
	if e.Env["OLD"] != "1" || e.Command[2] != "512" {
		t.Error("the engine itself was changed")
	}
}

func TestMergeJSON(t *testing.T) {
	tests := []struct{ base, over, want string }{
		{"", "", ""},
		{`{"a":1}`, "", `{"a":1}`},
		{`{"a":1,"o":{"x":1,"y":2}}`, `{"o":{"y":3},"b":null}`, `{"a":1,"o":{"x":1,"y":3}}`},
		{`{"a":1}`, `{"a":null}`, ""},
	}
	for _, tc := range tests {
		got, err := plan.MergeJSON(tc.base, tc.over)
		if err != nil || got != tc.want {
			t.Errorf("MergeJSON(%s, %s) = %s, %v; want %s", tc.base, tc.over, got, err, tc.want)
		}
	}
	if _, err := plan.MergeJSON("[1]", ""); err == nil {
		t.Error("a list was taken for an object")
	}
}

func TestStackRefusals(t *testing.T) {
	a := plan.Lever{Name: "a"}
	tests := []struct {
		stack plan.Stack
		want  string
	}{
		{plan.Stack{a, a}, "twice"},
		{plan.Stack{{Name: "c1", Factor: "cache"}, {Name: "c2", Factor: "cache"}}, "levels of one factor"},
		{plan.Stack{a, {Name: "b", Conflicts: []string{"a"}}}, "conflicts"},
		{plan.Stack{{Name: "b", Requires: []string{"a"}}}, "requires"},
		{plan.Stack{a, {Name: "b", Requires: []string{"a"}}}, ""},
	}
	for _, tc := range tests {
		err := tc.stack.Validate()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v, want %q", tc.stack.Names(), err, tc.want)
		}
	}
}

// files answers digests from a map; what is not there is missing.
type files map[string]string

func (f files) File(_ context.Context, p string) (plan.Hash, error) {
	if h, ok := f[p]; ok {
		return h, nil
	}
	return "", errors.New("no such file: " + p)
}
func (f files) Binary(ctx context.Context, p string) (plan.Hash, error) { return f.File(ctx, p) }

func resolvable(t *testing.T, change func(*plan.Group)) *plan.Group {
	t.Helper()
	e := server("-m", "/models/x.gguf", "-t", "1")
	e.Files = []string{"/models/x.gguf"}
	l := plan.Lever{Name: "l", Args: []plan.Arg{{Flag: "-t", Values: []string{"2"}}}}
	g := plan.Group{Name: "g", Order: "ABBA", Sides: []plan.Side{{Label: "A", Engine: e}, {Label: "B", Engine: e, Stack: plan.Stack{l}}},
		Workload: plan.Workload{Cases: []plan.Case{{Prompts: []plan.Prompt{{File: "p.txt"}}, MaxTokens: 8}}, Repeat: 1}}
	if change != nil {
		change(&g)
	}
	out, err := plan.NewGroup(g)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestResolvedHash(t *testing.T) {
	disk := files{"srv": "bin1", "/models/x.gguf": "model1", "p.txt": "prompt1", "/other/x.gguf": "model1"}
	with := func(k, v string) files { d := maps.Clone(disk); d[k] = v; return d }
	base, err := resolvable(t, nil).Resolve(t.Context(), disk)
	if err != nil {
		t.Fatal(err)
	}
	moved := func(g *plan.Group) {
		for i := range g.Sides {
			e := &g.Sides[i].Engine
			e.Command = []string{"srv", "-m", "/other/x.gguf", "-t", "1"}
			e.Files = []string{"/other/x.gguf"}
		}
	}
	tests := []struct {
		name   string
		change func(*plan.Group)
		disk   files
		parts  []string // what is named as changed; nil: nothing
	}{
		{"the same", nil, disk, nil},
		{"a model at another path", moved, disk, nil},
		{"another model", nil, with("/models/x.gguf", "model2"), []string{"engine e of side A", "engine e of side B"}},
		{"another binary", nil, with("srv", "bin2"), []string{"engine e of side A", "engine e of side B"}},
		{"another prompt", nil, with("p.txt", "prompt2"), []string{"workload of side A", "workload of side B"}},
		{"another threshold", func(g *plan.Group) { g.MinEffect = .02 }, disk, []string{"design"}},
		{"another lever", func(g *plan.Group) { g.Sides[1].Stack[0].Args[0].Values = []string{"3"} }, disk, []string{"lever l of side B"}},
		{"another rate of the sampler", func(g *plan.Group) { g.SampleEvery = plan.SampleFastest }, disk, []string{"design"}},
		{"a meter at the engine", func(g *plan.Group) {
			for i := range g.Sides {
				g.Sides[i].Engine.Collectors = []plan.Collector{{Name: "wall", File: "w.csv", Format: "csv"}}
			}
		}, disk, []string{"design"}}, // and not the engine: its history is still its own
		{"another place in the file", func(g *plan.Group) { g.Pos = diag.Pos{File: "y.star", Line: 9} }, disk, nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r, err := resolvable(t, tc.change).Resolve(t.Context(), tc.disk)
			if err != nil {
				t.Fatal(err)
			}
			changed := plan.Changed(base.Parts, r.Parts)
			if (r.Hash == base.Hash) != (len(tc.parts) == 0) || len(changed) != len(tc.parts) {
				t.Fatalf("hash equal: %v, changed: %q, want %q", r.Hash == base.Hash, changed, tc.parts)
			}
			for i, p := range tc.parts {
				if !strings.HasPrefix(changed[i], p) {
					t.Errorf("changed %q, want %q", changed[i], p)
				}
			}
		})
	}
}

func TestResolveNamesWhatIsMissing(t *testing.T) {
	g := resolvable(t, nil)
	_, err := g.Resolve(t.Context(), files{"srv": "b", "/models/x.gguf": "m"})
	if err == nil || !strings.Contains(err.Error(), "p.txt") {
		t.Errorf("got %v, want the missing prompt", err)
	}
	// A lever's binary that is missing makes its side infeasible later; it is no mistake of the workflow.
	g = resolvable(t, func(g *plan.Group) { g.Sides[1].Stack[0].Binary = "gone" })
	if _, err := g.Resolve(t.Context(), files{"srv": "b", "/models/x.gguf": "m", "p.txt": "p"}); err != nil {
		t.Error(err)
	}
}

func TestGroupRefusals(t *testing.T) {
	e := server("-t", "1")
	l := plan.Stack{{Name: "l", Args: []plan.Arg{{Flag: "-t", Values: []string{"2"}}}}}
	work := plan.Workload{Cases: []plan.Case{{Prompts: []plan.Prompt{{Text: "p"}}, MaxTokens: 8}}}
	two := []plan.Side{{Label: "A", Engine: e}, {Label: "B", Engine: e, Stack: l}}
	three := append(slices.Clone(two), plan.Side{Label: "C", Engine: server("-t", "3")})
	tests := []struct {
		name string
		g    plan.Group
		want string // "" is accepted
	}{
		{"quads by coin", plan.Group{Sides: two}, ""},
		{"one side", plan.Group{Sides: two[:1]}, "want at least 2"},
		{"a label twice", plan.Group{Sides: []plan.Side{two[0], two[0]}}, "stands twice"},
		{"a thing with itself", plan.Group{Sides: []plan.Side{two[0], {Label: "B", Engine: e}}}, "with itself"},
		{"a lever equal to the engine's own value", plan.Group{Sides: []plan.Side{two[0], {Label: "B", Engine: e, Stack: plan.Stack{{Name: "same", Args: []plan.Arg{{Flag: "-t", Values: []string{"1"}}}}}}}}, "with itself"},
		{"a noise floor", plan.Group{Role: record.RoleNoiseFloor, Sides: []plan.Side{two[0], {Label: "B", Engine: e}}}, ""},
		{"a noise floor that differs", plan.Group{Role: record.RoleNoiseFloor, Sides: two}, "differ"},
		{"an unbalanced order", plan.Group{Sides: two, Order: "ABB"}, "unbalanced"},
		{"an order with an unknown side", plan.Group{Sides: two, Order: "AX"}, "not declared"},
		{"a side that never runs", plan.Group{Sides: two, Order: "AA"}, "never runs"},
		{"three sides without an order", plan.Group{Sides: three}, "need a declared order"},
		{"a ladder without a closing control", plan.Group{Sides: three, Order: "A B A C"}, "no closing control"},
		{"a ladder", plan.Group{Sides: three, Order: "A B A C A"}, ""},
		{"an effect out of range", plan.Group{Sides: two, MinEffect: 1.5}, "min_effect"},
		{"a role that is none", plan.Group{Sides: two, Role: "guess"}, "role"},
		{"a gate twice", plan.Group{Sides: two, Gates: []plan.Gate{{Name: "g"}, {Name: "g"}}}, "stands twice"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tc.g.Name, tc.g.Workload = "g", work
			_, err := plan.NewGroup(tc.g)
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && err == nil:
				t.Errorf("accepted, want %q", tc.want)
			case tc.want != "" && !strings.Contains(err.Error(), tc.want):
				t.Errorf("got %v, want %q", err, tc.want)
			case tc.want != "":
				var d *diag.Error
				if !errors.As(err, &d) || d.Kind != diag.Workflow || d.Fix == "" {
					t.Errorf("no fix, or not the workflow's: %#v", err)
				}
			}
		})
	}
}

func TestBlocks(t *testing.T) {
	e := server("-t", "1")
	l := plan.Stack{{Name: "l", Args: []plan.Arg{{Flag: "-t", Values: []string{"2"}}}}}
	work := plan.Workload{Cases: []plan.Case{{Prompts: []plan.Prompt{{Text: "p"}}, MaxTokens: 8}}}
	tests := []struct {
		order string
		coin  bool
		want  string
	}{
		{"", false, "ABBA BAAB ABBA"},
		{"", true, "BAAB ABBA BAAB"},
		{"BAAB", false, "BAAB BAAB BAAB"},
		{"ABBABAAB", false, "ABBA BAAB ABBA"},
		{"AB", false, "AB AB AB"},
		{"ABAB", false, "ABAB ABAB ABAB"},
	}
	for _, tc := range tests {
		g, err := plan.NewGroup(plan.Group{Name: "g", Workload: work, Order: tc.order, Sides: []plan.Side{{Label: "A", Engine: e}, {Label: "B", Engine: e, Stack: l}}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range 3 {
			got = append(got, strings.Join(g.BlockAt(i, tc.coin).Labels, ""))
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("order %q, coin %v: got %s, want %s", tc.order, tc.coin, strings.Join(got, " "), tc.want)
		}
	}
}

func TestLeverSurvivesTheRecord(t *testing.T) {
	x := "1"
	l := plan.Lever{Name: "l", Env: map[string]string{"A": "1"}, Unset: []string{"B"}, Args: []plan.Arg{{Flag: "-x", Values: []string{"1", "2"}}}, Request: `{"a":1}`,
		Confirm: []plan.Confirm{{Kind: plan.ConfirmHTTP, Path: "/props", Pointer: "/x", Equals: &x}}, ChangesOutput: true, Note: "n"}
	got, err := plan.LeverFromRecord(l.Record())
	if err != nil || !reflect.DeepEqual(got, l) {
		t.Errorf("got %+v, %v", got, err)
	}
	renoted := l
	renoted.Note, renoted.Confirm = "other", nil
	if renoted.Key() != l.Key() {
		t.Error("a note or evidence changed a lever's identity in history")
	}
	if renoted.Declared() == l.Declared() {
		t.Error("evidence did not change what was declared")
	}
}

// FuzzFlags: setting a flag sets it once, with the value asked for, and leaves every other flag alone.
func FuzzFlags(f *testing.F) {
	f.Add("-ub 512 -t 1", "-ub", "64")
	f.Add("--ubatch-size=512 x -ngl -1", "-ub", "-5")
	f.Add("", "-a", "b")
	f.Fuzz(func(t *testing.T, command, flag, val string) {
		if !strings.HasPrefix(flag, "-") || strings.ContainsAny(flag, "= \t\n\v\f\r\u0085\u00a0") || strings.HasPrefix(val, "-") {
			return
		}
		e := server(strings.Fields(command)...)
		c, err := plan.Effective(e, plan.Stack{{Name: "l", Args: []plan.Arg{{Flag: flag, Values: []string{val}}}}})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i := 1; i+1 < len(c.Argv); i++ {
			if c.Argv[i] == flag && c.Argv[i+1] == val {
				n++
			}
		}
		if n == 0 {
			t.Errorf("%q with %s %s: %q", command, flag, val, c.Argv)
		}
		again, err := plan.Effective(plan.Engine{Command: c.Argv, API: e.API, Flags: e.Flags}, plan.Stack{{Name: "l", Args: []plan.Arg{{Flag: flag, Values: []string{val}}}}})
		if err != nil || !slices.Equal(again.Argv, c.Argv) {
			t.Errorf("setting it again changed the command: %q, then %q", c.Argv, again.Argv)
		}
	})
}

// TestEngineCollectors: what one engine of a group declares runs on every side; equal ones are one.
func TestEngineCollectors(t *testing.T) {
	wall := plan.Collector{Name: "wall", File: "w.csv", Format: "csv"}
	bmc := plan.Collector{Name: "bmc", Command: []string{"ipmitool", "sensor"}, Format: "ipmitool", Every: time.Second}
	with := func(group, a, b []plan.Collector) func(*plan.Group) {
		return func(g *plan.Group) {
			g.Collectors, g.Sides[0].Engine.Collectors, g.Sides[1].Engine.Collectors = group, a, b
		}
	}
	g := resolvable(t, with([]plan.Collector{wall}, []plan.Collector{bmc, wall}, []plan.Collector{bmc}))
	var names []string
	for _, c := range g.Collectors {
		names = append(names, c.Name)
	}
	if !slices.Equal(names, []string{"wall", "bmc"}) {
		t.Errorf("got %v, want wall and bmc once each", names)
	}
	other := wall
	other.File = "v.csv"
	e := server()
	_, err := plan.NewGroup(plan.Group{Name: "g", Workload: plan.Workload{Cases: []plan.Case{{Prompts: []plan.Prompt{{Text: "x"}}, MaxTokens: 1}}, Repeat: 1}, Collectors: []plan.Collector{wall},
		Sides: []plan.Side{{Label: "A", Engine: e}, {Label: "B", Engine: func() plan.Engine { e := e; e.Collectors = []plan.Collector{other}; return e }(), Stack: plan.Stack{{Name: "l", Env: map[string]string{"X": "1"}}}}}})
	if err == nil || !strings.Contains(err.Error(), `engine "e" has another collector "wall" than the group`) {
		t.Errorf("got %v, want the two told apart", err)
	}
}

func TestAbsentFlags(t *testing.T) {
	e := plan.Engine{Name: "srv", Command: []string{"srv", "-6", "-ot", "a"}, Bare: []string{"-6"}, Flags: map[string][]string{"-ot": {"--override"}}}
	first := plan.Lever{Name: "first", Without: []string{"-6", "-ot a"}}
	for _, c := range []struct {
		name  string
		stack plan.Stack
		want  []string
	}{
		{"all stand there", plan.Stack{first}, nil},
		{"by another name", plan.Stack{{Name: "l", Without: []string{"--override a"}}}, nil},
		{"none stands there", plan.Stack{{Name: "l", Without: []string{"-7", "-ot b"}}}, []string{`"-7"`, `"-ot b"`}},
		{"set to nothing", plan.Stack{{Name: "l", Args: []plan.Arg{{Flag: "-6", Remove: true}, {Flag: "-8", Remove: true}}}}, []string{`"-8"`}},
		{"an earlier lever took it", plan.Stack{first, {Name: "l", Without: []string{"-6"}}}, []string{`"-6"`}},
	} {
		got := plan.Absent(e, c.stack)
		if len(got) != len(c.want) {
			t.Errorf("%s: got %q, want %d", c.name, got, len(c.want))
			continue
		}
		for i, w := range c.want {
			if !strings.Contains(got[i], "lever l removes "+w+",") {
				t.Errorf("%s: got %q, want it to name %s", c.name, got[i], w)
			}
		}
	}
}
