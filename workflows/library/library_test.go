package library_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.starlark.net/starlark"

	"flow/builtins"
	"flow/starlark/diag"
	"flow/starlark/script"
	"flow/starlark/startest"
	"flow/workflows/library"
	"flow/workflows/record"
)

var update = flag.Bool("update", false, "write the library's page anew")

// newLoader is a loader with the language and the library, over the given files.
func newLoader(files fstest.MapFS) *script.Loader {
	l := &script.Loader{Root: files, Library: library.FS}
	env := builtins.NewEnv()
	env.StandIns = true
	env.Decided = func(g *record.Group) string { return g.Stopped }
	env.Hopeless = func(g *record.Group) string { return g.Reason }
	env.Rules = map[string]func(*record.Group) string{}
	for _, name := range []string{"always_valid", "futile", "equivalent"} {
		env.Rules[name] = func(g *record.Group) string { return g.Reason }
	}
	env.Attach(l)
	return l
}

func files(t *testing.T) []string {
	t.Helper()
	var out []string
	err := fs.WalkDir(library.FS, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".star") {
			out = append(out, name)
		}
		return err
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("walk: %v, %d files", err, len(out))
	}
	return out
}

// Every file loads alone, says what it is, and documents what it gives.
func TestLoads(t *testing.T) {
	for _, name := range files(t) {
		t.Run(name, func(t *testing.T) {
			l := newLoader(nil)
			globals, err := l.Load(t.Context(), "@flow//"+name)
			if err != nil {
				t.Fatal(diag.Format(err))
			}
			text, _ := fs.ReadFile(library.FS, name)
			if !strings.HasPrefix(string(text), `"""`) {
				t.Error("does not begin with a docstring")
			}
			for _, g := range globals.Keys() {
				fn, ok := globals[g].(*starlark.Function)
				if ok && !strings.HasPrefix(g, "_") && fn.Doc() == "" {
					t.Errorf("%s has no docstring", g)
				}
			}
		})
	}
}

// The names that workflows load. Removing one breaks files of people.
func TestNames(t *testing.T) {
	want := map[string][]string{
		"gates.star":             {"all_requests_ok", "clock_agrees", "clock_floor", "cold_prompt_cache", "counts_agree", "disk_quiet", "exact_tokens", "governor_is", "gpu_stays_ours", "host_says", "kernel_log_clean", "lever_confirmed", "memory_floor", "memory_free", "memory_pressure", "no_cpu_throttle", "no_foreign_gpu", "no_foreign_load", "no_foreign_processes", "no_swap_growth", "on_mains", "output_identical", "output_matches", "quarantine", "sensor_ceiling", "sensor_floor", "swap_baseline", "swap_grows", "temperature_band", "thermal_throttle", "throttle_by_cause", "vram_ceiling", "vram_drained", "vram_free"},
		"gates/gpu.star":         {"clock_agrees", "clock_floor", "gpu_stays_ours", "no_foreign_gpu", "thermal_throttle", "throttle_by_cause", "vram_ceiling", "vram_drained", "vram_free"},
		"gates/host.star":        {"disk_quiet", "governor_is", "host_says", "kernel_log_clean", "memory_floor", "memory_free", "memory_pressure", "no_cpu_throttle", "no_foreign_load", "no_foreign_processes", "no_swap_growth", "on_mains", "quarantine", "swap_baseline", "swap_grows", "temperature_band"},
		"collectors.star":        {"ipmi_power", "ipmi_sensors", "meter_http", "meter_serial", "nvidia_smi", "powermetrics", "rocm_smi"},
		"settle.star":            {"clock_up", "cool", "idle", "no_pressure", "swap_below", "unchanging", "vram_below", "warm_band"},
		"host.star":              {"full_speed", "no_surprises", "sustained"},
		"stops.star":             {"after", "always_valid", "budget", "decided", "equivalent", "exactly", "futile", "hopeless"},
		"orders.star":            {"ABAB", "ABBA", "ABBABAAB", "BAAB", "around", "interleaved", "mirrored", "quads", "shared", "thue_morse"},
		"screens.star":           {"fraction", "ladder", "leave_one_out", "noise_floor", "plackett_burman", "qualification", "screen", "shared_controls", "sweep"},
		"select.star":            {"by_expected_gain", "from_history", "next_lever", "race"},
		"bodies.star":            {"standard"},
		"engines/sim.star":       {"sim_bench", "sim_lever", "sim_server"},
		"engines/openai.star":    {"openai_attached", "openai_server"},
		"engines/args.star":      {"counters", "words"},
		"engines/llama_cpp.star": {"llama_bench", "llama_server"},
		"engines/strata.star":    {"strata_as_asked", "strata_lever", "strata_metrics", "strata_server", "strata_tune"},
		"engines/ds4.star":       {"ds4_server"},
		"engines/vllm.star":      {"vllm_server"},
		"engines/sglang.star":    {"sglang_server"},
		"engines/ollama.star":    {"ollama_attached", "ollama_server"},
		"engines/ds4_bench.star": {"ds4_bench", "ds4_cache_honoured", "ds4_metrics", "ds4_tokens_exact"},
	}
	for _, name := range files(t) {
		l := newLoader(nil)
		globals, err := l.Load(t.Context(), "@flow//"+name)
		if err != nil {
			t.Fatal(diag.Format(err))
		}
		var got []string
		for _, g := range globals.Keys() {
			if !strings.HasPrefix(g, "_") {
				got = append(got, g)
			}
		}
		if !slices.Equal(got, want[name]) {
			t.Errorf("%s: got %v, want %v", name, got, want[name])
		}
	}
}

// The page of the library is what its docstrings say. -update writes it anew.
func TestReferenceIsFresh(t *testing.T) {
	const page = "../../cmd/flow/doc/library.md"
	got := reference(t)
	if *update {
		if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(page)
	if err != nil || string(want) != got {
		t.Errorf("%s is not what the library says (%v): go test ./workflows/library -run Reference -update", page, err)
	}
}

func reference(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Library\n\nFunctions written in Starlark on top of the builtins: load them, read them, copy them. This page is generated.\n")
	for _, name := range files(t) {
		l := newLoader(nil)
		globals, err := l.Load(t.Context(), "@flow//"+name)
		if err != nil {
			t.Fatal(diag.Format(err))
		}
		text, _ := fs.ReadFile(library.FS, name)
		intro, _, _ := strings.Cut(strings.TrimPrefix(string(text), `"""`), `"""`)
		fmt.Fprintf(&b, "\n## @flow//%s\n\n%s\n", name, strings.TrimSpace(intro))
		for _, g := range globals.Keys() {
			fn, ok := globals[g].(*starlark.Function)
			if !ok || strings.HasPrefix(g, "_") || fn.Position().Filename() != "@flow//"+name {
				continue
			}
			fmt.Fprintf(&b, "\n### %s\n\n```python\nload(\"@flow//%s\", \"%s\")\n%s\n```\n\n%s\n", g, name, g, signature(fn), docstring(fn.Doc()))
		}
	}
	return b.String()
}

// signature is how a function is called.
func signature(fn *starlark.Function) string {
	var parts []string
	n := fn.NumParams()
	if fn.HasKwargs() {
		n--
	}
	for i := range n {
		p, _ := fn.Param(i)
		if d := fn.ParamDefault(i); d != nil {
			p += "=" + d.String()
		}
		parts = append(parts, p)
	}
	if fn.HasKwargs() {
		parts = append(parts, "**kwargs")
	}
	return fn.Name() + "(" + strings.Join(parts, ", ") + ")"
}

// docstring makes a list of the lines below Args:.
func docstring(s string) string {
	var out []string
	args := false
	for _, line := range strings.Split(s, "\n") {
		bare := strings.TrimSpace(line)
		switch {
		case bare == "Args:":
			args = true
			continue
		case args && strings.HasPrefix(line, "      "):
			name, doc, _ := strings.Cut(bare, ": ")
			bare = "- `" + name + "`: " + doc
		}
		out = append(out, bare)
	}
	return strings.TrimSpace(strings.Join(out, "\n"))
}

// The example of the design loads, and every group it can make is accepted.
func TestStackScreen(t *testing.T) {
	l := newLoader(fstest.MapFS{"stack-screen.star": {Data: []byte(stackScreen)}})
	globals, err := l.Load(t.Context(), "stack-screen.star")
	if err != nil {
		t.Fatal(diag.Format(err))
	}
	s := &past{best: map[string]string{"flash-attn": record.Better, "ubatch-1024": record.Equivalent, "threads-2": record.Better}}
	if _, err := l.Call(t.Context(), "", globals["main"].(starlark.Callable), starlark.Tuple{builtins.SessionValue(l, s)}, nil); err != nil {
		t.Fatal(diag.Format(err))
	}
	want := []string{
		"screen flash-attn on (none)", "screen ubatch-1024 on flash-attn", "screen threads-2 on flash-attn",
		"qualification flash-attn+threads-2 on (none)",
	}
	if !slices.Equal(s.ran, want) {
		t.Errorf("ran %q, want %q", s.ran, want)
	}
}

func TestOrders(t *testing.T)    { runStar(t, "orders_test.star") }
func TestSelect(t *testing.T)    { runStar(t, "select_test.star") }
func TestEngines(t *testing.T)   { runStar(t, "engines_test.star") }
func TestScreens(t *testing.T)   { runStar(t, "screens_test.star") }
func TestGates(t *testing.T)     { runStar(t, "gates_test.star") }
func TestHostGates(t *testing.T) { runStar(t, "host_gates_test.star") }
func TestStops(t *testing.T)     { runStar(t, "stops_test.star") }

func runStar(t *testing.T, name string) {
	t.Helper()
	text, err := fs.ReadFile(testdata, "testdata/"+name)
	if err != nil {
		t.Fatal(err)
	}
	l := newLoader(fstest.MapFS{name: {Data: text}})
	addFakes(l)
	startest.Run(t, l, name)
}
