package library_test

import (
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"flow/builtins"
	"flow/builtins/metric"
	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// engineOf evaluates an engine of the library.
func engineOf(t *testing.T, file, name, call string) plan.Engine {
	t.Helper()
	l := newLoader(fstest.MapFS{"x.star": {Data: []byte("load(\"@flow//engines/" + file + "\", \"" + name + "\")\ne = " + call + "\n")}})
	globals, err := l.Load(t.Context(), "x.star")
	if err != nil {
		t.Fatal(diag.Format(err))
	}
	return globals["e"].(*builtins.Decl[plan.Engine]).V
}

func check(t *testing.T, ms []record.Metric, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		found := false
		for _, m := range ms {
			if m.Name != name {
				continue
			}
			found = true
			if m.Value == nil || math.Abs(*m.Value-v) > 1e-6*math.Abs(v) {
				t.Errorf("%s: got %v (%s), want %v", name, m.Value, m.Why, v)
			}
		}
		if !found {
			t.Errorf("no metric %s", name)
		}
	}
}

// What real engines wrote, read by the library's engines.
func TestRealOutputs(t *testing.T) {
	log, err := os.ReadFile("testdata/real/strata.log")
	if err != nil {
		t.Fatal(err)
	}
	strata := engineOf(t, "strata.star", "strata_server", `strata_server("/opt/strata")`)
	check(t, metric.Arm(&record.Arm{}, strata.Metrics, metric.Inputs{Log: string(log)}), map[string]float64{
		"expert_slots": 3865, "pcie_gb_s": 19.3, "vram_free_mib": 406,
		"strata_generated": 9, "drafts_accepted": 7, "drafts_offered": 8, "tokens_per_round": 4.5, // of the last request
		"expert_hits": 2936, "expert_lookups": 4752, "expert_hit_rate": 2936. / 4752,
	})
	// The counts of each request, by the patterns of its API.
	want := map[string][]string{"completion": {"1000", "2", "256"}, "cached": {"0", "0", "0"}, "accepted": {"650", "3", "158"}, "draft": {"895", "3", "234"}}
	for _, c := range strata.API.Counts {
		if c.Log == "" {
			continue
		}
		m := regexp.MustCompile("(?m)"+c.Log).FindAllStringSubmatch(string(log), -1)
		if len(m) != 17 {
			t.Errorf("%s: %d matches in the log, which has 17 requests", c.What, len(m))
			continue
		}
		for i, n := range want[c.What] {
			if m[i][1] != n {
				t.Errorf("%s of request %d: got %s, want %s", c.What, i, m[i][1], n)
			}
		}
	}
	out, err := os.ReadFile("testdata/real/llama-bench.json")
	if err != nil {
		t.Fatal(err)
	}
	bench := engineOf(t, "llama_cpp.star", "llama_bench", `llama_bench("tiny.gguf", prompt = 256, gen = 32)`)
	got := metric.Arm(&record.Arm{}, bench.Metrics, metric.Inputs{Stdout: string(out)})
	check(t, got, map[string]float64{"prefill_tok_s": 592.106366, "prefill_sd_tok_s": 62.725436})
	for _, m := range got {
		if m.Name == "llama_bench_tg_tok_s" && m.Value == nil {
			t.Errorf("no generation rate: %s", m.Why)
		}
	}
}

// What the servers count by themselves, from pages as they print them; a build without drafts says nothing of them.
func TestRealCounters(t *testing.T) {
	for _, c := range []struct {
		file, call    string
		before, after map[string]float64
		want          map[string]float64
	}{
		{"llama_cpp.star", `llama_server("m.gguf")`,
			map[string]float64{"llamacpp:spec_decode_num_draft_tokens_total": 10, "llamacpp:spec_decode_num_accepted_tokens_total": 4, "llamacpp:prompt_tokens_total": 3024, "llamacpp:n_decode_total": 2910},
			map[string]float64{"llamacpp:spec_decode_num_draft_tokens_total": 362, "llamacpp:spec_decode_num_accepted_tokens_total": 215, "llamacpp:prompt_tokens_total": 3324, "llamacpp:n_decode_total": 3000},
			map[string]float64{"drafts_offered": 352, "drafts_accepted": 211, "draft_accept_rate": 211. / 352, "prompt_tokens_read": 300, "decode_calls": 90}},
		{"vllm.star", `vllm_server("m")`,
			map[string]float64{`vllm:prefix_cache_queries_total{engine="0",model_name="m"}`: 100, `vllm:prefix_cache_hits_total{engine="0",model_name="m"}`: 0, `vllm:num_preemptions_total{engine="0",model_name="m"}`: 0},
			map[string]float64{`vllm:prefix_cache_queries_total{engine="0",model_name="m"}`: 300, `vllm:prefix_cache_hits_total{engine="0",model_name="m"}`: 64, `vllm:num_preemptions_total{engine="0",model_name="m"}`: 2},
			map[string]float64{"prefix_cache_queries": 200, "prefix_cache_hits": 64, "prefix_hit_rate": .32, "preemptions": 2}},
		{"sglang.star", `sglang_server("m")`,
			map[string]float64{`sglang:cached_tokens_total{cache_source="device"}`: 5, `sglang:cached_tokens_total{cache_source="host"}`: 1},
			map[string]float64{`sglang:cached_tokens_total{cache_source="device"}`: 25, `sglang:cached_tokens_total{cache_source="host"}`: 3, `sglang:spec_accept_length{model_name="m"}`: 2.5},
			map[string]float64{"prefix_cache_hits": 22, "accepted_per_round": 2.5}},
	} {
		name, _, _ := strings.Cut(c.call, "(")
		e := engineOf(t, c.file, name, c.call)
		ms := metric.Arm(&record.Arm{}, e.Metrics, metric.Inputs{Before: c.before, After: c.after})
		check(t, ms, c.want)
		for _, m := range ms {
			if c.file == "vllm.star" && m.Name == "drafts_offered" && (m.Value != nil || m.Why == "") {
				t.Errorf("vllm without drafts: %s is %v, %q", m.Name, m.Value, m.Why)
			}
		}
	}
}
