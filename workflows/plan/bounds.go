package plan

// Bounds of a workload: far beyond what anybody measures, and below what would take the memory of the client.

import "fmt"

const (
	MaxTokens      = 10_000_000 // of one answer
	MaxRequests    = 1_000_000  // of an arm, warm ones apart
	MaxConcurrency = 100_000    // at once
)

// TooLarge is why a workload cannot be asked in one arm, with what to write; "" when it can.
func TooLarge(w Workload) (what, fix string) {
	prompts := 0
	for _, c := range w.Cases {
		if c.MaxTokens > MaxTokens {
			return fmt.Sprintf("got max_tokens %d, want at most %d", c.MaxTokens, MaxTokens), "max_tokens = 128"
		}
		if c.Ctx > MaxTokens {
			return fmt.Sprintf("got ctx %d, want at most %d", c.Ctx, MaxTokens), "ctx = 4096"
		}
		prompts += len(c.Prompts)
	}
	warm := w.Warmup
	if w.Stable != nil {
		warm = w.Stable.AtMost
	}
	over := func(each, times int) bool { return times > 0 && each > MaxRequests/times }
	switch {
	case over(w.Repeat, prompts):
		return fmt.Sprintf("got repeat %d of %d prompts, want at most %d requests an arm", w.Repeat, prompts, MaxRequests), "repeat = 3"
	case over(warm, len(w.Cases)):
		return fmt.Sprintf("got %d warm requests of %d cases, want at most %d an arm", warm, len(w.Cases), MaxRequests), "warmup = 1"
	case w.Concurrency > MaxConcurrency:
		return fmt.Sprintf("got concurrency %d, want at most %d", w.Concurrency, MaxConcurrency), "concurrency = 32"
	}
	return "", ""
}
