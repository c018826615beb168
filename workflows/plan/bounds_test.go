package plan

import (
	"math"
	"strings"
	"testing"
)

func TestTooLarge(t *testing.T) {
	of := func(change func(w *Workload)) Workload {
		w := Workload{Repeat: 1, Warmup: 1, Concurrency: 1, Cases: []Case{{Prompts: make([]Prompt, 2), MaxTokens: 128}}}
		change(&w)
		return w
	}
	for _, tc := range []struct {
		w    Workload
		want string
	}{
		{of(func(*Workload) {}), ""},
		{Workload{}, ""},
		{of(func(w *Workload) { w.Cases[0].MaxTokens = MaxTokens }), ""},
		{of(func(w *Workload) { w.Cases[0].MaxTokens = 1 << 60 }), "max_tokens 1152921504606846976"},
		{of(func(w *Workload) { w.Cases[0].Ctx = 1 << 60 }), "ctx"},
		{of(func(w *Workload) { w.Repeat = MaxRequests / 2 }), ""},
		{of(func(w *Workload) { w.Repeat = MaxRequests/2 + 1 }), "repeat 500001 of 2 prompts"},
		{of(func(w *Workload) { w.Repeat = math.MaxInt }), "repeat"},
		{of(func(w *Workload) { w.Warmup = math.MaxInt }), "warm requests"},
		{of(func(w *Workload) { w.Stable = &Stable{AtMost: math.MaxInt} }), "warm requests"},
		{of(func(w *Workload) { w.Concurrency = 1_000_000_000 }), "concurrency"},
	} {
		if got, fix := TooLarge(tc.w); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) || (got != "") != (fix != "") {
			t.Errorf("got %q (%s), want %q", got, fix, tc.want)
		}
	}
}
