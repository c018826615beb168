package library_test

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"flow/builtins"
	"flow/starlark/script"
	"flow/starlark/value"
	"flow/workflows/plan"
	"flow/workflows/record"
)

//go:embed testdata
var testdata embed.FS

const stackScreen = `"""Screen three llama.cpp levers one at a time, then qualify the stack."""

load("@flow//engines/llama_cpp.star", "llama_server")
load("@flow//gates.star", "cold_prompt_cache", "counts_agree", "no_swap_growth", "output_identical")
load("@flow//screens.star", "qualification", "screen")
load("@flow//select.star", "next_lever")
load("@flow//stops.star", "after", "decided", "hopeless")

model = param("model", type = "path", help = "GGUF file to serve")
tokens = param("tokens", default = 200, help = "tokens per request")

llama = llama_server(model = model, ctx = 4096, args = {"-fa": "off", "-ub": 512, "-t": 1})
work = workload(prompt = prompt_file("prompts/main.txt"), max_tokens = tokens, nonce = True, repeat = 3)
gates = [output_identical(), counts_agree(within = "3%"), cold_prompt_cache(), no_swap_growth()]  # identical unless a lever says it changes the text

levers = [
    lever("flash-attn", args = {"-fa": "on"}, changes_output = True, confirm = confirm.log(r"flash_attn\s*=\s*enabled\b")),
    lever("ubatch-1024", args = {"-ub": 1024}, confirm = confirm.log(r"n_ubatch\s*=\s*1024\b")),
    lever("threads-2", args = {"-t": 2}, changes_output = True, confirm = confirm.log(r"system_info: n_threads\s*=\s*2\b")),
]

def main(session):
    stack = session.champion(engine = llama, workload = work)
    for _ in levers:
        choice = next_lever(session, levers, stack = stack)
        if choice == None:
            break
        result = session.run(screen(choice, base = stack, engine = llama, workload = work, gates = gates,
                                    min_effect = "1%", stops = [decided(), hopeless(), after(blocks = 4)]))
        if result.verdict == "better":
            stack = stack + [choice]
    if stack:
        session.run(qualification(stack, engine = llama, workload = work, gates = gates))
`

// past is a session that answers from a table of verdicts and remembers what it ran.
type past struct {
	best map[string]string // lever to verdict
	ran  []string
	rows [][]any
}

var columns = []string{"lever", "lever_hash", "session", "group_id", "role", "verdict", "reason", "effect", "low", "high", "stack", "base", "engine", "workload", "this_session"}

func (p *past) add(l plan.Lever, base plan.Stack, role, verdict string, here bool) {
	hashes := []string{}
	for _, b := range base {
		hashes = append(hashes, b.Key())
	}
	text, _ := json.Marshal(hashes)
	p.rows = append([][]any{{l.Name, l.Key(), "s", "g", role, verdict, nil, nil, nil, nil, base.Names(), string(text), "e", "w", here}}, p.rows...)
}

func (p *past) Run(_ context.Context, groups []*plan.Group) ([]*record.Group, error) {
	var out []*record.Group
	for _, g := range groups {
		base, added := g.Sides[0].Stack, g.Sides[1].Stack
		p.ran = append(p.ran, g.Role+" "+added[len(base):].Names()+" on "+base.Names())
		if g.Role == record.RoleScreen {
			p.add(added[len(base)], base, g.Role, p.best[added[len(base)].Name], true)
		}
		out = append(out, &record.Group{Name: g.Name, Verdict: p.best[added[len(added)-1].Name]})
	}
	return out, nil
}
func (p *past) Query(context.Context, string, map[string]any) (*record.Table, error) {
	return &record.Table{}, nil
}
func (p *past) History(_ context.Context, scope builtins.HistoryScope) (*record.Table, error) {
	return &record.Table{Columns: columns, Rows: p.rows}, nil
}
func (p *past) Champion(context.Context, plan.Engine, plan.Workload) (plan.Stack, error) {
	return nil, nil
}
func (p *past) Read(context.Context, []string) ([]record.Sample, error) { return nil, nil }
func (p *past) WaitUntil(context.Context, plan.Check, plan.Code, []string, time.Duration) (bool, error) {
	return true, nil
}
func (p *past) Note(context.Context, string) error { return nil }

func (p *past) Budget(context.Context, record.Budget) error { return nil }
func (p *past) Replaying() bool                             { return false }

// addFakes gives .star tests what makes records by hand:
//
//	judge(gate, arm, group = …)  the finding's outcome and reason, of JSON records
//	ask(stop, group)             the stop's reason, "" to go on
//	session(tried = [(lever, base, role, verdict, here), …])
func addFakes(l *script.Loader) {
	l.Predeclared["judge"] = starlark.NewBuiltin("judge", func(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var gate starlark.Value
		var arms starlark.Value
		var group starlark.Value = starlark.None
		if err := starlark.UnpackArgs("judge", args, kwargs, "gate", &gate, "arms", &arms, "group?", &group); err != nil {
			return nil, err
		}
		d, ok := gate.(*builtins.Decl[plan.Gate])
		if !ok {
			return nil, fmt.Errorf("got %s, want gate", gate.Type())
		}
		g := &record.Group{}
		if err := fill(group, g); err != nil {
			return nil, err
		}
		if err := fill(arms, &g.Arms); err != nil {
			return nil, err
		}
		for i, a := range g.Arms {
			a.Seq, a.Group = i, g
			if a.Disposition == "" && i < len(g.Arms)-1 {
				a.Disposition = record.OK
			}
		}
		if err := samplesOf(arms, g.Arms); err != nil {
			return nil, err
		}
		f, err := d.V.Check(script.Context(t), g.Arms[len(g.Arms)-1])
		if err != nil {
			return nil, err
		}
		return starlark.String(strings.TrimSpace(f.Outcome + " " + f.Observed + " " + f.Reason)), nil
	})
	l.Predeclared["ask"] = starlark.NewBuiltin("ask", func(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var stop, group starlark.Value
		if err := starlark.UnpackArgs("ask", args, kwargs, "stop", &stop, "group", &group); err != nil {
			return nil, err
		}
		d, ok := stop.(*builtins.Decl[plan.Stop])
		if !ok {
			return nil, fmt.Errorf("got %s, want stop", stop.Type())
		}
		g := &record.Group{}
		if err := fill(group, g); err != nil {
			return nil, err
		}
		why, err := d.V.Rule(script.Context(t), g)
		return starlark.String(why), err
	})
	l.Predeclared["session"] = starlark.NewBuiltin("session", func(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var tried *starlark.List
		if err := starlark.UnpackArgs("session", args, kwargs, "tried", &tried); err != nil {
			return nil, err
		}
		p := &past{}
		for i := range tried.Len() {
			row := tried.Index(i).(starlark.Tuple)
			var base plan.Stack
			list := row[1].(*starlark.List)
			for j := range list.Len() {
				base = append(base, list.Index(j).(*builtins.Decl[plan.Lever]).V)
			}
			role, _ := starlark.AsString(row[2])
			verdict, _ := starlark.AsString(row[3])
			p.add(row[0].(*builtins.Decl[plan.Lever]).V, base, role, verdict, bool(row[4].(starlark.Bool)))
		}
		return builtins.SessionValue(l, p), nil
	})
}

// fill decodes a Starlark value into a record by way of JSON.
func fill(v starlark.Value, into any) error {
	if v == starlark.None {
		return nil
	}
	s, err := value.ToJSON(v)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(s), into)
}

// samplesOf reads what records keep apart: "samples": {sensor: [values]} of each arm, a second apart, and "log".
func samplesOf(arms starlark.Value, into []*record.Arm) error {
	var each []struct {
		Samples map[string][]float64 `json:"samples"`
		Log     string               `json:"log"`
	}
	if err := fill(arms, &each); err != nil {
		return err
	}
	for i, a := range into {
		if each[i].Log != "" {
			a.Process = &record.Process{Log: each[i].Log}
		}
		for sensor, values := range each[i].Samples {
			for j, v := range values {
				a.Samples = append(a.Samples, record.Sample{Sensor: sensor, MonoNS: a.MonoStartNS + int64(j)*int64(time.Second), Value: v})
			}
		}
	}
	return nil
}
