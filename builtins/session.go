package builtins

// session: whatever touches the machine or the past. flow passes it to main; it cannot be captured.

import (
	"errors"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"flow/starlark/diag"
	"flow/starlark/script"
	"flow/starlark/value"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// handle is a capability: session, arm or process.
type handle struct {
	name   string
	shown  string
	impl   any
	env    *Env
	fields map[string]func() starlark.Value
}

var _ script.Capability = (*handle)(nil)

func (h *handle) String() string       { return h.name + "(" + h.shown + ")" }
func (h *handle) Type() string         { return h.name }
func (h *handle) Freeze()              {}
func (h *handle) Truth() starlark.Bool { return true }
func (h *handle) Hash() (uint32, error) {
	return 0, fmt.Errorf("unhashable: %s", h.name)
}

// Capability is what it is called when a function captures it.
func (h *handle) Capability() string { return h.name }

// Attr is a method or a field.
func (h *handle) Attr(name string) (starlark.Value, error) {
	if b, ok := h.env.methods[h.name][name]; ok {
		return b.bind(h.env, h), nil
	}
	if f, ok := h.fields[name]; ok {
		return f(), nil
	}
	return nil, nil
}

// AttrNames is every method and field.
func (h *handle) AttrNames() []string {
	var out []string
	for n := range h.env.methods[h.name] {
		out = append(out, n)
	}
	for n := range h.fields {
		out = append(out, n)
	}
	return sorted(out)
}

// SessionValue is what main gets. From here on print is silent while results come from the journal.
func SessionValue(l *script.Loader, s Session) starlark.Value {
	value := &handle{name: "session", impl: s, env: envOf(l)}
	if l.Print == nil {
		return value // nothing prints: several sessions may share the loader at once
	}
	type printer = func(diag.Pos, string)
	const key = "builtins.print"
	if l.Locals == nil {
		l.Locals = map[string]any{}
	}
	plain, ok := l.Locals[key].(printer)
	if !ok {
		plain = l.Print
		l.Locals[key] = plain
	}
	l.Print = func(pos diag.Pos, msg string) {
		if plain != nil && !s.Replaying() {
			plain(pos, msg)
		}
	}
	return value
}

// effect gives an error of an effect the user's line, when it is one of ours without a place. Others pass as they are: they
// carry what ended the session.
func (c *Call) effect(err error) error {
	var d *diag.Error
	if errors.As(err, &d) && d.Pos.IsZero() {
		located := *d
		located.Pos = c.Pos()
		return &located
	}
	return err
}

func sessionFamily() Family {
	return Family{"Session", "What main(session) can do. Every call but session.budget is one effect: it is journaled with its result, and a resumed session gets the same result back.", []Builtin{
		{
			Name: "session.run",
			Doc: "Runs a group and returns its record with the verdict; a list of groups gives a list. Groups that end invalid or infeasible are results too: " +
				"branch on result.verdict, which is better, worse, equivalent, inconclusive, invalid or infeasible.",
			Example: `result = session.run(my_group)
print(result.name, result.verdict, fixed(result.effect, 3))`,
			Func: sessionRun,
		}, {
			Name:    "session.query",
			Doc:     "Rows of a SQL query over the public views (sessions, groups, arms, requests, metrics, samples, gates, pairs, levers, gains, champions, noise), at most 10,000. Named parameters are keywords.",
			Example: `rows = session.query("select name, verdict from groups where role = :role", role = "screen")`,
			Func:    sessionQuery,
		}, {
			Name: "session.history",
			Doc: "Finished comparisons of a lever, or of all, on this machine, newest first: rows with lever, lever_hash, session, group_id, role, verdict, reason, effect, low, high, " +
				"stack, base (JSON list of the base's lever hashes), engine, workload, this_session.",
			Example: `seen = [row.verdict for row in session.history(my_lever)]`,
			Func:    sessionHistory,
		}, {
			Name:    "session.champion",
			Doc:     "The best qualified stack for an engine and a workload on this machine, as a list of levers; empty when there is none.",
			Example: `stack = session.champion(engine = my_engine, workload = my_work)`,
			Func:    sessionChampion,
		}, {
			Name:    "session.read",
			Doc:     "One reading of each sensor now, as a dict from sensor to value.",
			Example: `free = session.read("meminfo.available_mib")`,
			Func:    sessionRead,
		}, {
			Name: "session.wait_until",
			Doc:  "Waits until a check of the machine passes; False when it did not in time. The check gets an arm's record that has samples only, as a before-gate does, and returns ok(), bad() or unmeasured().",
			Example: `def _quiet(arm):
    busy = arm.last("loadavg.1m")
    return ok(observed = busy) if busy != None and busy < 1 else bad(observed = busy, limit = 1)

def main(session):
    session.wait_until(_quiet, timeout = "1s", needs = ["loadavg.1m"])`,
			Func: sessionWaitUntil,
		}, {
			Name: "session.budget",
			Doc: "What the arms of the session may take together. Where it is spent, or the next block would go beyond it, the session ends with exit code 4 and can be resumed: " +
				"groups that ended keep their verdicts, and the one under way has none until it is finished. Arms of before an interruption count, so a resumed session goes on " +
				"only when the budget was raised. This call is no effect: it may change between a run and its resume, and the latest one counts.",
			Example: `session.budget(time = "8h", arms = 200)`,
			Func:    sessionBudget,
		}, {
			Name:    "session.note",
			Doc:     "Keeps a remark with the session.",
			Example: `session.note("the room is 27 °C today")`,
			Func: func(c *Call) (starlark.Value, error) {
				var s string
				if err := c.Unpack(1, value.Param{Name: "text", Required: true, Into: nonEmpty(&s), Doc: "the remark"}); err != nil {
					return nil, err
				}
				return starlark.None, c.effect(c.session().Note(c.context(), s))
			},
		},
	}}
}

// rows is a table, an empty one when there is none.
func rows(t *record.Table) (starlark.Value, error) {
	if t == nil {
		t = &record.Table{}
	}
	return value.TableFromGo("row", t.Columns, t.Rows)
}

func (c *Call) session() Session { return c.Recv.(*handle).impl.(Session) }

func sessionRun(c *Call) (starlark.Value, error) {
	var groups []*plan.Group
	var one bool
	err := c.Unpack(1, value.Param{Name: "groups", Required: true, Doc: "a group, or a list of groups", Into: value.Func("group or list of groups", func(v starlark.Value) error {
		one = v.Type() == "group"
		return listOf(groupKind, &groups, true).Unpack(v)
	})})
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		return frozen(nil), nil
	}
	results, err := c.session().Run(c.context(), groups)
	if err != nil {
		return nil, c.effect(err)
	}
	out := make([]starlark.Value, len(results))
	for i, g := range results {
		out[i] = newGroupRecord(c.env, g, view{})
	}
	if one {
		if len(out) != 1 {
			return nil, fmt.Errorf("session.run gave %d results for one group", len(out))
		}
		return out[0], nil
	}
	return frozen(out), nil
}

func sessionBudget(c *Call) (starlark.Value, error) {
	var b record.Budget
	var long time.Duration
	var timed, metered, counted bool
	if err := c.Unpack(0,
		value.Param{Name: "time", Default: "None", Into: said(&timed, value.Duration(&long)), Doc: "of arms that ran, settling included"},
		value.Param{Name: "energy_j", Default: "None", Into: said(&metered, value.Float(&b.Joules)), Doc: "joules: the sum of the metrics *.energy_j, which are of measured steps"},
		value.Param{Name: "arms", Default: "None", Into: said(&counted, value.Int(&b.Arms)), Doc: "arms; warm ones, probes and those of redone blocks count"},
	); err != nil {
		return nil, err
	}
	const fix = `session.budget(time = "8h")`
	if !timed && !metered && !counted {
		return nil, c.Errorf(fix, "a budget of nothing: say time =, energy_j = or arms =")
	}
	b.Seconds = long.Seconds()
	if timed && b.Seconds <= 0 || metered && !(b.Joules > 0) || counted && b.Arms <= 0 {
		return nil, c.Errorf(fix, "got a budget of 0 or less, want more")
	}
	if timed && long < time.Second {
		return nil, c.Errorf(fix, "got a budget of %s, want at least 1s: starting an engine takes longer", long)
	}
	return starlark.None, c.effect(c.session().Budget(c.context(), b))
}

func sessionQuery(c *Call) (starlark.Value, error) {
	var sql string
	var named []starlark.Tuple
	err := c.unpack(value.Signature{Name: c.Name, Positional: 1, Kwargs: &named, Params: []value.Param{
		{Name: "sql", Required: true, Into: nonEmpty(&sql), Doc: "one SELECT; :name stands for the keyword argument of that name"},
	}})
	if err != nil {
		return nil, err
	}
	params := map[string]any{}
	for _, kv := range named {
		name, _ := starlark.AsString(kv[0])
		x, err := value.ToGo(kv[1])
		if err == nil {
			switch x.(type) {
			case nil, string, bool, int, int64, float64:
			default:
				err = fmt.Errorf("got %s, want string, number, bool or None", kv[1].Type())
			}
		}
		if err != nil {
			return nil, c.Errorf("pass plain values, such as lever.name", "for parameter %q: %v", name, err)
		}
		params[name] = x
	}
	t, err := c.session().Query(c.context(), sql, params)
	if err != nil {
		return nil, c.effect(err)
	}
	return rows(t)
}

func sessionHistory(c *Call) (starlark.Value, error) {
	var scope HistoryScope
	err := c.Unpack(1,
		value.Param{Name: "lever", Default: "None", Into: pointTo(leverKind, &scope.Lever), Doc: "only this lever, by its name and change"},
		value.Param{Name: "engine", Default: "None", Into: pointTo(engineKind, &scope.Engine), Doc: "only on this engine"},
		value.Param{Name: "workload", Default: "None", Into: pointTo(workloadKind, &scope.Workload), Doc: "only with this workload"},
	)
	if err != nil {
		return nil, err
	}
	t, err := c.session().History(c.context(), scope)
	if err != nil {
		return nil, c.effect(err)
	}
	return rows(t)
}

func sessionChampion(c *Call) (starlark.Value, error) {
	var e plan.Engine
	var w plan.Workload
	var below plan.Stack
	err := c.Unpack(0,
		value.Param{Name: "engine", Required: true, Into: engineOrProfile(&e, &below), Doc: "the engine"},
		value.Param{Name: "workload", Required: true, Into: into(workloadKind, &w), Doc: "the workload"},
	)
	if err != nil {
		return nil, err
	}
	s, err := c.session().Champion(c.context(), e, w)
	if err != nil {
		return nil, c.effect(err)
	}
	return stackValue(s), nil
}

func sessionRead(c *Call) (starlark.Value, error) {
	var names starlark.Tuple
	if err := c.unpack(value.Signature{Name: c.Name, Args: &names}); err != nil {
		return nil, err
	}
	var sensors []string
	for i, v := range names {
		s, ok := starlark.AsString(v)
		if !ok || s == "" {
			return nil, c.Errorf(`session.read("meminfo.available_mib")`, "argument %d: got %s, want the name of a sensor", i+1, v.Type())
		}
		sensors = append(sensors, s)
	}
	if len(sensors) == 0 {
		return nil, c.Errorf(`session.read("meminfo.available_mib")`, "names no sensor")
	}
	samples, err := c.session().Read(c.context(), sensors)
	if err != nil {
		return nil, c.effect(err)
	}
	return readings(samples), nil
}

// readings is the last value of each sensor.
func readings(samples []record.Sample) starlark.Value {
	d := starlark.NewDict(len(samples))
	for _, s := range samples {
		_ = d.SetKey(text(s.Sensor), starlark.Float(s.Value))
	}
	d.Freeze()
	return d
}

func sessionWaitUntil(c *Call) (starlark.Value, error) {
	var check starlark.Value
	timeout := 5 * time.Minute
	var needs []string
	err := c.Unpack(1,
		value.Param{Name: "check", Required: true, Into: value.Any(&check), Doc: "a gate, or a function as a gate's check"},
		value.Param{Name: "timeout", Default: `"5m"`, Into: value.Duration(&timeout), Doc: "how long to wait"},
		value.Param{Name: "needs", Default: "[]", Into: value.Strings(&needs), Doc: "sensors that are read; a gate brings its own"},
	)
	if err != nil {
		return nil, err
	}
	g := plan.Gate{Name: "wait_until", Phase: plan.PhaseBefore, Scope: "arm", Required: true}
	switch x := check.(type) {
	case *Decl[plan.Gate]:
		g = x.V
	case starlark.Callable:
		if g.Code, err = c.code("wait_until", x); err != nil {
			return nil, err
		}
		g.Check = checkOf(c.loader(), g, x)
	default:
		return nil, c.Errorf("session.wait_until(my_check, timeout = \"5m\", needs = [\"loadavg.1m\"])", "for parameter \"check\": got %s, want gate or function", check.Type())
	}
	met, err := c.session().WaitUntil(c.context(), g.Check, g.Code, append(needs, g.Needs...), timeout)
	if err != nil {
		return nil, c.effect(err)
	}
	return starlark.Bool(met), nil
}
