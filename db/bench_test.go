package db

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"flow/workflows/record"
)

// BenchmarkSamples is the rate of recording: one arm of 30,000 samples, durable at its end.
func BenchmarkSamples(b *testing.B) {
	d, ctx := open(b), context.Background()
	must(b, d.BeginSession(ctx, session("s", 0)))
	g := group("s", "g", 0, nil, []record.Lever{lever("fa")})
	must(b, d.BeginGroup(ctx, g))
	const sensors, each = 50, 600
	var ss []record.Sample
	for i := range each {
		for s := range sensors {
			ss = append(ss, record.Sample{Sensor: fmt.Sprintf("sensor.%d.value", s), MonoNS: int64(i) * 1e8, Value: float64(i*s) + .5})
		}
	}
	n := 0
	for b.Loop() {
		a := armOf(g, "A", n, 100)
		a.Samples = ss
		must(b, d.EndArm(ctx, a))
		n++
	}
	b.ReportMetric(float64(n*len(ss))/b.Elapsed().Seconds(), "samples/s")
}

// BenchmarkArm is what recording costs an arm: its facts and its findings, durable both times.
func BenchmarkArm(b *testing.B) {
	d, ctx := open(b), context.Background()
	must(b, d.BeginSession(ctx, session("s", 0)))
	g := group("s", "g", 0, nil, []record.Lever{lever("fa")})
	must(b, d.BeginGroup(ctx, g))
	n := 0
	for b.Loop() {
		a := armOf(g, "A", n, 100)
		must(b, d.EndArm(ctx, a))
		must(b, d.JudgeArm(ctx, a))
		n++
	}
}

func BenchmarkEvent(b *testing.B) {
	d, ctx := open(b), context.Background()
	must(b, d.BeginSession(ctx, session("s", 0)))
	for b.Loop() {
		must(b, d.Event(ctx, "s", record.Event{Kind: "note", Text: "x"}))
	}
}

// BenchmarkOpenReadOnly is what a question costs before it is asked.
func BenchmarkOpenReadOnly(b *testing.B) {
	d, ctx := open(b), context.Background()
	fill(b, d, "s", 0, record.Better)
	for b.Loop() {
		r, err := OpenReadOnly(ctx, d.Path())
		must(b, err)
		if _, err := r.Query(ctx, `select 1`, nil, 0); err != nil {
			b.Fatal(err)
		}
		must(b, r.Close())
	}
}

func BenchmarkOpenNew(b *testing.B) {
	dir, n := b.TempDir(), 0
	for b.Loop() {
		d, err := Open(context.Background(), filepath.Join(dir, fmt.Sprint(n, ".db")))
		must(b, err)
		must(b, d.Close())
		n++
	}
}

// standardQueries are those that a person or a workflow asks every day.
var standardQueries = map[string]string{
	"sessions":  `select id, workflow, status, groups, arms, better, worse from sessions order by started desc limit 20`,
	"groups":    `select name, lever, verdict, effect_pct, low_pct, high_pct from groups order by started desc`,
	"arms":      `select group_name, label, avg(decode_tok_s), avg(ttft_ms), count(*) from arms where disposition = 'ok' group by group_id, label`,
	"gains":     `select lever, verdict, effect_pct, ended from gains where lever = 'lever-3' and machine_id = 'machine-1' order by wall_end_ns desc`,
	"levers":    `select * from levers order by better desc`,
	"champions": `select * from champions`,
	"noise":     `select machine_id, engine_hash, sum(sd_pct * sd_pct * df) / sum(df) from noise group by 1, 2`,
	"pairs":     `select lever, count(*), avg(delta_pct) from pairs group by lever`,
	"metric":    `select name, count(value), avg(value) from metrics where request is null group by name`,
	"gates":     `select gate, outcome, count(*) from gates group by 1, 2`,
	"summaries": `select label, sensor, avg(mean) from summaries where sensor = 'power_w' group by label`,
	"samples":   `select t_s, value from samples where arm_id = (select id from arms order by started desc limit 1) and sensor = 'power_w'`,
}

// BenchmarkStandardQueries asks a year of work: 1,000 sessions and 40,000 arms. Samples are 40 an arm (1.6
// million), because nothing but the last query looks at them, and that one by key.
func BenchmarkStandardQueries(b *testing.B) {
	d, ctx := open(b), context.Background()
	sessions, groups := 1000, 10
	if testing.Short() {
		sessions = 50
	}
	// The commits' syncs are not what is measured, and would take minutes.
	d.durable = false
	_, err := d.writer.Exec(`pragma synchronous = OFF`)
	must(b, err)
	for s := range sessions {
		id := fmt.Sprintf("s%04d", s)
		must(b, d.unsafe().BeginSession(ctx, session(id, s)))
		for k := range groups {
			g := group(id, fmt.Sprintf("%s-%d", id, k), s, nil, []record.Lever{lever(fmt.Sprint("lever-", k))})
			if k == groups-1 {
				g.Role = record.RoleQualification
			}
			must(b, d.unsafe().BeginGroup(ctx, g))
			for i, v := range []float64{100, 110, 112, 101} {
				a := armOf(g, []string{"A", "B", "B", "A"}[i], i, v)
				for t := range 36 {
					a.Samples = append(a.Samples, record.Sample{Sensor: "power_w", MonoNS: int64(10 + t), Value: float64(t)})
				}
				must(b, d.unsafe().EndArm(ctx, a))
				g.Arms = append(g.Arms, a)
			}
			end(g, record.Better, .1)
			must(b, d.unsafe().EndGroup(ctx, g))
		}
	}
	for _, name := range sortedKeys(standardQueries) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := d.Query(ctx, standardQueries[name], nil, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("past", func(b *testing.B) {
		for b.Loop() {
			if _, err := d.Past(ctx, Scope{Machine: "machine-1", Engine: "engine-1", Workload: "work-1", Limit: 100}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// unsafe keeps write from switching the syncs on again.
func (d *DB) unsafe() *DB {
	d.durable = true
	return d
}
