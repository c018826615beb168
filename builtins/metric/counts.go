package metric

// Token counts come from every source there is and are compared. Beyond the tolerance no rate that uses
// the count stands: which source is wrong cannot be known from here.

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"flow/workflows/record"
)

// Tolerance is the largest relative difference between two counts of the same tokens. One token is always
// tolerated, because engines differ in whether the end token counts.
const Tolerance = .03

// disagreement compares the counts of what ("completion" or "prompt"). gap is the largest relative
// difference, nil where fewer than two sources can be compared; why is "" while they agree.
func disagreement(r *record.Request, what string) (gap *float64, why string) {
	counts := countsOf(r, what)
	if what == "completion" {
		// Another source that disagrees tells more: it is said first.
		defer func() {
			if no := impossible(r, counts); why == "" {
				why = no
			}
		}()
	}
	ref, ok := counts["usage"]
	refName := "usage"
	if !ok {
		refName, ref, ok = anyOf(counts)
	}
	if !ok {
		return nil, ""
	}
	var apart []string
	for _, source := range sortedKeys(counts) {
		if source == refName {
			continue
		}
		n := counts[source]
		d, comparable := difference(r, what, source, n, ref)
		if source == "tokenize" && what == "completion" && confirmed(counts, refName, ref) {
			continue
		}
		if !comparable {
			continue
		}
		rel := 0.0
		if d != 0 {
			rel = float64(d) / float64(max(ref, n))
		}
		if gap == nil || rel > *gap {
			gap = &rel
		}
		if d > 1 && rel > Tolerance {
			apart = append(apart, fmt.Sprintf("%s %d", source, n))
		}
	}
	if len(apart) == 0 {
		return gap, ""
	}
	return gap, fmt.Sprintf("%s tokens disagree by more than %.0f %%: %s %d, %s", what, Tolerance*100, refName, ref, strings.Join(apart, ", "))
}

// impossible is why a count of the completion cannot be: it is more than was asked for, by more than the one
// token that engines differ in. Frames and a recount of the text are no counts of an engine's.
func impossible(r *record.Request, counts map[string]int) string {
	if r.MaxTokens <= 0 {
		return ""
	}
	if _, ok := counts["usage"]; !ok && r.CompletionTokens != nil {
		if n := *r.CompletionTokens; n-1 > r.MaxTokens {
			return fmt.Sprintf("%d completion tokens were counted, and at most %d were asked for", n, r.MaxTokens)
		}
	}
	for _, source := range sortedKeys(counts) {
		if n := counts[source]; source != "frames" && source != "tokenize" && n-1 > r.MaxTokens {
			return fmt.Sprintf("%s says %d completion tokens, and at most %d were asked for", source, n, r.MaxTokens)
		}
	}
	return ""
}

// confirmed reports whether a source other than a recount has the same count. A text does not lead back to
// the tokens that made it: a real llama.cpp with random weights made 120 tokens of a text that it cuts into
// 159. So a recount is no proof against what two counters of the engine say.
func confirmed(counts map[string]int, refName string, ref int) bool {
	for source, n := range counts {
		if source != refName && source != "tokenize" && source != "frames" && n >= ref-1 && n <= ref+1 {
			return true
		}
	}
	return false
}

// difference is how far n of source is from ref. Some sources bound a count from one side only: a frame
// holds one token or more, and a recount of a prompt misses the chat template.
func difference(r *record.Request, what, source string, n, ref int) (d int, comparable bool) {
	d = int(math.Abs(float64(n - ref)))
	switch {
	case source == "frames" && (len(r.FrameTokens) == 0 || len(r.FrameTokens) != r.ContentFrames),
		source == "tokenize" && what == "prompt":
		return max(0, n-ref), n > ref
	case source == "timings" && what == "prompt":
		// Servers print the tokens they read: cached ones are not among them.
		if r.CachedTokens != nil {
			d = min(d, int(math.Abs(float64(n+*r.CachedTokens-ref))))
		}
	}
	return d, true
}

// countsOf is source to count, of the recorded counts and of the request's own fields.
func countsOf(r *record.Request, what string) map[string]int {
	out := map[string]int{}
	put := func(source string, n *int) {
		if _, ok := out[source]; !ok && n != nil {
			out[source] = *n
		}
	}
	for _, c := range r.Counts {
		if c.What == what {
			n := c.N
			put(c.Source, &n)
		}
	}
	if what == "completion" {
		put("timings", r.ServerDecodeN)
		if r.Usage != "" {
			put("usage", r.CompletionTokens)
		}
		if n := r.ContentFrames; n > 0 {
			if len(r.FrameTokens) == n {
				n = sum(r.FrameTokens)
			}
			out["frames"] = n
		}
		return out
	}
	put("timings", r.ServerPromptN)
	if r.Usage != "" {
		put("usage", r.PromptTokens)
	}
	return out
}

func anyOf(counts map[string]int) (string, int, bool) {
	for _, s := range []string{"timings", "log", "metrics", "tokenize"} {
		if n, ok := counts[s]; ok {
			return s, n, true
		}
	}
	return "", 0, false
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
