package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"flow/starlark/diag"
	"flow/workflows/plan"
)

// body is the JSON that is sent: what the API needs, with the API's and then the prompt's own objects
// merged in. Keys are sorted, so equal requests have equal bytes.
func (o Options) body(p Prompt) ([]byte, error) {
	text := p.Text
	if p.Nonce != "" {
		text = p.Nonce + "\n" + text // at token 0, so that no part of the prompt is cached
	}
	b := map[string]any{"temperature": p.Temperature, "seed": p.Seed, "stream": true}
	switch o.API.Kind {
	case plan.APIChat:
		b["messages"] = []any{map[string]any{"role": "user", "content": text}}
		b["max_tokens"] = p.MaxTokens
		b["stream_options"] = map[string]any{"include_usage": true}
	case plan.APICompletions:
		b["prompt"] = text
		b["max_tokens"] = p.MaxTokens
		b["stream_options"] = map[string]any{"include_usage": true}
	case plan.APILlama:
		b["prompt"] = text
		b["n_predict"] = p.MaxTokens
		b["return_tokens"] = true
	case plan.APIOllama:
		delete(b, "temperature")
		delete(b, "seed")
		b["options"] = map[string]any{"temperature": p.Temperature, "seed": p.Seed, "num_predict": p.MaxTokens}
		if strings.Contains(o.API.Path, "chat") {
			b["messages"] = []any{map[string]any{"role": "user", "content": text}}
		} else {
			b["prompt"] = text
		}
	}
	if o.API.Model != "" {
		b["model"] = o.API.Model
	}
	if p.IgnoreEOS && o.API.Kind != plan.APIOllama { // which has no such thing
		b["ignore_eos"] = true
	}
	for _, more := range []struct{ what, text string }{{"the API's body", o.API.Body}, {"the request's body", p.Body}} {
		if more.text == "" {
			continue
		}
		var add map[string]any
		dec := json.NewDecoder(strings.NewReader(more.text))
		dec.UseNumber()
		if err := dec.Decode(&add); err != nil {
			return nil, &diag.Error{Kind: diag.Workflow, Op: "request", Msg: fmt.Sprintf("%s: got %.60q, want a JSON object", more.what, more.text), Fix: `body = {"top_k": 1}`, Err: err}
		}
		merge(b, add)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(b); err != nil {
		return nil, fmt.Errorf("request body: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// asked is the most tokens that the prompt's body asks for; 0 where an object that was merged in says
// something of its own about it.
func (o Options) asked(p Prompt) int {
	for _, more := range []string{o.API.Body, p.Body} {
		for _, name := range []string{`"max_tokens"`, `"max_completion_tokens"`, `"n_predict"`, `"num_predict"`, `"n"`} {
			if strings.Contains(more, name) {
				return 0
			}
		}
	}
	return max(p.MaxTokens, 0)
}

// merge is a JSON merge patch: objects are merged, null removes, everything else replaces.
func merge(into, add map[string]any) {
	for k, v := range add {
		switch v := v.(type) {
		case nil:
			delete(into, k)
		case map[string]any:
			sub, ok := into[k].(map[string]any)
			if !ok {
				sub = map[string]any{}
			}
			merge(sub, v)
			into[k] = sub
		default:
			into[k] = v
		}
	}
}

// request is the whole message that is written to the socket in one piece.
func (o Options) request(base *url.URL, path string, body []byte) ([]byte, error) {
	full := base.Path + path
	u := &url.URL{Path: full}
	if at := strings.IndexByte(full, '?'); at >= 0 {
		u.Path, u.RawQuery = full[:at], full[at+1:]
	}
	headers := map[string]string{
		"Host": base.Host, "Content-Type": "application/json", "Accept": "text/event-stream", "User-Agent": "flow",
		"Content-Length": fmt.Sprint(len(body)),
	}
	for k, v := range o.API.Headers {
		if bad := strings.ContainsAny(k+v, "\r\n") || k == "" || strings.ContainsAny(k, " :\t"); bad {
			return nil, &diag.Error{Kind: diag.Workflow, Op: "request", Msg: fmt.Sprintf("got header %q: %q, want one line each", k, v), Fix: `headers = {"Authorization": "Bearer …"}`}
		}
		if k = http.CanonicalHeaderKey(k); k != "Content-Length" && k != "Transfer-Encoding" && k != "Connection" {
			headers[k] = v
		}
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "POST %s HTTP/1.1\r\n", u.RequestURI())
	for _, k := range slices.Sorted(maps.Keys(headers)) {
		fmt.Fprintf(&out, "%s: %s\r\n", k, headers[k])
	}
	out.WriteString("\r\n")
	out.Write(body)
	return out.Bytes(), nil
}
