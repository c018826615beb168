package gate

// Calibration: how often the judging code calls nothing a difference, and how many arms it takes to find
// one, on simulated machines. `make calibrate` runs 20,000 sessions a cell and writes the tables of the
// manual's page on verdicts; go test runs a few.

import (
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"flow/builtins/stats"
	"flow/workflows/plan"
	"flow/workflows/record"
)

var (
	calibrate = flag.Int("calibrate", 0, "sessions of each cell of the calibration; 0 is a short one")
	update    = flag.Bool("update", false, "write the calibration's tables into the manual")
)

const armSD = .003

// calWorlds are the machines. Sizes are in noise of an arm.
func calWorlds() []calWorld {
	w := func(name string, limit float64, change func(*stats.World)) calWorld {
		x := stats.World{SD: armSD}
		change(&x)
		return calWorld{name: name, world: x, limit: limit}
	}
	return []calWorld{
		w("no drift", .06, func(*stats.World) {}),
		w("linear drift of 1 sd an arm", .06, func(x *stats.World) { x.Drift = armSD }),
		w("warm-up: the first arm loses 5 sd, 1/e of it left after 3 arms", .06, func(x *stats.World) { x.Warm, x.WarmArms = 5*armSD, 3 }),
		w("cold first slot: the first arm of the session loses 5 sd", .06, func(x *stats.World) { x.Cold = 5 * armSD }),
		w("cold first slot of each block: 2 sd", .06, func(x *stats.World) { x.ColdBlock = 2 * armSD }),
		w("heavy tails: t on 3 df", .06, func(x *stats.World) { x.T3 = true }),
		w("3 % of the arms depressed by 10 sd", .06, func(x *stats.World) { x.Depressed, x.Depth = .03, 10*armSD }),
		w("AR(1) .5", .075, func(x *stats.World) { x.AR = .5 }),
		{name: "1.5 times noisier than history", world: stats.World{SD: 1.5 * armSD}, limit: .075},
	}
}

type calWorld struct {
	name  string
	world stats.World
	limit float64
}

// calRule is a way to judge. It gives the verdict and the arms that it took.
type calRule struct {
	name    string
	history int // quads known before, at armSD
	run     func(seed uint64, w stats.World, effect float64, past []*record.Group) (verdict string, arms int)
}

// calGroup runs quads in turn, the first by coin, until a stop or the cap.
func calGroup(stops []string, limit int) func(uint64, stats.World, float64, []*record.Group) (string, int) {
	return func(seed uint64, w stats.World, effect float64, past []*record.Group) (string, int) {
		g := ab("")
		g.MinEffect, g.Cap, g.Stops = 0, limit, stops
		coin := seed&1 == 1
		p := &plan.Group{Sides: []plan.Side{{Label: "A"}, {Label: "B"}}}
		Borrow(g, past)
		warm := min(1, len(past)) // what borrows noise has an unmeasured arm before it
		for b := range limit {
			for slot, label := range p.BlockAt(b, coin).Labels {
				x := w.Log(stats.Place{Seed: seed, Session: 4*b + slot + warm, Block: b, Slot: slot, BlockLen: 4})
				if label == "B" {
					x += effect
				}
				v := 100 * math.Exp(x)
				g.Arms = append(g.Arms, &record.Arm{Label: label, Block: b, Slot: slot, Seq: len(g.Arms), Purpose: "measured", Disposition: record.OK,
					Metrics: []record.Metric{{Name: g.Primary, Better: "higher", Value: &v}}})
			}
			if len(stops) > 0 && (stops[0] == "decided" && Decided(g) != "" || stops[0] != "decided" && AlwaysValid(g) != "") {
				break
			}
		}
		Judge(g, past)
		return g.Verdict, len(g.Arms)
	}
}

func calRules() []calRule {
	return []calRule{
		{"fixed, 2 quads", 0, calGroup(nil, 2)},
		{"fixed, 2 quads, history", 8, calGroup(nil, 2)},
		{"decided(), at most 4 quads", 0, calGroup([]string{"decided"}, 4)},
		{"decided(), at most 4 quads, history", 8, calGroup([]string{"decided"}, 4)},
		{"always_valid(), at most 8 quads", 0, calGroup([]string{`always_valid {"kind":"t","g":10}`}, 8)},
		{"always_valid(kind = \"sign\"), at most 12 quads", 0, calGroup([]string{`always_valid {"kind":"sign"}`}, 12)},
	}
}

// fieldRules are what is done elsewhere, on the same machines.
func fieldRules() []calRule {
	arm := func(seed uint64, w stats.World, effect float64, i int, b bool) float64 {
		x := w.Log(stats.Place{Seed: seed, Session: i, Block: i / 4, Slot: i % 4, BlockLen: 4})
		if b {
			x += effect
		}
		return x
	}
	return []calRule{
		{"(a) the seeds' rule: ABAB, both pairs positive", 0, func(seed uint64, w stats.World, effect float64, _ []*record.Group) (string, int) {
			var y [4]float64
			for i := range y {
				y[i] = arm(seed, w, effect, i, i%2 == 1)
			}
			if y[1] > y[0] && y[3] > y[2] {
				return record.Better, 4
			}
			return record.Inconclusive, 4
		}},
		{"(b) blocked means: 5 blocks of ABBA, t interval of block ratios", 0, func(seed uint64, w stats.World, effect float64, _ []*record.Group) (string, int) {
			var d []float64
			for b := range 5 {
				var y [4]float64
				for i := range y {
					y[i] = arm(seed, w, effect, 4*b+i, i == 1 || i == 2)
				}
				d = append(d, (y[1]+y[2]-y[0]-y[3])/2)
			}
			e, _ := stats.Mean(d)
			return named(e), 20
		}},
		{"(c) a t-test after every pair AB from the second to the eighth", 0, func(seed uint64, w stats.World, effect float64, _ []*record.Group) (string, int) {
			var d []float64
			for i := range 8 {
				d = append(d, arm(seed, w, effect, 2*i+1, true)-arm(seed, w, effect, 2*i, false))
				if e, _ := stats.Mean(d); i > 0 && named(e) != record.Inconclusive {
					return named(e), 2 * (i + 1)
				}
			}
			return record.Inconclusive, 16
		}},
	}
}

func named(e stats.Estimate) string {
	switch low, high, _ := e.Interval(.95); {
	case low > 0:
		return record.Better
	case high < 0:
		return record.Worse
	}
	return record.Inconclusive
}

// rate is what n sessions of a rule gave.
type rate struct{ better, worse, arms float64 }

func (r rate) wrong() float64 { return r.better + r.worse }

// cell runs n sessions, on every core, with seeds of its own.
func cell(rule calRule, w stats.World, effect float64, n int) rate {
	workers := runtime.GOMAXPROCS(0)
	parts := make([]rate, workers)
	var wg sync.WaitGroup
	for k := range workers {
		wg.Go(func() {
			for s := k; s < n; s += workers {
				seed := mix(uint64(s))
				var past []*record.Group
				if rule.history > 0 {
					past = []*record.Group{history(seed, rule.history)}
				}
				v, arms := rule.run(seed, w, effect, past)
				switch v {
				case record.Better:
					parts[k].better++
				case record.Worse:
					parts[k].worse++
				}
				parts[k].arms += float64(arms)
			}
		})
	}
	wg.Wait()
	var sum rate
	for _, p := range parts {
		sum.better, sum.worse, sum.arms = sum.better+p.better/float64(n), sum.worse+p.worse/float64(n), sum.arms+p.arms/float64(n)
	}
	return sum
}

// mix spreads the numbers of sessions over all seeds (splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// history is a noise floor that was measured on a calm machine.
func history(seed uint64, quads int) *record.Group {
	g := ab("")
	g.ID, g.Name, g.SessionID, g.Verdict = "floor", "floor", "earlier", record.Equivalent
	w := stats.World{SD: armSD}
	p := &plan.Group{Sides: []plan.Side{{Label: "A"}, {Label: "B"}}}
	for b := range quads {
		for slot, label := range p.BlockAt(b, false).Labels {
			v := 100 * math.Exp(w.Log(stats.Place{Seed: ^seed, Block: b, Slot: slot}))
			g.Arms = append(g.Arms, &record.Arm{Label: label, Block: b, Slot: slot, Purpose: "measured", Disposition: record.OK,
				Metrics: []record.Metric{{Name: g.Primary, Better: "higher", Value: &v}}})
		}
	}
	return g
}

func calSessions() (n int, full bool) {
	switch {
	case *calibrate > 0:
		return *calibrate, true
	case testing.Short():
		return 60, false
	}
	return 160, false
}

// False positives at a nominal 5 %: at most 6 %, and 7.5 % where neighbours correlate or the history was
// calmer. A short run allows for its own sampling error.
func TestCalibration(t *testing.T) {
	n, full := calSessions()
	var b strings.Builder
	fmt.Fprintf(&b, "| machine |")
	for _, r := range calRules() {
		fmt.Fprintf(&b, " %s |", r.name)
	}
	fmt.Fprintf(&b, "\n| --- |%s\n", strings.Repeat(" ---: |", len(calRules())))
	for _, w := range calWorlds() {
		fmt.Fprintf(&b, "| %s |", w.name)
		for _, rule := range calRules() {
			if strings.Contains(w.name, "than history") && rule.history == 0 {
				b.WriteString(" – |")
				continue
			}
			got := cell(rule, w.world, 0, n)
			fmt.Fprintf(&b, " %.1f |", 100*got.wrong())
			limit := w.limit
			if !full {
				limit += 4 * math.Sqrt(.05*.95/float64(n))
			}
			if got.wrong() > limit {
				t.Errorf("%s, %s: %.4f of %d sessions, at most %.4f", rule.name, w.name, got.wrong(), n, limit)
			}
		}
		b.WriteString("\n")
	}
	t.Logf("false positives in %%, %d sessions a cell\n%s", n, b.String())
	if full && *update {
		write(t, "false positives", fmt.Sprintf("%d sessions a cell.\n\n%s", n, b.String()))
	}
}

// Power and arms, beside what is done elsewhere.
func TestPower(t *testing.T) {
	n, full := calSessions()
	effects := []float64{0, .5, 1, 2, 5}
	var b strings.Builder
	b.WriteString("| rule | nothing, no drift | nothing, drift of .5 sd an arm |")
	for _, e := range effects[1:] {
		fmt.Fprintf(&b, " %g sd |", e)
	}
	fmt.Fprintf(&b, "\n| --- | ---: | ---: |%s\n", strings.Repeat(" ---: |", len(effects)-1))
	drift := stats.World{SD: armSD, Drift: armSD / 2}
	for _, rule := range append(calRules(), fieldRules()...) {
		fmt.Fprintf(&b, "| %s |", rule.name)
		power := map[float64]rate{}
		for _, e := range effects {
			r := cell(rule, stats.World{SD: armSD}, e*armSD, n)
			power[e] = r
			if e == 0 {
				fmt.Fprintf(&b, " %.1f %% | %.1f %% |", 100*r.wrong(), 100*cell(rule, drift, 0, n).wrong())
				continue
			}
			fmt.Fprintf(&b, " %.2f in %.1f |", r.better, r.arms)
		}
		b.WriteString("\n")
		// What is bought must not be lost unnoticed.
		if rule.name == "decided(), at most 4 quads, history" && (power[2].better < .75 || power[5].arms > 5) {
			t.Errorf("%s: power %+v", rule.name, power)
		}
	}
	t.Logf("power and mean arms, %d sessions a cell\n%s", n, b.String())
	if full && *update {
		write(t, "power", fmt.Sprintf("%d sessions a cell.\n\n%s", n, b.String()))
	}
}

// How often futile() gives up a lever whose true effect is three times the noise of an arm.
func TestFutileErrors(t *testing.T) {
	n := sessions(t)
	gave := 0
	for s := range n {
		g := ab("")
		g.Noise = []record.Noise{{Metric: g.Primary, SD: armSD, DF: 10, From: "x"}}
		g.MinEffect = 0
		seed := mix(uint64(s))
		p := &plan.Group{Sides: []plan.Side{{Label: "A"}, {Label: "B"}}}
		for b := range 3 {
			for slot, label := range p.BlockAt(b, seed&1 == 1).Labels {
				x := stats.World{SD: armSD}.Log(stats.Place{Seed: seed, Block: b, Slot: slot})
				if label == "B" {
					x += 3 * armSD
				}
				v := 100 * math.Exp(x)
				g.Arms = append(g.Arms, &record.Arm{Label: label, Block: b, Slot: slot, Purpose: "measured", Disposition: record.OK,
					Metrics: []record.Metric{{Name: g.Primary, Value: &v}}})
			}
			if Futile(g) != "" {
				gave++
				break
			}
		}
	}
	if rate := float64(gave) / float64(n); rate > .03 {
		t.Errorf("a lever of 3 sd is given up in %.3f of sessions", rate)
	}
}

// write puts a table between its marks in the manual.
func write(t *testing.T, name, text string) {
	t.Helper()
	const page = "../../cmd/flow/doc/verdicts.md"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := fmt.Sprintf("<!-- %s: written by make calibrate -->\n", name), fmt.Sprintf("<!-- end of %s -->", name)
	before, rest, ok := strings.Cut(string(b), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no marks %q", page, name)
	}
	if err := os.WriteFile(page, []byte(before+begin+"\n"+text+"\n"+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
