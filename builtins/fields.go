package builtins

// The fields of what session.run returns and gates get, said one by one.

import (
	"fmt"
	"slices"
	"strings"

	"flow/workflows/record"
)

// Record is a kind of record with its fields.
type Record struct {
	Name   string // as flow builtins finds it
	Doc    string
	Fields []RecordField
}

// RecordField is one field and what it is.
type RecordField struct{ Name, Doc string }

// Records are the kinds of records that workflows read.
func Records() []Record {
	env := NewEnv()
	group := newGroupRecord(env, &record.Group{}, view{})
	comparison := comparisonRecord(env, &record.Comparison{}).(*fact)
	arm := armOf(env, &record.Arm{}, nil, view{})
	fields := func(names []string, docs map[string]string) []RecordField {
		var out []RecordField
		for _, n := range names {
			if _, method := env.methods["record"][n]; !method || docs[n] != "" {
				out = append(out, RecordField{n, docs[n]})
			}
		}
		return out
	}
	return []Record{
		{"result", "What session.run returns, and what gates and stops get as the group so far. What was not measured is None.", fields(group.AttrNames(), groupDocs)},
		{"comparison", "One side against the control, on one metric and case: an element of result.comparisons. Effects are ratios less one: 0.02 is +2 %.", fields(comparison.AttrNames(), comparisonDocs)},
		{"arm record", "One execution of one side: an element of result.arms, and what a gate's check gets. Its methods (metric, sensor, growth, …) are in the family Records.", fields(arm.fact.AttrNames(), armDocs)},
		{"metric record", "A named number: an element of arm.metrics.", fields(newFact(env, "metric", record.Metric{}).AttrNames(), metricDocs)},
	}
}

var groupDocs = map[string]string{
	"verdict": "better, worse, equivalent, inconclusive, invalid or infeasible", "reason": "the verdict in words", "effect": "of the first comparison on the primary metric, a ratio less one",
	"low": "lower end of its interval", "high": "upper end of its interval", "comparisons": "list of comparison records: one per side, case and metric, costs included", "steps": "list of comparison records of a ladder that adds up: each rung against the one before it; else empty", "seconds": "what all its arms took together, settling included", "energy_j": "sum of the metrics *.energy_j of all its arms; None where a measured one has none", "arms": "list of arm records in time, all attempts",
	"sides": "list of side records, the control first", "control": "label of the control", "levers": "names of the levers that the group tests", "blocks": "blocks that count so far",
	"primary": "the metric that the verdict is about", "better": "higher or lower", "min_effect": "smallest effect worth having, a ratio", "superior": "whether the whole interval must lie beyond min_effect",
	"warnings": "list of texts: what qualifies the verdict", "stopped": "what ended the group", "name": "of the group", "role": "screen, qualification, ladder, noise-floor or sweep", "order": "labels in time; \"\" is alternating quads",
	"design": "the factorial design, None for sides against the control", "cap": "most blocks", "seed": "of orders and nonces", "costs": "dict from metric to limit as a ratio", "costs_shown": "metrics that are only reported",
	"case_rule": "all, worst or each", "cold": "whether nothing ran before its first arm", "sequential": "whether a stop looks at results", "noise": "what was known of noise before it began", "gates": "gates and guards with their thresholds",
	"stops": "names of stops with their parameters", "pos": "the line that made it", "id": "of the record", "session_id": "of its session", "index": "in the session, from 0", "declared": "hash of what the file says",
	"resolved": "hash that knows the files, too", "engine": "hash of the control's engine", "workload": "hash", "model": "SHA-256 of the model", "wall_start_ns": "begin, Unix time", "wall_end_ns": "end, Unix time",
}

var comparisonDocs = map[string]string{
	"side": "label", "control": "label of what it is held against", "case": "of the workload, \"\" when there is one", "metric": "name", "verdict": "of this comparison", "reason": "in words",
	"effect": "a ratio less one", "low": "lower end of the interval", "high": "upper end of the interval", "se": "standard error of the logarithm", "df": "degrees of freedom", "level": "of the interval: 0.95 unless a stop looks at results",
	"n_blocks": "blocks behind the estimate", "estimate": "the whole estimate, None where there is nothing to estimate from", "median_control": "median of the control's arms", "median_side": "median of the side's arms",
	"range_control": "least and greatest arm of the control", "range_side": "least and greatest arm of the side", "gain_of_medians_pct": "100 · (side / control − 1) of the medians, as the field publishes it: positive is more, not better",
	"pair_deltas": "side less control of neighbouring arms, in the metric's unit", "n_control": "arms of the control", "n_side": "arms of the side", "blocks_needed": "more blocks until min_effect can be shown",
	"cost": "whether it is a secondary metric, from costs =", "cost_broken": "whether a cost is beyond its limit",
}

var armDocs = map[string]string{
	"label": "of its side", "side": "its side record", "levers": "names of its levers", "changes_output": "names of those that may change the text", "index": "in the group, from 0", "seq": "the same",
	"block": "from 0; −1 outside blocks", "slot": "in the block", "attempt": "of the block", "purpose": "measured, warm, probe, …", "disposition": "ok, invalid, failed, infeasible, interrupted or superseded", "reason": "why it does not count",
	"metrics": "list of metric records; arm.metric(NAME) gives a value", "requests": "list of request records: status, ttft_ms and others in values, token counts, stamps", "evidence": "what was read to prove levers: lever, kind, what, found, observed",
	"findings": "of its gates: gate, outcome, observed, limit, reason", "steps": "name, start_ns, end_ns", "execs": "of arm.exec", "process": "argv, env, pid, exit_code, …", "log": "the engine's log, in gates only", "group": "its group record",
	"neighbours": "who else held locks meanwhile", "attached": "whether the engine was not launched by flow", "host": "settings of the machine while it ran", "host_why": "why a setting is not known", "load": "how the client itself did",
	"warnings": "list of texts", "id": "of the record", "group_id": "of its group", "overhead_ns": "flow's own time in it", "mono_start_ns": "begin, monotonic", "mono_end_ns": "end, monotonic", "wall_start_ns": "begin, Unix time",
}

var metricDocs = map[string]string{
	"name": "of the metric", "value": "None when it was not measured", "why": "why not", "withheld": "a value that its sources contradict", "unit": "as reports print it", "better": "higher, lower or None", "source": "client clock, usage, sensor, …",
	"rule": "median of measured requests, difference of a counter, …", "case": "of the workload", "n": "requests or samples behind it", "coverage": "share of the window that samples cover",
}

// Describe is a record as text for a terminal.
func (r Record) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n\n", r.Name, wrapText(r.Doc, 100, ""))
	width := 0
	for _, f := range r.Fields {
		width = max(width, len(f.Name))
	}
	for _, f := range r.Fields {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, f.Name, strings.TrimLeft(wrapText(f.Doc, 100-width-4, strings.Repeat(" ", width+4)), " "))
	}
	return b.String()
}

// recordTables is the records in the reference.
func recordTables() string {
	var b strings.Builder
	b.WriteString("\n## Fields of records\n")
	for _, r := range Records() {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n| field | is |\n| --- | --- |\n", r.Name, r.Doc)
		for _, f := range r.Fields {
			fmt.Fprintf(&b, "| `%s` | %s |\n", f.Name, cell(f.Doc))
		}
	}
	return b.String()
}

// LookupRecord finds a kind of record: "result", "comparison", "arm", "metric".
func LookupRecord(name string) (Record, bool) {
	all := Records()
	i := slices.IndexFunc(all, func(r Record) bool { return r.Name == name || r.Name == name+" record" })
	if i < 0 && name == "group record" {
		i = 0
	}
	if i < 0 {
		return Record{}, false
	}
	return all[i], true
}
