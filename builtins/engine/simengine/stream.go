package simengine

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// generation is one request being answered.
type generation struct {
	*engine
	ask
	no              int // from 0
	http            http.ResponseWriter
	flush           *http.ResponseController
	active          []string
	decode, prefill float64
	prompt          int // tokens
	cached          int
	max             int
	finish          string
	out             int // tokens generated
	text            strings.Builder
	thought         strings.Builder
	promptNS        int64
	decodeNS        int64
	writes          []write
	buf             []byte
}

// generate answers one request on any of the three paths.
func (s *server) generate(w http.ResponseWriter, r *http.Request, k kind) {
	a, err := s.read(r, k)
	if err != nil {
		refuse(w, 400, "invalid_request_error", err.Error())
		return
	}
	ctx := r.Context()
	prompt := keys(a.prompt)
	if s.o.ctx > 0 && len(prompt) >= s.o.ctx {
		refuse(w, 400, "exceed_context_size_error",
			fmt.Sprintf("request (%d tokens) exceeds the available context size (%d tokens), try increasing it", len(prompt), s.o.ctx))
		return
	}
	if s.slots != nil {
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		case <-ctx.Done():
			return
		}
	}
	s.running.Add(1)
	defer s.running.Add(-1)
	g := &generation{engine: s.engine, ask: a, no: s.begin(), http: w, flush: http.NewResponseController(w), prompt: len(prompt)}
	g.active = s.active(a.on)
	g.decode, g.prefill = s.rates(g.no, g.active)
	g.cached = s.cached(prompt, a.cache)
	g.max, g.finish = a.max, "length"
	if s.o.eosAt > 0 && !a.ignoreEOS && s.o.eosAt < g.max {
		g.max, g.finish = s.o.eosAt, "stop"
	}
	if s.o.ctx > 0 {
		g.max = min(g.max, s.o.ctx-len(prompt))
	}
	if g.run(ctx) {
		s.count(totals{1, g.out, g.prompt, g.cached})
	}
	if s.truth != nil {
		s.truth.add(g.no, g.ask.prompt, g.writes)
	}
	s.face(g)
	s.log.printf("sim: request %d prompt_tokens=%d cached_tokens=%d completion_tokens=%d prompt_ms=%.3f decode_ms=%.3f",
		g.no, g.prompt, g.cached, g.out, ms(g.promptNS), ms(g.decodeNS))
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

// run is false when the answer did not come to its end.
func (g *generation) run(ctx context.Context) bool {
	start := g.clock.now()
	if g.stream {
		g.http.Header().Set("Content-Type", map[bool]string{false: "text/event-stream", true: "application/x-ndjson"}[g.kind == ollama])
		g.http.Header().Set("Cache-Control", "no-store")
		if g.kind == chat && g.o.roleFirst {
			g.choice(delta{role: true})
		}
	}
	if !g.read(ctx, start+int64(float64(g.prompt-g.cached)/g.prefill*1e9)) {
		return false
	}
	first := g.clock.now()
	g.promptNS = first - start
	if !g.say(ctx, first) {
		return false
	}
	if !g.stream {
		g.whole()
		return true
	}
	return g.end()
}

// read waits while the prompt is read, with comments when asked.
func (g *generation) read(ctx context.Context, done int64) bool {
	const every = int64(50 * time.Millisecond)
	for g.o.keepAlive && g.stream && done-g.clock.now() > every {
		g.comment()
		if !g.clock.until(ctx, g.clock.now()+every, false) {
			return false
		}
	}
	return g.clock.until(ctx, done, true)
}

// say generates the tokens. Token i (from 0) is due at first + i/rate; a frame of several leaves when its
// last token is due.
func (g *generation) say(ctx context.Context, first int64) bool {
	words := newWriter(g.ask.prompt, g.flavour(g.active), g.temperature, g.seed)
	frame := delta{}
	for i := range g.max {
		word := words.next()
		thinking := g.kind == chat && i < g.o.reasoning
		if g.finish == "stop" && i == g.max-1 {
			word = "" // the end token counts and says nothing
		}
		if thinking {
			g.thought.WriteString(word)
			frame.reasoning += word
		} else {
			g.text.WriteString(word)
			frame.content += word
		}
		frame.ids = append(frame.ids, tokenID(word))
		last := i == g.max-1
		turn := thinking && i == g.o.reasoning-1
		if len(frame.ids) < g.o.perFrame && !last && !turn {
			continue
		}
		if g.o.work == "cpu" {
			for range frame.ids {
				g.burn(g.decode)
			}
			if ctx.Err() != nil {
				return false
			}
		} else if !g.clock.until(ctx, first+int64(float64(i)/g.decode*1e9), i == 0 || last) {
			return false
		}
		if g.o.flood {
			g.log.flood()
		}
		g.out = i + 1
		g.decodeNS = g.clock.now() - first
		if g.stream && frame.content+frame.reasoning != "" {
			begun := g.clock.now()
			if !g.choice(frame) {
				return false
			}
			// What the deadlines count from is when the first token left. Where the machine took the
			// processor away around that write, its end is closer to the truth than its beginning.
			if end := g.clock.now(); i < g.o.perFrame && end-begun > int64(200*time.Microsecond) {
				first = end - g.decodeNS
			}
		}
		before := i + 1 - len(frame.ids)
		frame = delta{}
		if !g.faults(ctx, before, i+1, &first) {
			return false
		}
	}
	return true
}

// faults is what goes wrong between two frames, when the tokens out have just gone from before to out.
func (g *generation) faults(ctx context.Context, before, out int, first *int64) bool {
	at := func(n int) bool { return n > before && n <= out }
	o := g.o
	switch {
	case at(o.dieAt):
		g.log.printf("sim: dying at token %d", out)
		if g.truth != nil {
			g.truth.add(g.no, g.ask.prompt, g.writes)
		}
		g.die(o.dieCode)
		<-ctx.Done()
		return false
	case at(o.hangAt):
		g.log.printf("sim: hanging at token %d", out)
		<-ctx.Done()
		return false
	case at(o.errorAt):
		g.log.printf("sim: error at token %d", out)
		const body = `{"error":{"code":500,"message":"the engine failed in the middle","type":"server_error"}}`
		if g.stream {
			g.send([]byte(body), 0)
		} else {
			refuse(g.http, 500, "server_error", "the engine failed in the middle")
		}
		return false
	case at(o.stallAt):
		g.log.printf("sim: stalling at token %d", out)
		pause := int64(o.stallMS) * 1e6
		*first += pause
		if !g.clock.until(ctx, g.clock.now()+pause, false) {
			return false
		}
	}
	if !g.stream {
		return true
	}
	const often = 8
	if o.garbage && out/often > before/often {
		g.send([]byte(`{"choices":[{"delta":{"content":"`+"\x00<<garbage"), 0)
	}
	if o.keepAlive && out/often > before/often {
		g.comment()
	}
	return true
}

// delta is what one frame adds.
type delta struct {
	role      bool
	content   string
	reasoning string
	ids       []int
	finish    string
}

// choice sends a frame that has a choice; false is a client that left.
func (g *generation) choice(d delta) bool {
	b := g.buf[:0]
	switch g.kind {
	case ollama:
		b = append(b, g.ollamaLine(d)...)
	case native:
		b = append(b, `{"index":0,"content":`...)
		b = quote(b, d.content+d.reasoning)
		if g.ids {
			b = append(b, `,"tokens":[`...)
			for i, id := range d.ids {
				if i > 0 {
					b = append(b, ',')
				}
				b = strconv.AppendInt(b, int64(id), 10)
			}
			b = append(b, ']')
		}
		b = fmt.Appendf(b, `,"stop":false,"id_slot":0,"tokens_predicted":%d,"tokens_evaluated":%d}`, g.out, g.prompt)
	case completions:
		b = append(b, `{"choices":[{"text":`...)
		b = quote(b, d.content)
		b = append(b, `,"index":0,"logprobs":null,"finish_reason":`...)
		b = g.tail(b, d, "text_completion", "}]")
	case chat:
		b = append(b, `{"choices":[{"finish_reason":`...)
		if d.finish == "" {
			b = append(b, "null"...)
		} else {
			b = quote(b, d.finish)
		}
		b = append(b, `,"index":0,"delta":{`...)
		switch {
		case d.role:
			b = append(b, `"role":"assistant","content":null`...)
		case d.reasoning != "":
			b = append(b, `"reasoning_content":`...)
			b = quote(b, d.reasoning)
		case d.finish == "":
			b = append(b, `"content":`...)
			b = quote(b, d.content)
		}
		b = append(b, `}}]`...)
		b = g.envelope(b, d, "chat.completion.chunk")
	}
	g.buf = b
	return g.send(b, len(d.ids))
}

func (g *generation) tail(b []byte, d delta, object, closing string) []byte {
	if d.finish == "" {
		b = append(b, "null"...)
	} else {
		b = quote(b, d.finish)
	}
	b = append(b, closing...)
	return g.envelope(b, d, object)
}

// envelope is what every OpenAI frame ends with.
func (g *generation) envelope(b []byte, d delta, object string) []byte {
	b = fmt.Appendf(b, `,"created":%d,"id":"sim-%d","model":"sim","object":%q`, 1_800_000_000, g.no, object)
	if g.everyUsage && !g.o.noUsage {
		b = append(b, `,"usage":`...)
		b = append(b, g.usageJSON()...)
	}
	if d.finish != "" && (!g.usage || g.o.noUsage) && !g.o.noTimings {
		b = append(b, `,"timings":`...)
		b = append(b, g.timingsJSON()...)
	}
	return append(b, '}')
}

// quote appends s as a JSON string.
func quote(b []byte, s string) []byte {
	q, _ := json.Marshal(s) // a string cannot fail
	return append(b, q...)
}

// end sends the frames after the last token.
func (g *generation) end() bool {
	if g.kind == ollama {
		return g.send(g.ollamaEnd(), 0)
	}
	if g.kind == native {
		b := fmt.Appendf(nil, `{"index":0,"content":"","tokens":[],"id_slot":0,"stop":true,"model":"sim","tokens_predicted":%d,"tokens_evaluated":%d,"stop_type":%q,"tokens_cached":%d,"truncated":false`,
			g.out+g.o.wrongUsage, g.prompt, map[string]string{"length": "limit", "stop": "eos"}[g.finish], g.prompt+g.out)
		if !g.o.noTimings {
			b = append(append(b, `,"timings":`...), g.timingsJSON()...)
		}
		return g.send(append(b, '}'), 0)
	}
	if !g.choice(delta{finish: g.finish}) {
		return false
	}
	if g.usage && !g.o.noUsage {
		object := map[kind]string{chat: "chat.completion.chunk", completions: "text_completion"}[g.kind]
		b := fmt.Appendf(nil, `{"choices":[],"created":%d,"id":"sim-%d","model":"sim","object":%q,"usage":%s`, 1_800_000_000, g.no, object, g.usageJSON())
		if !g.o.noTimings {
			b = append(append(b, `,"timings":`...), g.timingsJSON()...)
		}
		if !g.send(append(b, '}'), 0) {
			return false
		}
	}
	return g.o.noDone || g.send([]byte("[DONE]"), 0)
}

// whole is the answer of a request without stream.
func (g *generation) whole() {
	if g.kind == native {
		respond(g.http, 200, map[string]any{
			"content": g.text.String(), "stop": true, "tokens_predicted": g.out + g.o.wrongUsage, "tokens_evaluated": g.prompt,
			"stop_type": map[string]string{"length": "limit", "stop": "eos"}[g.finish], "timings": json.RawMessage(g.timingsJSON()),
		})
		return
	}
	choice := map[string]any{"index": 0, "finish_reason": g.finish}
	object := "chat.completion"
	if g.kind == chat {
		message := map[string]any{"role": "assistant", "content": g.text.String()}
		if g.thought.Len() > 0 {
			message["reasoning_content"] = g.thought.String()
		}
		choice["message"] = message
	} else {
		choice["text"] = g.text.String()
		object = "text_completion"
	}
	body := map[string]any{"choices": []any{choice}, "created": 1_800_000_000, "id": fmt.Sprintf("sim-%d", g.no), "model": "sim", "object": object}
	if !g.o.noUsage {
		body["usage"] = json.RawMessage(g.usageJSON())
	}
	if !g.o.noTimings {
		body["timings"] = json.RawMessage(g.timingsJSON())
	}
	respond(g.http, 200, body)
}

// reported is the cached tokens as they are told.
func (g *generation) reported() int {
	if g.o.cachedTokens >= 0 {
		return g.o.cachedTokens
	}
	return g.cached
}

func (g *generation) usageJSON() []byte {
	n := g.out + g.o.wrongUsage
	b := fmt.Appendf(nil, `{"completion_tokens":%d,"prompt_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}`,
		n, g.prompt, n+g.prompt, g.reported())
	if g.kind == chat && g.o.reasoning > 0 {
		b = fmt.Appendf(b, `,"completion_tokens_details":{"reasoning_tokens":%d}`, min(g.o.reasoning, g.out))
	}
	return append(b, '}')
}

// timingsJSON has llama.cpp's conventions, its faults included: predicted_ms runs from the first token
// while predicted_n counts it, and one token is a million a second.
func (g *generation) timingsJSON() []byte {
	cached := g.reported()
	read := g.prompt - cached
	promptMS, decodeMS := ms(g.promptNS), ms(g.decodeNS)
	per := func(total float64, n int) float64 { return total / float64(max(n, 1)) }
	second := func(n int, total float64) float64 {
		if total <= 0 {
			return 1e6
		}
		return float64(n) / total * 1e3
	}
	all := map[string]any{
		"cache_n": cached, "prompt_n": read, "prompt_ms": promptMS, "prompt_per_token_ms": per(promptMS, read), "prompt_per_second": second(read, promptMS),
		"predicted_n": g.out, "predicted_ms": decodeMS, "predicted_per_token_ms": per(decodeMS, g.out), "predicted_per_second": second(g.out, decodeMS),
	}
	if g.o.as == "strata" {
		all["draft_n"], all["draft_n_accepted"] = g.drafted()
	}
	b, _ := json.Marshal(all) // plain finite numbers cannot fail
	return b
}

// comment sends a line that no client may take for data.
func (g *generation) comment() { _ = g.write([]byte(": keep-alive" + g.eol() + g.eol())) }

func (g *generation) eol() string {
	if g.o.crlf {
		return "\r\n"
	}
	return "\n"
}

// send writes one frame; false is a client that left.
func (g *generation) send(data []byte, tokens int) bool {
	frame := make([]byte, 0, len(data)+10)
	if g.kind == ollama {
		frame = append(append(frame, data...), '\n')
	} else {
		frame = append(frame, "data: "...)
		frame = append(frame, data...)
		frame = append(frame, g.eol()...)
		frame = append(frame, g.eol()...)
	}
	before := g.clock.now()
	ok := g.write(frame)
	if g.truth != nil {
		g.writes = append(g.writes, write{before, g.clock.now(), tokens})
	}
	return ok
}

// write puts bytes on the wire at once, in several writes with --split-frames: inside the word "data",
// inside a character when there is one, and between the two line ends.
func (g *generation) write(b []byte) bool {
	cuts := []int{len(b)}
	if g.o.split {
		middle := len(b) / 2
		for i, c := range b {
			if c >= 0x80 {
				middle = i + 1
				break
			}
		}
		cuts = []int{3, max(middle, 4), len(b) - 1, len(b)}
	}
	from := 0
	for i, to := range cuts {
		if i > 0 {
			const apart = 150 * time.Microsecond
			g.clock.until(context.Background(), g.clock.now()+int64(apart), false)
		}
		if _, err := g.http.Write(b[from:to]); err != nil {
			return false
		}
		if err := g.flush.Flush(); err != nil {
			return false
		}
		from = to
	}
	return true
}
