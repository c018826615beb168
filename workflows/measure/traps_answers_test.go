package measure

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"flow/builtins/gate"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// Traps of answers: of another length, failed, or with another text.

// grouped judges arms of two sides.
func grouped(sides map[string]*record.Arm) *record.Group {
	g := &record.Group{ID: "g", Control: "A", Primary: "decode_tok_s", Better: "higher", Cap: 1, Order: "AB", Sides: []record.Side{{Label: "A", Control: true}, {Label: "B"}}}
	for i, label := range []string{"A", "B"} {
		a := sides[label]
		a.Label, a.Slot, a.Seq, a.GroupID = label, i, i, "g"
		g.Arms = append(g.Arms, a)
	}
	gate.Judge(g, nil)
	return g
}

func groupWarns(t *testing.T, g *record.Group, words string) {
	t.Helper()
	for _, w := range g.Warnings {
		if strings.Contains(w, words) {
			return
		}
	}
	t.Errorf("no warning with %q in %q", words, g.Warnings)
}

func TestT14AnswersOfDifferentLength(t *testing.T) {
	g := grouped(map[string]*record.Arm{"A": armOn(t, simURL(t), setup{}), "B": armOn(t, simURL(t, "--eos-at", "9"), setup{})})
	groupWarns(t, g, "answers end differently: side A length 100 %, side B stop 100 %")
	g = grouped(map[string]*record.Arm{"A": armOn(t, simURL(t), setup{}), "B": armOn(t, simURL(t), setup{tokens: 12})})
	groupWarns(t, g, "answers differ in length: side A 20 tokens, side B 12")
}

func TestT16SurvivorsOnly(t *testing.T) {
	n := 0
	url := handled(t, func(w http.ResponseWriter, _ *http.Request) {
		if n++; n%2 == 0 {
			sseOf(w, says("a"), `{"error":{"code":500,"message":"no room"}}`)
			return
		}
		sseOf(w, says("a"), 2*time.Millisecond, says("b"), 2*time.Millisecond, says("c"), finish, usageOf(5, 3, ""), end)
	})
	a := armOn(t, url, setup{work: plan.Workload{Repeat: 4}})
	warns(t, a, "failed requests", "2 of 4 measured requests did not end ok")
	if m := value(t, a, "decode_tok_s"); !strings.Contains(m.Rule, "survivors only") {
		t.Errorf("the median is not labelled: %q", m.Rule)
	}
	if v := number(t, a, "error_rate_pct"); v != 50 {
		t.Errorf("error_rate_pct: got %v", v)
	}
	failed := 0
	for _, r := range a.Requests {
		if r.Status != "ok" && r.Error == "no room" && r.ContentFrames == 1 {
			failed++
		}
	}
	if failed != 2 {
		t.Errorf("%d failed rows kept, want 2 with what had arrived", failed)
	}
}

// Text that differs between the arms of one side is no evidence against the lever of the other.
func TestT17TextNotRepeatable(t *testing.T) {
	n := 0
	url := handled(t, func(w http.ResponseWriter, _ *http.Request) {
		n++
		sseOf(w, says("The same "), time.Millisecond, says([]string{"river", "rivet"}[n%2]), finish, usageOf(5, 2, ""), end)
	})
	g := &record.Group{ID: "g", Control: "A", Primary: "decode_tok_s", Better: "higher", Cap: 1, Sides: []record.Side{{Label: "A", Control: true}, {Label: "B"}}}
	for i, label := range []string{"A", "B", "B", "A"} {
		a := armOn(t, url, setup{})
		a.Label, a.Slot, a.Seq, a.GroupID = label, i, i, "g"
		if i == 3 { // the fourth is what the first was not
			a.Requests[0].Text, a.Requests[0].TextSHA = "The same rivet", "other"
		}
		g.Arms = append(g.Arms, a)
	}
	gate.Judge(g, nil)
	groupWarns(t, g, "text not repeatable: request 0 of side A differs between its own arms")
}
