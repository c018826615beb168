package gate

import (
	"strings"
	"testing"
	"time"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// at is a trace: sensor, tenth of a second, value.
type at struct {
	sensor string
	tenth  int64
	value  float64
}

func watchTrace(w *Watch, trace []at) string {
	for _, x := range trace {
		if b := w.Sample(record.Sample{Sensor: x.sensor, MonoNS: x.tenth * int64(100*time.Millisecond), Value: x.value}); b != "" {
			return b
		}
	}
	return ""
}

func f(x float64) *float64 { return &x }

func TestWatchNarrowed(t *testing.T) {
	floor := plan.Guard{Name: "clock", Sensor: "clock", Below: f(1600), Hold: 200 * time.Millisecond, Sides: []string{"B"}, Step: "measure",
		While: &plan.While{Sensor: "util", Above: 50}}
	pressure := plan.Guard{Name: "psi", Sensor: "psi.memory", Also: []string{"psi.user.memory"}, Above: f(10), Hold: 200 * time.Millisecond}
	low := []at{{"util", 0, 90}, {"clock", 0, 900}, {"clock", 1, 900}, {"clock", 2, 900}}
	for _, c := range []struct {
		name       string
		guard      plan.Guard
		side, step string
		trace      []at
		want       string
	}{
		{"low while busy", floor, "B", "measure", low, "clock was 900, below 1600 for 200ms"},
		{"low on the control", floor, "A", "measure", low, ""},
		{"low while it loads", floor, "B", "launch", low, ""},
		{"low and idle", floor, "B", "measure", []at{{"util", 0, 5}, {"clock", 0, 900}, {"clock", 9, 900}}, ""},
		{"nothing says busy", floor, "B", "measure", low[1:], ""},
		{"idle in between", floor, "B", "measure", []at{{"util", 0, 90}, {"clock", 0, 900}, {"util", 1, 0}, {"clock", 1, 900}, {"util", 2, 90}, {"clock", 2, 900}, {"clock", 3, 900}}, ""},
		{"the user's slice alone", pressure, "A", "warm", []at{{"psi.memory", 0, 1}, {"psi.user.memory", 0, 30}, {"psi.memory", 1, 1}, {"psi.user.memory", 2, 30}}, "psi.user.memory was 30, above 10"},
		{"one after the other", pressure, "A", "warm", []at{{"psi.memory", 0, 30}, {"psi.user.memory", 1, 30}, {"psi.memory", 2, 30}}, "above 10"},
		{"both below", pressure, "A", "warm", []at{{"psi.memory", 0, 9}, {"psi.user.memory", 0, 9}, {"psi.memory", 9, 9}}, ""},
		{"only one is there", pressure, "A", "warm", []at{{"psi.memory", 0, 30}, {"psi.memory", 2, 30}}, "psi.memory was 30"},
		{"growth of each", plan.Guard{Sensor: "a", Also: []string{"b"}, Above: f(5), Growth: true}, "A", "", []at{{"a", 0, 100}, {"b", 0, 1}, {"a", 1, 103}, {"b", 1, 7}}, "growth of b was 6"},
	} {
		w := NewWatch(c.guard)
		w.On(c.side, c.step)
		if got := watchTrace(w, c.trace); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// A breach that began in one step does not go on in another that is not watched.
func TestWatchSteps(t *testing.T) {
	w := NewWatch(plan.Guard{Sensor: "clock", Below: f(1600), Hold: 200 * time.Millisecond, Step: "measure"})
	w.On("B", "measure")
	if got := watchTrace(w, []at{{"clock", 0, 900}, {"clock", 1, 900}}); got != "" {
		t.Fatal(got)
	}
	w.On("B", "stop")
	w.On("B", "measure")
	if got := watchTrace(w, []at{{"clock", 2, 900}, {"clock", 3, 900}}); got != "" {
		t.Errorf("got %q: the hold was not begun anew", got)
	}
	if got := watchTrace(w, []at{{"clock", 4, 900}}); got == "" {
		t.Error("no breach after the hold")
	}
}

// Noise of arms with neighbours is lent to such arms only.
func TestSharedNoise(t *testing.T) {
	past := func(id string, neighbours []string, spread float64) *record.Group {
		g := &record.Group{ID: id, Name: id, Verdict: record.Equivalent, Control: "A", Primary: "x", Sides: []record.Side{{Label: "A", Control: true}, {Label: "B"}}}
		for b := range 4 {
			for slot, label := range []string{"A", "B", "B", "A"} {
				if b%2 == 1 {
					label = map[string]string{"A": "B", "B": "A"}[label]
				}
				v := 100 + spread*float64((b*7+slot*5)%4)
				g.Arms = append(g.Arms, &record.Arm{ID: id, Label: label, Block: b, Slot: slot, Seq: b*4 + slot, Purpose: "measured", Disposition: record.OK,
					Neighbours: neighbours, Metrics: []record.Metric{{Name: "x", Value: &v}}})
			}
		}
		return g
	}
	alone, beside := past("alone", nil, .1), past("beside", []string{"pid 1 has gpu:1"}, 3)
	g := &record.Group{ID: "g", Control: "A", Primary: "x", Sides: alone.Sides}
	Borrow(g, []*record.Group{alone, beside})
	if len(g.Noise) != 2 || g.Noise[0].Shared || !g.Noise[1].Shared || g.Noise[0].SD*5 > g.Noise[1].SD {
		t.Fatalf("got %+v", g.Noise)
	}
	v := 100.0
	arm := &record.Arm{Label: "A", Purpose: "measured", Disposition: record.OK, Metrics: []record.Metric{{Name: "x", Value: &v}}}
	g.Arms = []*record.Arm{arm}
	if n := lent(g, "x", ""); n == nil || n.SD != g.Noise[0].SD {
		t.Errorf("exclusive: got %+v", n)
	}
	arm.Neighbours = []string{"pid 2 has gpu:2"}
	if n := lent(g, "x", ""); n == nil || n.SD != g.Noise[1].SD || !strings.Contains(n.From, "neighbours") {
		t.Errorf("shared: got %+v", n)
	}
	if n := KnownNoise(g, []*record.Group{alone}); n != nil {
		t.Errorf("noise of exclusive arms was lent to shared ones: %+v", n)
	}
}
