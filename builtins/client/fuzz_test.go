package client

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"flow/workflows/plan"
	"flow/workflows/record"
)

func seedFrames(f *testing.F) {
	for _, s := range []string{
		`{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"id":"x"}`,
		`{"choices":[{"delta":{"content":" caf\u00e9 \ud83d\ude82\n","reasoning_content":"hm"},"finish_reason":"stop"}],"usage":null}`,
		`{"choices":[],"usage":{"completion_tokens":64,"prompt_tokens_details":{"cached_tokens":9}},"timings":{"predicted_n":64,"predicted_ms":1.5e2}}`,
		`{"index":0,"content":" x","tokens":[1,2],"stop":false,"tokens_predicted":2,"tokens_evaluated":3}`,
		`{"index":0,"content":"","stop":true,"stop_type":"limit","timings":{}}`,
		`{"error":{"code":500,"message":"no"}}`, `{"choices":[{"text":"a","delta":{"tool_calls":[{"x":1}]}}]}`,
		`{"choices":[{"delta":{"content":"a","content":"b"}}],"choices":[{"delta":{}}]}`, `{"a":-0.5E+3,"b":[[],{}],"c":tru}`, "{\"content\":\"\xff\"}",
		` { "content" : "a" } `, `{"content":"\u0000"}`, `{"tokens":null,"stop":"true"}`, `{`, `[]`, ``, `{} {}`, `{"\u0063ontent":"x"}`,
	} {
		f.Add([]byte(s))
	}
}

// The quick reader accepts JSON only, and means what the slow one means.
func FuzzFrame(f *testing.F) {
	seedFrames(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var fast, slow frame
		var s scanner
		fast.reset()
		s.b = data
		if !fast.fast(&s) {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("the quick reader took %q, which is no JSON", data)
		}
		slow.reset()
		if !slow.slow(data) {
			t.Fatalf("the slow reader refuses %q", data)
		}
		if !means(&fast, &slow) {
			t.Fatalf("%q:\nquick %+v\nslow  %+v", data, fast, slow)
		}
	})
}

// means says that two frames say the same.
func means(a, b *frame) bool {
	return a.choice == b.choice && bytes.Equal(a.text, b.text) && bytes.Equal(a.reasoning, b.reasoning) &&
		a.tool == b.tool && a.finish == b.finish && bytes.Equal(a.usage, b.usage) && bytes.Equal(a.timings, b.timings) &&
		bytes.Equal(a.failure, b.failure) && a.stop == b.stop && a.stopType == b.stopType &&
		a.ids == b.ids && a.predicted == b.predicted && a.evaluated == b.evaluated && bytes.Equal(a.durations(), b.durations())
}

// What a frame means does not depend on the frames before it, whatever was learned from them.
func FuzzPattern(f *testing.F) {
	for _, s := range []string{
		`{"choices":[{"delta":{"content":" one"},"finish_reason":null}],"id":"x"}`, `{"choices":[{"delta":{"reasoning":"a","content":""}}]}`,
		`{"content":"a","content":"","stop":false}`, `{"choices":[{"text":"é"}],"choices":[{}]}`, `{"message":{"thinking":"a"},"done":false}`,
	} {
		f.Add([]byte(s), []byte(" two"))
		f.Add([]byte(s), []byte(`"},"finish_reason":"stop"}],"x":[{"y":{"z":"`))
	}
	f.Fuzz(func(t *testing.T, first, text []byte) {
		var known frame
		var s scanner
		if !known.parse(&s, bytes.Clone(first)) {
			return
		}
		// The same frame with another text, by the frame itself, and the text as a frame.
		nexts := [][]byte{first, text}
		if known.end > 0 {
			with := slices.Concat(first[:known.from], text, first[known.end:])
			nexts = [][]byte{with, text, with, first, with}
		}
		for _, next := range nexts {
			var alone frame
			got, want := known.parse(&s, next), alone.parse(&scanner{}, next)
			if got != want || got && !means(&known, &alone) {
				t.Fatalf("%q after %q: %t, alone %t:\n%+v\n%+v", next, first, got, want, known, alone)
			}
		}
	})
}

// Frames do not depend on where the bytes were cut, and their stamps never go back.
func FuzzSSE(f *testing.F) {
	for _, s := range []string{
		"data: a\n\ndata: b\n\n", "data: a\r\n\r\ndata: b\r\n\r\n", "data: a\rdata: b\r\r", ": c\n\ndata:x\ndata: y\n\n", "event: e\ndata\n\n",
		"\xef\xbb\xbfdata: bom\n\n", "data: cut", "data: [DONE]", "\r\n\r\ndata: z\n\r\n", "id: 1\ndata: é東\n\n\n\ndatax: no\n\n",
	} {
		f.Add([]byte(s), uint16(3), uint16(7))
	}
	f.Fuzz(func(t *testing.T, data []byte, first, second uint16) {
		want, _ := frames(t, data)
		a := int(first) % (len(data) + 1)
		b := a + int(second)%(len(data)-a+1)
		if got, _ := frames(t, data[:a], data[a:b], data[b:]); !equal(got, want) {
			t.Fatalf("%q cut at %d and %d: got %q, want %q", data, a, b, got, want)
		}
		var single [][]byte
		for i := range data {
			single = append(single, data[i:i+1])
		}
		if got, _ := frames(t, single...); !equal(got, want) {
			t.Fatalf("%q byte by byte: got %q, want %q", data, got, want)
		}
		if got, ref := want, reference(string(data)); !equal(got, ref) {
			t.Fatalf("%q: got %q, by the book %q", data, got, ref)
		}
	})
}

func frames(t *testing.T, parts ...[]byte) (out []string, at []int64) {
	s := sse{onFrame: func(data []byte, st stamp) error {
		out = append(out, string(data))
		at = append(at, st.ns)
		return nil
	}}
	for i, p := range parts {
		buf := bytes.Clone(p)
		if err := s.feed(buf, stamp{ns: int64(i)}); err != nil {
			t.Fatal(err)
		}
		for j := range buf {
			buf[j] = '#'
		}
	}
	if err := s.end(stamp{ns: int64(len(parts))}); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(at); i++ {
		if at[i] < at[i-1] {
			t.Fatalf("stamps go back: %v", at)
		}
	}
	return out, at
}

func equal(a, b []string) bool {
	return strings.Join(a, "\x00|") == strings.Join(b, "\x00|") && len(a) == len(b)
}

// reference reads a whole stream as the standard words it: simple, slow, and at once.
func reference(text string) (out []string) {
	text = strings.TrimPrefix(text, "\xef\xbb\xbf")
	// A byte order mark counts at the start of the stream only, and there the first line end is the test's.
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(text, "\n")
	last := lines[len(lines)-1]
	lines = lines[:len(lines)-1]
	if last == "data: [DONE]" || last == "data:[DONE]" {
		lines = append(lines, last)
	}
	var data []string
	for _, l := range append(lines, "") { // whole lines at the end count as a frame
		if l == "" {
			if data != nil {
				out = append(out, strings.Join(data, "\n"))
			}
			data = nil
			continue
		}
		field, value, _ := strings.Cut(l, ":")
		if field == "data" {
			data = append(data, strings.TrimPrefix(value, " "))
		}
	}
	return out
}

// Whatever a server sends, an answer ends in a row: no panic, a known status, and no number that is none.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(sseHead+chunked(chatFrame("a"))+chunked(finishFrame)+chunked(doneFrame)+lastOne), uint16(40), uint8(0))
	f.Add([]byte("HTTP/1.0 200 OK\r\n\r\ndata: {\"content\":\"x\",\"stop\":true,\"timings\":{\"predicted_n\":1}}\n\n"), uint16(3), uint8(2))
	f.Add([]byte("HTTP/1.1 503 No\r\nContent-Length: 5\r\n\r\nhello"), uint16(30), uint8(1))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"), uint16(9), uint8(0))
	f.Fuzz(func(t *testing.T, data []byte, cut uint16, kind uint8) {
		api := []string{plan.APIChat, plan.APICompletions, plan.APILlama}[int(kind)%3]
		at := int(cut) % (len(data) + 1)
		run := func(parts ...[]byte) record.Request {
			a := newAnswer(api, record.Request{})
			r := &response{onHeaders: a.headers, onPayload: a.payload}
			var err error
			for i, p := range parts {
				buf := bytes.Clone(p)
				if err = r.feed(buf, stamp{ns: int64(i)}); err != nil || r.complete {
					break
				}
				clear(buf)
			}
			if err == nil && !r.complete {
				if r.end(stamp{ns: 9}) {
					err = a.closed(9)
				} else {
					err = fail(kindClosed, errEOF)
				}
			}
			return a.finish(err)
		}
		whole, halves := run(data), run(data[:at], data[at:])
		for _, r := range []record.Request{whole, halves} {
			if r.Status != "ok" && r.Status != "error" && r.Status != "cut" || (r.Status == "ok") != (r.ErrorKind == "") {
				t.Fatalf("%q: status %q, kind %q", data, r.Status, r.ErrorKind)
			}
			for _, v := range []*float64{r.ServerDecodeTokS, r.ServerPromptMS, r.ServerDecodeMS} {
				if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
					t.Fatalf("%q: %v", data, *v)
				}
			}
			if _, err := json.Marshal(r); err != nil {
				t.Fatal(err)
			}
		}
		if whole.Text != halves.Text || whole.Frames != halves.Frames {
			// A line that is too long is one only when it comes in pieces.
			if whole.Status == halves.Status && whole.Status == "ok" {
				t.Fatalf("%q cut at %d: text %q and %q, frames %d and %d", data, at, whole.Text, halves.Text, whole.Frames, halves.Frames)
			}
		}
	})
}

func FuzzMetrics(f *testing.F) {
	f.Add("# HELP a b\na 1\nb{x=\"}\\\"\"} 2 3\n c{ 4\nd NaN")
	f.Fuzz(func(t *testing.T, text string) {
		for name, v := range parseMetrics(text) {
			if name == "" || math.IsNaN(v) || math.IsInf(v, 0) {
				t.Fatalf("%q: %q is %v", text, name, v)
			}
		}
	})
}
