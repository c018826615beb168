package measure

import (
	"math"
	"strings"
	"testing"

	"flow/workflows/plan"
	"flow/workflows/record"
)

func TestParseModel(t *testing.T) {
	m, err := ParseModel("effect=2%, effect.fast=20%,sd=.3%,sd.32K=2%,tails=t3,ar=.5,depressed=3%@6%,drift=.1%/arm,curve=.01%/arm2,warmup=3%@4,cold=2%,cold_block=1%,carry=.5%,history=8@.2%")
	if err != nil {
		t.Fatal(err)
	}
	w := m.World()
	near := func(name string, got, want float64) {
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	near("effect", m.Effect, .02)
	near("effect.fast", m.Effects["fast"], .2)
	near("sd", w.SD, .003)
	near("sd.32K", m.CaseSD["32K"], .02)
	near("ar", w.AR, .5)
	near("depressed", w.Depressed, .03)
	near("depth", w.Depth, .06)
	near("drift", w.Drift, .001)
	near("curve", w.Curve, .0001)
	near("warm-up", w.Warm, .03)
	near("its arms", w.WarmArms, 4)
	near("cold", w.Cold, .02)
	near("cold block", w.ColdBlock, .01)
	near("carry", w.Carry, .005)
	near("history", m.HistorySD, .002)
	if !w.T3 || m.HistoryQuads != 8 {
		t.Errorf("got %+v", m)
	}
	p := m.Past(3, "decode_tok_s", "higher", []string{"4K", "32K"})
	if len(p.Arms) != 32 || len(p.Arms[0].Metrics) != 2 {
		t.Errorf("the history has %d arms", len(p.Arms))
	}
	if m, err := ParseModel(""); err != nil || m.SD != .005 || m.Past(1, "x", "", nil) != nil {
		t.Errorf("nothing said: %+v, %v", m, err)
	}
}

func TestParseModelErrors(t *testing.T) {
	for text, want := range map[string]string{
		"effect":                            "want name=value",
		"sd=1%, sd=2%":                      "sd stands twice",
		"effect.a=1%,effect=2%,effect.a=3%": "effect.a stands twice",
		"efect=2%":                          "did you mean effect?",
		"effect=-100%":                      "more than -100%",
		"effect=NaN":                        "more than -100%",
		"sd=-1%":                            "at least 0",
		"sd=x":                              "want a share such as 2% or .02",
		"ar=1":                              "less than 1",
		"ar=-1":                             "at least -0.9",
		"tails=cauchy":                      "want t3 or normal",
		"depressed=101%":                    "less than 1.",
		"warmup=3%@0":                       "warmup: got 0",
		"warmup=200%":                       "less than 1",
		"history=many":                      "want a number of quads",
		"history=8@-1":                      "at least 0",
		"drift=inf":                         "want a share",
	} {
		_, err := ParseModel(text)
		if err == nil || !strings.Contains(errText(err), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func FuzzParseModel(f *testing.F) {
	f.Add("effect=2%,sd=.5%,drift=.1%/arm,effect.NAME=20%")
	f.Add("tails=t3,ar=.5,depressed=3%@5%,history=8@.3%,warmup=3%@2")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseModel(text)
		if err != nil {
			return
		}
		w := m.World()
		for _, x := range []float64{m.Effect, w.SD, w.Drift, w.Curve, w.Warm, w.WarmArms, w.Cold, w.ColdBlock, w.AR, w.Depressed, w.Depth, w.Carry} {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				t.Fatalf("%q: %+v", text, m)
			}
		}
		if m.SD < 0 || math.Abs(w.AR) >= 1 || m.Effect <= -1 {
			t.Fatalf("%q: %+v", text, m)
		}
	})
}

func TestUnknownLevers(t *testing.T) {
	m, err := ParseModel("effect=1%,effect.fast=2%,effect.fsat=3%,effect.quite_another=1%")
	if err != nil {
		t.Fatal(err)
	}
	had := map[string]bool{}
	LeversOf([]*record.Group{{Sides: []record.Side{{Label: "A"}, {Label: "B", Stack: []record.Lever{{Name: "fast"}}}}}}, had)
	got := m.Unknown(had)
	if len(got) != 2 || !strings.Contains(got[0], "effect.fsat, and no group") || !strings.Contains(got[0], "did you mean effect.fast?") || strings.Contains(got[1], "did you mean") {
		t.Errorf("got %q", got)
	}
	had["fsat"], had["quite_another"] = true, true
	if got := m.Unknown(had); len(got) > 0 {
		t.Errorf("got %q for levers that are there", got)
	}
}

// Costs have noise of their own, and what a lever is said to do to them; nothing where nothing is said.
func TestSimulatedCosts(t *testing.T) {
	limit := .02
	priced := func() *plan.Group {
		g := screenOf(t, "fast", "", 4)
		g.Costs = map[string]*float64{"ttft_ms": &limit, "sensor_mean": nil}
		return g
	}
	for model, want := range map[string]struct {
		ttft    float64
		verdict string
	}{"effect.fast=5%,sd=.2%": {0, record.Better}, "effect.fast=5%,effect.fast.ttft_ms=9%,sd=.2%": {.09, record.Worse}} {
		_, was := simulate(t, model, priced())
		if was[0].Verdict != want.verdict {
			t.Errorf("%s: got %s: %s", model, was[0].Verdict, was[0].Reason)
		}
		n := 0
		for _, c := range was[0].Comparisons {
			truth := 0.0
			if c.Metric == "ttft_ms" {
				truth = want.ttft
			}
			if !c.Cost {
				continue
			}
			n++
			if e := c.Estimate; e == nil || math.Abs(e.Effect-truth) > .006 || e.Effect == truth || *e.High-*e.Low < 1e-4 {
				t.Errorf("%s: %s %s: got %+v, want about %g with noise", model, c.Metric, c.Case, e, truth)
			}
		}
		if n != 3 { // ttft_ms of two cases, and the sensor
			t.Errorf("%s: %d costs", model, n)
		}
		m, err := ParseModel(model + ",effect.fast.ttft=1%")
		if err != nil {
			t.Fatal(err)
		}
		had := map[string]bool{}
		LeversOf(was, had)
		if got := m.Unknown(had); len(got) != 1 || !strings.Contains(got[0], "effect.fast.ttft,") || !strings.Contains(got[0], "did you mean effect.fast.ttft_ms?") {
			t.Errorf("unknown: %q", got)
		}
	}
}
