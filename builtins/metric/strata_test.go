package metric

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// strataRow is what the published rows of a Strata campaign say besides what TestStrataRows reads; window
// times count from the first row's.
type strataRow struct {
	Run, Frames   int
	Ctx           string
	Since         int      `json:"requests_since_start"`
	Decode        float64  `json:"decode_tok_s"`
	DecodeServer  float64  `json:"decode_tok_s_server"`
	Withheld      *float64 `json:"decode_tok_s_withheld"`
	TTFT          float64  `json:"ttft_ms"`
	Prompt        float64  `json:"prompt_tokens"`
	Completion    float64  `json:"completion_tokens"`
	PromptClient  float64  `json:"prompt_tok_s_client"`
	PromptServer  float64  `json:"prompt_tok_s_server"`
	TokenFrames   int      `json:"token_frames"`
	ContentFrames int      `json:"content_frames"`
	Head          string   `json:"completion_head"`
	Port, Verdict string
	Timings       struct {
		PromptN       float64 `json:"prompt_n"`
		PromptMS      float64 `json:"prompt_ms"`
		PromptToken   float64 `json:"prompt_per_token_ms"`
		PromptRate    float64 `json:"prompt_per_second"`
		PredictedMS   float64 `json:"predicted_ms"`
		PredictedTok  float64 `json:"predicted_per_token_ms"`
		PredictedRate float64 `json:"predicted_per_second"`
		Draft         float64 `json:"draft_n"`
		Accepted      float64 `json:"draft_n_accepted"`
	}
	Strata struct {
		HitRateLog    float64 `json:"hit_rate_log"`
		Hits, Lookups float64
		Accepted      float64 `json:"drafts_accepted"`
		Offered       float64 `json:"drafts_offered"`
		PromptRate    float64 `json:"engine_prompt_tok_s"`
		PerRound      float64 `json:"tokens_per_round_derived"`
	}
	MetricsHit float64 `json:"metrics_hit_rate"`
	Window     struct {
		T0, T1, Seconds float64
		Host            int `json:"host_samples"`
		GPU             int `json:"gpu_samples"`
	}
	Board struct {
		Joules float64
		MeanW  float64 `json:"mean_w"`
	}
	Rapl struct {
		Joules float64
		Span   float64 `json:"span_s"`
	}
	VRAM struct {
		Max    float64 `json:"max_used_mib"`
		Base   float64 `json:"baseline_mib"`
		Growth float64 `json:"growth_mib"`
	}
	PinnedRule string `json:"pinned_rule"`
}

func strataRows(t *testing.T) []strataRow {
	t.Helper()
	f, err := os.Open("testdata/strata-telemetry.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows []strataRow
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var r strataRow
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	if len(rows) != 4 {
		t.Fatalf("%d rows", len(rows))
	}
	return rows
}

func close4(t *testing.T, run int, what string, got, want, within float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > within*(1+1e-9) {
		t.Errorf("run %d: %s: got %.7g, want %.7g", run, what, got, want)
	}
}

// The published rows agree with themselves.
func TestStrataRowsAgree(t *testing.T) {
	last := 0.0
	for i, r := range strataRows(t) {
		tm, s := r.Timings, r.Strata
		whole := r.TTFT/1000 + (r.Completion-1)/r.Decode
		close4(t, r.Run, "ttft + 255/decode", whole, []float64{5.4010, 4.7243, 4.6413, 14.2762}[i], 5e-5)
		close4(t, r.Run, "window", r.Window.T1-r.Window.T0, whole, .001)
		close4(t, r.Run, "prompt rate of the client", r.Prompt/r.TTFT*1000, r.PromptClient, .05)
		close4(t, r.Run, "server rate is N", r.Completion/tm.PredictedMS*1000, tm.PredictedRate, .05)
		close4(t, r.Run, "and the printed one", tm.PredictedRate, r.DecodeServer, 0)
		close4(t, r.Run, "ms a token", tm.PredictedMS/r.Completion, tm.PredictedTok, .0005)
		close4(t, r.Run, "ms a prompt token", tm.PromptMS/tm.PromptN, tm.PromptToken, .0005)
		close4(t, r.Run, "hit rate", s.Hits/s.Lookups, r.MetricsHit, .0005)
		close4(t, r.Run, "tokens a round", r.Completion/(r.Completion-s.Accepted), s.PerRound, .0005)
		close4(t, r.Run, "drafts accepted", tm.Accepted, s.Accepted, 0)
		close4(t, r.Run, "drafts offered", tm.Draft, s.Offered, 0)
		close4(t, r.Run, "VRAM growth", r.VRAM.Max-r.VRAM.Base, r.VRAM.Growth, 0)
		if r.Frames != r.TokenFrames+1 || r.Frames != r.ContentFrames+2 {
			t.Errorf("run %d: %d frames, %d of tokens, %d of content", r.Run, r.Frames, r.TokenFrames, r.ContentFrames)
		}
		if i > 0 {
			close4(t, r.Run, "gap to the window before", r.Window.T0-last, .003, 1e-6)
		}
		last = r.Window.T1
	}
}

// S1 to S10: what the rows say twice and differently.
func TestStrataRowsDiffer(t *testing.T) {
	for i, r := range strataRows(t) {
		at := func(v ...float64) float64 { return v[i] }
		tm, w := r.Timings, r.Window
		// S1: the client counts N−1 intervals, the server N.
		interval := 1000 * (r.Completion - 1) / r.Decode
		close4(t, r.Run, "client/server as printed", r.Decode/r.DecodeServer, at(1.0043, 1.0011, 1.0022, 1.0013), 5e-5)
		close4(t, r.Run, "with N−1 on both", tm.PredictedMS/interval, at(1.0086, 1.0049, 1.0061, 1.0055), 5e-5)
		close4(t, r.Run, "server interval longer by, ms", tm.PredictedMS-interval, at(28.6, 14.6, 17.3, 17.3), .05)
		// S2: one prompt rate in three places, of which one row's is another.
		close4(t, r.Run, "prompt rate", tm.PromptRate, r.PromptServer, 0)
		close4(t, r.Run, "the engine's", r.Strata.PromptRate-tm.PromptRate, at(0, -.1, 0, 0), 1e-9)
		if r.Run == 2 {
			close4(t, r.Run, "recomputed", tm.PromptN/tm.PromptMS*1000, 2326.573, 5e-4)
		}
		// S3: seconds and t1−t0 differ by a millisecond in one row.
		close4(t, r.Run, "seconds − (t1−t0)", w.Seconds-(w.T1-w.T0), at(0, 0, .001, 0), 1e-9)
		// S4: a percentage divided by 100 in the last bit; the rate itself is there too.
		close4(t, r.Run, "hit rate of the log", r.Strata.HitRateLog, at(.873, .9129999999999999, .925, .9159999999999999), 0)
		close4(t, r.Run, "hit rate of the metrics", r.MetricsHit, at(.873, .913, .925, .916), 0)
		if exact := r.Strata.HitRateLog == r.MetricsHit; exact != (i%2 == 0) {
			t.Errorf("run %d: both hit rates equal: %v", r.Run, exact)
		}
		// S5: board joules are of (samples−1) seconds.
		span := r.Board.Joules / r.Board.MeanW
		close4(t, r.Run, "seconds of board joules", span, at(5.005, 3.016, 4.001, 13.004), 5e-4)
		close4(t, r.Run, "samples − 1", span, float64(w.GPU-1), .02)
		close4(t, r.Run, "share of the window", span/w.Seconds, at(.9266, .6385, .8619, .9109), 5e-5)
		// S6: and those of the package of the counter's span.
		watts := r.Rapl.Joules / r.Rapl.Span
		close4(t, r.Run, "RAPL share", r.Rapl.Span/w.Seconds, at(.9263, .6357, .8623, .9110), 5e-5)
		close4(t, r.Run, "package W", watts, at(75.0, 82.5, 52.6, 62.9), .05)
		close4(t, r.Run, "joules of the window", watts*w.Seconds, at(405.2, 389.9, 244.3, 898.4), .05)
		close4(t, r.Run, "against", r.Rapl.Joules, at(375.37, 247.83, 210.69, 818.5), 0)
		// S7: instants, not intervals; one row has fewer than its window has periods.
		if w.Host != w.GPU || float64(w.GPU) != at(6, 4, 5, 14) {
			t.Errorf("run %d: %d and %d samples", r.Run, w.Host, w.GPU)
		}
		if short := float64(w.GPU) < math.Floor(w.Seconds) || w.Seconds-float64(w.GPU) > .7; short != (r.Run == 2) {
			t.Errorf("run %d: %d samples in %.3f s", r.Run, w.GPU, w.Seconds)
		}
		// S8: the first request after a start is slower, with fewer hits, at the same context.
		close4(t, r.Run, "decode", r.Decode, at(76.731, 86.292, 90.200, r.Decode), 0)
		if r.Since != i+1 || r.Ctx != []string{"4K", "4K", "4K", "32K"}[i] {
			t.Errorf("run %d: request %d after start, ctx %s", r.Run, r.Since, r.Ctx)
		}
		// S9: one word for withheld from print; nothing is withheld for its count. A placeholder is lost.
		if r.Port != "withheld-2026-10-13" || r.Head != r.Port || r.Withheld != nil || !strings.Contains(r.PinnedRule, "/proc//status") {
			t.Errorf("run %d: %q, %q, %v, %q", r.Run, r.Port, r.Head, r.Withheld, r.PinnedRule)
		}
		// S10: the second check is promised and not there.
		if r.Verdict != "agree at run time (text recount at summary)" {
			t.Errorf("run %d: %q", r.Run, r.Verdict)
		}
	}
}
