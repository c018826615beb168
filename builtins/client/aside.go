package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"

	"flow/starlark/diag"
)

// Tokenize asks the engine how many tokens text has, without the ones that mark its beginning and end.
func (c *Client) Tokenize(ctx context.Context, text string) (int, error) {
	if c.o.API.Tokenize == "" {
		return 0, &diag.Error{Kind: diag.Workflow, Op: "tokenize", Msg: "the API names no tokenize path", Fix: `api = api.openai_chat(tokenize = "/tokenize")`}
	}
	ask := map[string]any{"content": text, "prompt": text, "add_special": false, "add_special_tokens": false} // llama.cpp's names and vLLM's
	if c.o.API.Model != "" {
		ask["model"] = c.o.API.Model
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return 0, fmt.Errorf("tokenize: %w", err)
	}
	data, err := c.small(ctx, http.MethodPost, c.o.API.Tokenize, body)
	if err != nil {
		return 0, fmt.Errorf("tokenize: %w", err)
	}
	var answer struct {
		Count  *int              `json:"count"`
		Tokens []json.RawMessage `json:"tokens"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return 0, fmt.Errorf("tokenize: got %.60q, want JSON with tokens: %w", data, err)
	}
	switch {
	case answer.Count != nil:
		return *answer.Count, nil
	case answer.Tokens != nil:
		return len(answer.Tokens), nil
	}
	return 0, fmt.Errorf("tokenize: got %.60q, want JSON with tokens or count", data)
}

// Metrics reads the engine's metrics endpoint. Prometheus text gives name, with its labels as they are
// written, to value; JSON gives the path of each number, such as "totals.output_tokens". Values that are not
// finite are left out.
func (c *Client) Metrics(ctx context.Context) (map[string]float64, error) {
	if c.o.API.Metrics == "" {
		return nil, &diag.Error{Kind: diag.Workflow, Op: "metrics", Msg: "the API names no metrics path", Fix: `api = api.openai_chat(metrics = "/metrics")`}
	}
	data, err := c.small(ctx, http.MethodGet, c.o.API.Metrics, nil)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '{' {
		return parseJSONMetrics(trimmed)
	}
	return parseMetrics(string(data)), nil
}

// parseJSONMetrics reads what Strata serves:
//
//	{"engine":{"model":"…"},"live":{"state":"idle","tok_s":null},"requests":[{"output_tokens":256}],"totals":{"requests":3}}
//
// as live.tok_s, requests.0.output_tokens, totals.requests. Truth values are 0 and 1; all else is left out.
func parseJSONMetrics(data []byte) (map[string]float64, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var root map[string]any
	if err := dec.Decode(&root); err != nil {
		return nil, fmt.Errorf("metrics: got %.60q, want Prometheus text or a JSON object: %w", data, err)
	}
	out := map[string]float64{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case json.Number:
			if f, err := v.Float64(); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
				out[path] = f
			}
		case bool:
			out[path] = 0
			if v {
				out[path] = 1
			}
		case map[string]any:
			for k, x := range v {
				walk(path+"."+k, x)
			}
		case []any:
			for i, x := range v {
				walk(path+"."+strconv.Itoa(i), x)
			}
		}
	}
	for k, v := range root {
		walk(k, v)
	}
	return out, nil
}

// smallMost bounds an answer that nobody times: the largest metrics pages have some hundred KiB.
const smallMost = 8 << 20

// small is a request that nobody times.
func (c *Client) small(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.o.BaseURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range c.o.API.Headers {
		req.Header.Set(k, v)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	} else {
		req.Header.Set("Accept", "text/plain")
	}
	resp, err := c.aside.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, smallMost+1))
	if err != nil {
		return nil, err
	}
	if len(data) > smallMost {
		return nil, fmt.Errorf("%s: got more than %d MiB, want a short answer", path, smallMost>>20)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP %d: %s", resp.StatusCode, message(data))
	}
	return data, nil
}

// parseMetrics reads Prometheus text:
//
//	# TYPE llamacpp:prompt_tokens_total counter
//	llamacpp:prompt_tokens_total 3024
//	lever_active{name="fast"} 1 1796051641000
//
// Lines that it does not understand are skipped.
func parseMetrics(text string) map[string]float64 {
	out := map[string]float64{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest := series(line)
		fields := strings.Fields(rest)
		if name == "" || len(fields) == 0 {
			continue
		}
		if v, err := strconv.ParseFloat(fields[0], 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
			out[name] = v
		}
	}
	return out
}

// series splits a line into the name with its labels and the rest. Label values may hold anything,
// braces and escaped quotes included.
func series(line string) (name, rest string) {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '}':
			return line[:i+1], line[i+1:]
		case (c == ' ' || c == '\t') && !strings.Contains(line[:i], "{"):
			return line[:i], line[i+1:]
		}
	}
	return "", ""
}
