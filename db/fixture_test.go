package db

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"testing"

	"flow/workflows/record"
)

func ptr[T any](v T) *T { return &v }

// open makes a database in a fresh folder and closes it with the test.
func open(t testing.TB) *DB {
	t.Helper()
	d, err := Open(context.Background(), filepath.Join(t.TempDir(), "flow.db"))
	if err != nil {
		t.Fatal(err)
	}
	d.Now = func() int64 { return 1_000 }
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hour is a place in time for made-up sessions: 2026-01-01 plus n hours.
func hour(n int) int64 { return 1_767_225_600_000_000_000 + int64(n)*3_600_000_000_000 }

func session(id string, n int) *record.Session {
	return &record.Session{
		ID: id, Workflow: "stack-screen.star", Status: "running", Seed: 1<<63 + 7, Measurer: record.MeasurerReal,
		Params:      map[string]string{"model": `"m.gguf"`},
		Sources:     []record.Source{{Label: "stack-screen.star", SHA256: "aa", Text: "def main(session): pass\n"}, {Label: "prompts/main.txt", SHA256: "bb"}},
		Machine:     record.Machine{ID: "machine-1", Host: "bench", Facts: map[string]string{"cpu_model": "Xeon", "gpu0": "RTX"}},
		FlowVersion: "0.1", Dialect: "d1", WallStartNS: hour(n), MonoStartNS: 5, OffsetStartNS: hour(n) - 5,
	}
}

func lever(name string) record.Lever {
	return record.Lever{Name: name, Change: `{"args":["-x"]}`, Hash: "hash-" + name, Declared: fmt.Sprintf(`{"name":%q}`, name)}
}

// group is a screen of what side B has over the base.
func group(session, id string, n int, base, added []record.Lever) *record.Group {
	return &record.Group{
		ID: id, SessionID: session, Index: n, Name: "screen " + id, Role: record.RoleScreen, Seed: 1<<64 - 1, Declared: "d", Resolved: "r",
		Engine: "engine-1", Workload: "work-1", Model: "model-1", Control: "A", Primary: "decode_tok_s", Better: "higher", MinEffect: .01, Cap: 4,
		Sides: []record.Side{
			{Label: "A", Engine: "llama", Stack: base, Command: record.Command{Argv: []string{"llama-server"}}, Control: true},
			{Label: "B", Engine: "llama", Stack: append(append([]record.Lever{}, base...), added...), Command: record.Command{Argv: []string{"llama-server", "-x"}}},
		},
		Gates:       []record.GateSpec{{Name: "no_swap_growth", Kind: "gate", Phase: "after", Scope: "arm", Required: true, Params: `{"mib":0}`}},
		WallStartNS: hour(n),
	}
}

// armOf is an ok arm with two requests, metrics, evidence, findings and samples of two sensors.
func armOf(g *record.Group, label string, seq int, value float64) *record.Arm {
	a := &record.Arm{
		ID: fmt.Sprintf("%s-arm-%02d", g.ID, seq), GroupID: g.ID, Label: label, Block: seq / 4, Slot: seq % 4, Seq: seq,
		Purpose: "measured", Disposition: record.OK, WallStartNS: g.WallStartNS + int64(seq)*1e9, MonoStartNS: int64(seq) * 1e9, MonoEndNS: int64(seq)*1e9 + 9e8, OverheadNS: 1e6,
		Process: &record.Process{Argv: []string{"llama-server"}, Env: map[string]string{"A": "1"}, Pid: 42, LaunchNS: 10, ReadyNS: 2_000_010, ExitCode: ptr(0), Version: "b1", Log: "listening\n", LogBytes: 10},
		Steps:   []record.Step{{Name: "launch", StartNS: 1, EndNS: 2}, {Name: "measure", StartNS: 2, EndNS: 9}},
		Metrics: []record.Metric{{Name: "decode_tok_s", Unit: "tok/s", Better: "higher", Source: "client clock", Value: ptr(value), N: 2},
			{Name: "ttft_ms", Unit: "ms", Source: "client clock", Value: ptr(12.5), N: 2}, {Name: "wall_energy_j", Unit: "J", Source: "meter", Why: "no meter"}},
		Evidence: []record.Evidence{{Lever: "fa", Kind: "log", What: "flash", When: "ready", Found: label != "A", Observed: "flash_attn = enabled"}},
		Findings: []record.Finding{{Gate: "no_swap_growth", Phase: "after", Outcome: record.Pass, Observed: "0 MiB", Limit: "0 MiB", Required: true}},
		Samples: []record.Sample{{Sensor: "psi.cpu", MonoNS: 3, Value: 2}, {Sensor: "power_w", MonoNS: 2, Value: 100}, {Sensor: "power_w", MonoNS: 4, Value: 120},
			{Sensor: "psi.cpu", MonoNS: 1, Value: 1}},
		Summaries: []record.Summary{{Sensor: "power_w", Phase: "measure", N: 2, Coverage: .5, Mean: ptr(110.), Min: ptr(100.), Max: ptr(120.), Growth: ptr(20.), Why: "2 samples: p50 wants 3"}},
	}
	for i := range 2 {
		a.Requests = append(a.Requests, record.Request{
			Index: i, Mark: []string{record.MarkWarm, record.MarkMeasured}[i], Status: "ok", PromptSHA: "p", SentNS: ptr(int64(100)), FirstContentNS: ptr(int64(1_000_100)),
			LastContentNS: ptr(int64(5_000_100)), StampSource: "read", Frames: 3, ContentFrames: 2, ArrivalsUS: []int64{10, 20, 30}, CompletionTokens: ptr(200),
			Text: "the same completion", TextSHA: "t", FinishReason: "length", Values: []record.Metric{{Name: "ttft_ms", Unit: "ms", Source: "client clock", Value: ptr(12.5)}},
		})
	}
	return a
}

// end gives a group its verdict with a comparison of B.
func end(g *record.Group, verdict string, effect float64) {
	g.Verdict, g.Reason, g.WallEndNS = verdict, "because", ptr(g.WallStartNS+int64(1e9))
	g.Warnings = []string{"two runs of side B: an observed range", "1 quad"}
	g.Comparisons = []record.Comparison{{Side: "B", Control: "A", Metric: "decode_tok_s", Verdict: verdict, NControl: 2, NSide: 2, MedianControl: ptr(100.), MedianSide: ptr(100 * (1 + effect)),
		Estimate: &record.Estimate{Method: "quad", Effect: effect, Log: effect, SE: ptr(.001), DF: 2, Level: .95, Low: ptr(effect - .01), High: ptr(effect + .01), Blocks: 1}}}
}

// fill records a session with one finished group of a quad.
func fill(t testing.TB, d *DB, id string, n int, verdict string) *record.Group {
	t.Helper()
	ctx := context.Background()
	s := session(id, n)
	must(t, d.BeginSession(ctx, s))
	g := group(id, id+"-g", n, nil, []record.Lever{lever("fa")})
	must(t, d.BeginGroup(ctx, g))
	for i, v := range []float64{100, 110, 112, 101} {
		a := armOf(g, []string{"A", "B", "B", "A"}[i], i, v)
		must(t, d.EndArm(ctx, a))
		must(t, d.JudgeArm(ctx, a))
		g.Arms = append(g.Arms, a)
	}
	end(g, verdict, .1)
	must(t, d.EndGroup(ctx, g))
	s.Status, s.Exit, s.WallEndNS = "done", ptr(0), ptr(hour(n)+int64(60e9))
	must(t, d.EndSession(ctx, s))
	return g
}

// filled sets every field of v that a record can hold to something that is not its zero, so that a field
// that the database forgets shows as a difference.
func filled(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", *n))
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(int64(*n))
	case reflect.Uint64:
		v.SetUint(1<<63 + uint64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) + .5)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			filled(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			filled(k, n)
			filled(e, n)
			v.SetMapIndex(k, e)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Name != "Arms" && f.Name != "Group" && f.Name != "GroupOf" && f.Name != "ArmOf" {
				filled(v.Field(i), n)
			}
		}
	}
}
