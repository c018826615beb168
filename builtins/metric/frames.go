package metric

// Which frames carry tokens, and what lies between them. A request stores the arrival of every frame and,
// where its client noted them, which ones were blank. A record without that note still has the count of
// token-bearing frames and the stamps of the first and the last: role-only and usage frames come before
// and after, so the rest follows, except that frames of one read share a stamp.

import (
	"fmt"
	"sort"

	"flow/workflows/record"
)

// firstToken is the earlier of first content and first reasoning, nil where no token came.
func firstToken(r *record.Request) *int64 {
	a, b := r.FirstContentNS, r.FirstReasoningNS
	if a == nil || (b != nil && *b < *a) {
		return b
	}
	return a
}

// contentUS is the arrivals of the token-bearing frames in µs since the request was sent. lead is true
// when it is certain which frame is the first of them. why says what is missing.
func contentUS(r *record.Request) (at []int64, lead bool, why string) {
	first := firstToken(r)
	switch {
	case first == nil || r.LastContentNS == nil || r.SentNS == nil:
		return nil, false, "no token-bearing frame arrived"
	case len(r.ArrivalsUS) == 0:
		return nil, false, "arrivals of frames were not recorded"
	case r.ContentFrames <= 0:
		return nil, false, "token-bearing frames were not counted"
	}
	if r.BlankFrames != nil {
		return notBlank(r)
	}
	// Arrivals are rounded to a microsecond one by one, so an edge may be off by one.
	lo, hi := (*first-*r.SentNS)/1000, (*r.LastContentNS-*r.SentNS)/1000
	var t int64
	for _, d := range r.ArrivalsUS {
		if t += d; t >= lo-1 && t <= hi+1 {
			at = append(at, t)
		}
	}
	extra := len(at) - r.ContentFrames
	if extra < 0 {
		return nil, false, fmt.Sprintf("%d token-bearing frames but %d arrivals between the first and the last", r.ContentFrames, len(at))
	}
	// Frames without tokens inside the window are told apart only when they share a read with an edge:
	// then which of the equal stamps is dropped makes no difference to the gaps.
	head, tail := ties(at, 0, 1), ties(at, len(at)-1, -1)
	if extra > 0 && extra > head+tail {
		return nil, false, fmt.Sprintf("%d frames without tokens came between the first and the last that had some", extra-head-tail)
	}
	least, most := max(0, extra-tail), min(head, extra)
	lead = least == most || r.ContentFrames < 2 || at[least+1] == at[most+1]
	return at[most : most+r.ContentFrames], lead, ""
}

// notBlank leaves out the frames that the client noted as blank.
func notBlank(r *record.Request) (at []int64, lead bool, why string) {
	blank := map[int]bool{}
	for _, i := range r.BlankFrames {
		blank[i] = true
	}
	var t int64
	for i, d := range r.ArrivalsUS {
		if t += d; !blank[i] {
			at = append(at, t)
		}
	}
	if len(at) != r.ContentFrames {
		return nil, false, fmt.Sprintf("%d token-bearing frames were counted but %d arrived", r.ContentFrames, len(at))
	}
	return at, true, ""
}

// firstRead is how many token-bearing frames came with the first read that had any; 1 where it is not known.
func firstRead(r *record.Request) int {
	at, lead, why := contentUS(r)
	if why != "" || !lead {
		return 1
	}
	return 1 + ties(at, 0, 1)
}

// ties counts the neighbours of at[i] in direction step that share its stamp, within the rounding.
func ties(at []int64, i, step int) int {
	n := 0
	for j := i + step; j >= 0 && j < len(at) && abs(at[j]-at[i]) <= 1; j += step {
		n++
	}
	return n
}

func abs(x int64) int64 {
	if x < 0 {
		return -x
	}
	return x
}

// frameTokens is the tokens of every token-bearing frame, and how it is known; nil where it is not.
//
// Beside what an engine says there is one proof: every such frame has at least one token, so where there
// are as many tokens as frames each has exactly one.
func frameTokens(r *record.Request) (per []int, how string) {
	if len(r.FrameTokens) > 0 && len(r.FrameTokens) == r.ContentFrames {
		return r.FrameTokens, "tokens per frame as the engine says"
	}
	if n := r.CompletionTokens; n != nil && r.ContentFrames > 0 {
		if k := *n - endTokens(r); k == r.ContentFrames {
			per = make([]int, k)
			for i := range per {
				per[i] = 1
			}
			return per, "one token a frame: as many tokens as frames"
		}
	}
	return nil, ""
}

// endTokens is 1 where the count includes an end token that no frame carried: the generation ended by
// itself and the frames hold exactly one token less than the count. Engines count it, none sends it.
func endTokens(r *record.Request) int {
	if r.FinishReason != "stop" || r.CompletionTokens == nil {
		return 0
	}
	held := r.ContentFrames
	if len(r.FrameTokens) > 0 && len(r.FrameTokens) == r.ContentFrames {
		held = sum(r.FrameTokens)
	}
	if held > 0 && *r.CompletionTokens == held+1 {
		return 1
	}
	return 0
}

func sum(xs []int) int {
	n := 0
	for _, x := range xs {
		n += x
	}
	return n
}

// gapsMS is the sorted times between neighbours of at, in milliseconds.
func gapsMS(at []int64) []float64 {
	out := make([]float64, 0, len(at))
	for i := 1; i < len(at); i++ {
		out = append(out, float64(at[i]-at[i-1])/1e3)
	}
	sort.Float64s(out)
	return out
}

// perTokenMS spreads the gap before a frame of k tokens over its k tokens, sorted.
func perTokenMS(at []int64, per []int) []float64 {
	var out []float64
	for i := 1; i < len(at) && i < len(per); i++ {
		for range per[i] {
			out = append(out, float64(at[i]-at[i-1])/1e3/float64(per[i]))
		}
	}
	sort.Float64s(out)
	return out
}
