package measure

import (
	"strings"
	"testing"

	"flow/workflows/plan"
)

// Traps of prompts.

func TestT24RandomAndRepeatedPrompts(t *testing.T) {
	for name, tt := range map[string]struct {
		prompt plan.Prompt
		words  string
	}{
		"random words": {plan.Prompt{Random: 300, Seed: 3}, "looks random"},
		"one word":     {plan.Prompt{Text: strings.Repeat("again ", 300)}, "repeats itself"},
	} {
		t.Run(name, func(t *testing.T) {
			a := armOn(t, simURL(t), setup{work: plan.Workload{Cases: []plan.Case{{Prompts: []plan.Prompt{tt.prompt}, MaxTokens: 5}}}})
			warns(t, a, "prompt", tt.words)
		})
	}
	const real = `The engine is the program under test, and a lever is one named change to it. A group runs sides in an order that cancels drift, and an arm is one
fresh launch of one side. What was not measured is not zero: it is nothing, with the reason why. Two arms are a range, four are an estimate, and a verdict needs
evidence that the lever took effect. When the swap grew, when the clock was throttled, when the prompt was in a cache, the arm is kept on record and does not count.`
	if why := promptTrouble(real); why != "" {
		t.Errorf("real text: %s", why)
	}
}
