package exchange

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flow/workflows/record"
)

// paths are the keys of an object, nested ones with dots. Below keys whose members are names of other
// things (shards, sources, the engine's own metrics) it does not go.
func paths(v map[string]any, at string, out *[]string) {
	for k, x := range v {
		*out = append(*out, at+k)
		open := slices.Contains([]string{"file_sha256", "server_timings", "null_reasons"}, k) || strings.HasSuffix(at+k, ".against") || strings.HasSuffix(at+k, ".gaps") || strings.HasSuffix(at+k, ".metrics")
		if sub, ok := x.(map[string]any); ok && !open {
			paths(sub, at+k+".", out)
		}
	}
}

// Every key of a published row is in ours, filled or null with its reason.
func TestRowsHaveEveryKey(t *testing.T) {
	f, err := os.Open(filepath.Join("testdata", "strata-bench-rows.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	var want []string
	for in.Scan() {
		var row map[string]any
		if err := json.Unmarshal(in.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		paths(row, "", &want)
	}
	n, rate, ns := 20, 100., int64(1e9)
	arm := &record.Arm{ID: "a", Label: "B", Seq: 2, WallStartNS: 5e18, MonoStartNS: 1e9, Steps: []record.Step{{Name: "measure", StartNS: 1e9, EndNS: 3e9}},
		Requests: []record.Request{
			{Index: 0, Mark: record.MarkWarm, Status: "ok"},
			{Index: 1, Mark: record.MarkMeasured, Status: "ok", PromptSHA: "p", CompletionTokens: &n, SentNS: &ns, Timings: `{"predicted_n":20}`, FinishReason: "length", TextSHA: "t",
				Counts: []record.Count{{Source: "usage", What: "completion", N: 20}, {Source: "timings", What: "completion", N: 20}},
				Values: []record.Metric{{Name: "decode_tok_s", Value: &rate}, {Name: "ttft_ms", Why: "no token came"}}},
		},
		Samples: []record.Sample{{Sensor: "nvml.0.power_w", MonoNS: 15e8, Value: 100}, {Sensor: "nvml.0.power_w", MonoNS: 25e8, Value: 140}},
	}
	var b bytes.Buffer
	if err := WriteRows(&b, RowsInput{Session: &record.Session{}, Group: &record.Group{Name: "g"}, Arm: arm, Engine: "sim"}); err != nil {
		t.Fatal(err)
	}
	var row map[string]any
	if err := json.Unmarshal(b.Bytes(), &row); err != nil {
		t.Fatalf("not one row: %v\n%s", err, b.String())
	}
	var got []string
	paths(row, "", &got)
	for _, k := range want {
		k = strings.Replace(k, "strata", "sim", 1)
		if !slices.Contains(got, k) {
			t.Errorf("no key %s", k)
		}
	}
	reasons := row["null_reasons"].(map[string]any)
	var check func(v map[string]any, at string)
	check = func(v map[string]any, at string) {
		for k, x := range v {
			if x == nil && reasons[at+k] == nil && at != "count_check." {
				t.Errorf("%s is null without a reason", at+k)
			}
			if sub, ok := x.(map[string]any); ok && k != "null_reasons" {
				check(sub, at+k+".")
			}
		}
	}
	check(row, "")
	for k, v := range map[string]any{"row_id": "g/all/B3/run-001", "decode_tok_s": 100., "requests_since_start": 2., "ttft_ms": nil} {
		if row[k] != v {
			t.Errorf("%s: got %v, want %v", k, row[k], v)
		}
	}
	if board := row["telemetry"].(map[string]any)["board"].(map[string]any); board["mean_w"] != 120. || board["max_w"] != 140. {
		t.Errorf("board: got %v", board)
	}
	if check := row["count_check"].(map[string]any); check["verdict"] != "agree" {
		t.Errorf("count_check: got %v", check)
	}
}
