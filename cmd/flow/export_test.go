package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const exportedWorkflow = `
load("@flow//engines/sim.star", "sim_lever", "sim_server")
load("@flow//screens.star", "screen")
load("@flow//stops.star", "after")

e = sim_server(levers = {"fast": "+20%"}, decode_tok_s = 1000, prefill_tok_s = 50000)

def main(session):
    session.run(screen(sim_lever("fast"), engine = e, workload = workload(prompt = "Tell me of the river.", max_tokens = 20, nonce = True),
        gates = [], stops = [after(blocks = 1)]))
`

// keysOf are the keys of a row, nested ones with dots; objects whose members are names of other things count
// as one.
func keysOf(row map[string]any, at string, out map[string]any) {
	for k, v := range row {
		out[at+k] = v
		sub, ok := v.(map[string]any)
		if ok && !slices.Contains([]string{"file_sha256", "server_timings", "null_reasons", "against", "gaps", "metrics"}, k) {
			keysOf(sub, at+k+".", out)
		}
	}
}

// The rows of a run of the embedded engine, exported as a user does, have every key of a published row, the
// engine's own part under its name: filled, or null with a reason.
func TestExportedRowsHaveEveryKey(t *testing.T) {
	t.Parallel()
	f, err := os.Open(filepath.Join("..", "..", "workflows", "exchange", "testdata", "strata-bench-rows.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := map[string]any{}
	published := bufio.NewScanner(f)
	published.Buffer(nil, 1<<20)
	for published.Scan() {
		var row map[string]any
		if err := json.Unmarshal(published.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		keysOf(row, "", want)
	}
	c := newCampaign(t, exportedWorkflow)
	c.run(c.in("rows.db"), "", "run", "w.star", "--quiet")
	text, err := c.flow(c.in("rows.db"), "", "export", "last", "--format", "rows-jsonl").Output()
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range bytes.Lines(text) {
		var row map[string]any
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatalf("row %d: %v", rows, err)
		}
		rows++
		got := map[string]any{}
		keysOf(row, "", got)
		reasons, _ := row["null_reasons"].(map[string]any)
		for k := range want {
			k = strings.Replace(k, "strata", "sim", 1)
			if v, ok := got[k]; !ok {
				t.Errorf("row %d has no %s", rows, k)
			} else if why, _ := reasons[k].(string); v == nil && why == "" {
				t.Errorf("row %d: %s is null without a reason", rows, k)
			}
		}
		if v, ok := row["decode_tok_s"].(float64); !ok || v <= 0 {
			t.Errorf("row %d: decode_tok_s is %v", rows, row["decode_tok_s"])
		}
	}
	if rows != 4 {
		t.Errorf("got %d rows, want one for each of 4 arms", rows)
	}
}
