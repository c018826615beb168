package simengine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		env  []string
		on   string // levers that are on
		err  string
	}{
		{name: "nothing"},
		{name: "on", args: []string{"--lever", "fast=+20%", "--on", "fast"}, on: "fast"},
		{name: "lists", args: []string{"--lever", "a=1%,b=-1%/+2%", "--lever", "c=.5", "--on", "c,a", "--on", "b", "--on", "a"}, on: "c a b"},
		{name: "by environment list", args: []string{"--lever", "a=1%,b=2%"}, env: []string{"FLOW_SIM_ON=b,a"}, on: "b a"},
		{name: "by its own variable", args: []string{"--lever", "flash-attn=1%"}, env: []string{"SIM_FLASH_ATTN=1"}, on: "flash-attn"},
		{name: "variable 0 is off", args: []string{"--lever", "a=1%"}, env: []string{"SIM_A=0"}},
		{name: "variable of no lever", env: []string{"SIM_A=1"}},
		{name: "ignored is accepted", args: []string{"--ignore", "dead", "--on", "dead"}, on: "dead"},
		{name: "text", args: []string{"--text-lever", "t", "--on", "t"}, on: "t"},
		{name: "unknown lever", args: []string{"--lever", "a=1%", "--on", "b"}, err: `unknown lever "b" (declared: a)`},
		{name: "unknown in environment", env: []string{"FLOW_SIM_ON=x"}, err: `unknown lever "x" (declared: none)`},
		{name: "effect", args: []string{"--lever", "a=fast"}, err: `got "fast", want a share`},
		{name: "no effect", args: []string{"--lever", "a"}, err: "want NAME=EFFECT"},
		{name: "minus all", args: []string{"--lever", "a=-100%"}, err: "above -100%"},
		{name: "not a number", args: []string{"--lever", "a=nan"}, err: "want a share"},
		{name: "drift", args: []string{"--drift", "1%/hour"}, err: "/request or"},
		{name: "rate", args: []string{"--decode-tok-s", "0"}, err: "want a rate above 0"},
		{name: "work", args: []string{"--work", "gpu"}, err: "want cpu"},
		{name: "frame", args: []string{"--tokens-per-frame", "0"}, err: "at least 1"},
		{name: "stray", args: []string{"x"}, err: "want flags only"},
		{name: "fault of no lever", args: []string{"--fault-when", "x"}, err: "unknown lever"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, err := parse("serve", tt.args, tt.env, io.Discard)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(o.on, " "); got != tt.on {
				t.Errorf("on: got %q, want %q", got, tt.on)
			}
		})
	}
}

func TestFaultWhen(t *testing.T) {
	args := []string{"--lever", "bad=0%", "--fault-when", "bad", "--die-at-token", "40", "--role-only-first=false", "--exit-before-ready", "3"}
	off, err := parse("serve", args, nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if off.dieAt != 0 || !off.roleFirst || off.exitBefore != -1 {
		t.Errorf("lever off: got %+v, want no faults", off.faults)
	}
	on, err := parse("serve", append(args, "--on", "bad"), nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if on.dieAt != 40 || on.roleFirst || on.exitBefore != 3 {
		t.Errorf("lever on: got %+v, want the faults", on.faults)
	}
}

func TestConfigFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sim.json")
	if err := os.WriteFile(file, []byte(`{"on":["a"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := parse("serve", []string{"--lever", "a=1%", "--config", file}, nil, io.Discard)
	if err != nil || strings.Join(o.on, " ") != "a" {
		t.Errorf("got %v, %v", o, err)
	}
}

// virtual is an engine without waiting.
func virtual(t *testing.T, args ...string) *engine {
	t.Helper()
	o, err := parse("serve", args, nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEngine(o, &virtualClock{}, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestRates(t *testing.T) {
	const base = 100.0
	for _, tt := range []struct {
		name            string
		args            []string
		request         int
		decode, prefill float64
	}{
		{"plain", nil, 1, base, 2000},
		{"fast", []string{"--lever", "fast=+20%", "--on", "fast"}, 1, 120, 2000},
		{"slow", []string{"--lever", "slow=-15%/+10%", "--on", "slow"}, 1, 85, 2200},
		{"two multiply", []string{"--lever", "a=20%,b=-15%", "--on", "a,b"}, 1, base * 1.2 * .85, 2000},
		{"null", []string{"--lever", "null=0", "--on", "null"}, 1, base, 2000},
		{"dead", []string{"--lever", "dead=50%", "--ignore", "dead", "--on", "dead"}, 1, base, 2000},
		{"warm penalty on the first", []string{"--warm-penalty", "10%"}, 0, 90, 1800},
		{"warm penalty not on the second", []string{"--warm-penalty", "10%"}, 1, base, 2000},
		{"drift", []string{"--drift", "1%/request"}, 3, base * math.Pow(1.01, 3), 2000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := virtual(t, tt.args...)
			d, p := e.rates(tt.request, e.active(nil))
			if math.Abs(d/tt.decode-1) > 1e-12 || math.Abs(p/tt.prefill-1) > 1e-12 {
				t.Errorf("got %v and %v, want %v and %v", d, p, tt.decode, tt.prefill)
			}
		})
	}
}

func TestNoise(t *testing.T) {
	draw := func(seed, nonce string) float64 {
		d, _ := virtual(t, "--noise", "2%", "--seed", seed, "--nonce", nonce).rates(1, nil)
		return d
	}
	if draw("1", "a") != draw("1", "a") {
		t.Error("the same seed and nonce give different noise")
	}
	if draw("1", "a") == draw("1", "b") || draw("1", "a") == draw("2", "a") {
		t.Error("another seed or nonce gives the same noise")
	}
	var sum, squares float64
	const n = 400
	for i := range n {
		x := math.Log(draw("7", fmt.Sprint(i)) / 100)
		sum += x
		squares += x * x
	}
	mean := sum / n
	sd := math.Sqrt(squares/n - mean*mean)
	// Fixed seeds: the bounds are four standard errors, 4·.02/√400 and 4·.02/√800.
	if math.Abs(mean) > .004 || math.Abs(sd-.02) > .003 {
		t.Errorf("mean %v, sd %v, want 0 and .02", mean, sd)
	}
}

func TestTokenizerIsARoundTrip(t *testing.T) {
	for range 20 {
		text := madeUp(300, 5)
		if got := len(pieces(text)); got != 300 {
			t.Fatalf("got %d pieces of 300 tokens", got)
		}
	}
	if got := len(pieces("")); got != 0 {
		t.Errorf("nothing has %d tokens", got)
	}
}

func FuzzPieces(f *testing.F) {
	f.Add(" a  bb\n\nccccccccccccccccccccccc 東京東京東京東京 \xff\xfe")
	f.Fuzz(func(t *testing.T, text string) {
		p := pieces(text)
		if strings.Join(p, "") != text {
			t.Fatalf("%q: got %q", text, p)
		}
		for _, one := range p {
			if one == "" {
				t.Fatalf("%q: empty token in %q", text, p)
			}
		}
		if len(keys(text)) != len(p) {
			t.Fatalf("%q: %d keys, %d tokens", text, len(keys(text)), len(p))
		}
	})
}

// post asks a server in this process, in virtual time.
func post(t *testing.T, e *engine, path, body string) string {
	t.Helper()
	s := &server{engine: e}
	s.loaded.Store(true)
	w := httptest.NewRecorder()
	s.routes().ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(body)))
	return w.Body.String()
}

// The deadlines, in virtual time: the rate between the first and the last token is the declared one to the
// nanosecond, with any number of tokens per frame.
func TestDeadlines(t *testing.T) {
	for _, k := range []int{1, 3, 7} {
		file := filepath.Join(t.TempDir(), "truth.jsonl")
		e := virtual(t, "--lever", "fast=+20%", "--on", "fast", "--tokens-per-frame", fmt.Sprint(k), "--truth", file)
		post(t, e, "/v1/chat/completions", `{"messages":[{"role":"user","content":"a b c d"}],"max_tokens":64,"stream":true}`)
		e.truth.close()
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		type frame struct {
			Before int64 `json:"before_ns"`
			Tokens int   `json:"tokens"`
		}
		var frames []frame
		total := 0
		for line := range bytes.Lines(data) {
			var w frame
			if err := json.Unmarshal(line, &w); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if w.Tokens > 0 {
				frames = append(frames, w)
				total += w.Tokens
			}
		}
		first, last := frames[0], frames[len(frames)-1]
		rate := float64(total-first.Tokens) / float64(last.Before-first.Before) * 1e9
		if total != 64 || math.Abs(rate/120-1) > 1e-6 {
			t.Errorf("%d a frame: got %d tokens at %v/s, want 64 at 120", k, total, rate)
		}
		// Four prompt tokens at 2000/s are 2 ms, and k-1 more tokens are in the first frame.
		if want := 2e6 + float64(k-1)/120*1e9; math.Abs(float64(first.Before)-want) > 2 {
			t.Errorf("%d a frame: first at %d ns, want %v", k, first.Before, want)
		}
	}
}

func TestPromptCache(t *testing.T) {
	cached := func(body string) float64 {
		var v struct {
			Timings map[string]float64 `json:"timings"`
		}
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		return v.Timings["cache_n"]
	}
	e := virtual(t)
	for _, tt := range []struct {
		prompt string
		extra  string
		want   float64
	}{
		{"one two three four", "", 0},
		{"one two three four", "", 3}, // the last token is always read
		{"one two three five", "", 3},
		{"zero one two three", "", 0},
		{"one two three four", `,"cache_prompt":false`, 0},
	} {
		body := fmt.Sprintf(`{"prompt":%q,"n_predict":2%s}`, tt.prompt, tt.extra)
		if got := cached(post(t, e, "/completion", body)); got != tt.want {
			t.Errorf("%s: got %v cached, want %v", body, got, tt.want)
		}
	}
	off := virtual(t, "--no-prompt-cache")
	for range 2 {
		if got := cached(post(t, off, "/completion", `{"prompt":"a b c","n_predict":1}`)); got != 0 {
			t.Errorf("no cache: got %v", got)
		}
	}
}

func TestText(t *testing.T) {
	text := func(e *engine, body string) string {
		var v struct {
			Content string `json:"content"`
		}
		if err := json.Unmarshal([]byte(post(t, e, "/completion", body)), &v); err != nil {
			t.Fatal(err)
		}
		return v.Content
	}
	plain := text(virtual(t), `{"prompt":"p","n_predict":12}`)
	if n := len(pieces(plain)); n != 12 {
		t.Errorf("got %d tokens in %q", n, plain)
	}
	if got := text(virtual(t, "--lever", "fast=20%", "--on", "fast", "--seed", "9"), `{"prompt":"p","n_predict":12}`); got != plain {
		t.Error("a lever that does not change the text changed it")
	}
	if got := text(virtual(t, "--text-lever", "t"), `{"prompt":"p","n_predict":12}`); got != plain {
		t.Error("a text lever that is off changed the text")
	}
	if got := text(virtual(t, "--text-lever", "t", "--on", "t"), `{"prompt":"p","n_predict":12}`); got == plain {
		t.Error("a text lever did not change the text")
	}
	if got := text(virtual(t, "--text-lever", "t"), `{"prompt":"p","n_predict":12,"sim_on":["t"]}`); got == plain {
		t.Error("a text lever of the request did not change the text")
	}
	if got := text(virtual(t), `{"prompt":"q","n_predict":12}`); got == plain {
		t.Error("another prompt has the same text")
	}
	warm := func(seed int) string {
		return text(virtual(t), fmt.Sprintf(`{"prompt":"p","n_predict":12,"temperature":1,"seed":%d}`, seed))
	}
	if a, again, b := warm(1), warm(1), warm(2); a == b || a != again {
		t.Error("with a temperature the seed decides")
	}
}

func TestMetricsAndProps(t *testing.T) {
	e := virtual(t, "--lever", "fast=+20%,null=0", "--ignore", "dead", "--on", "fast,dead")
	post(t, e, "/completion", `{"prompt":"a b","n_predict":5}`)
	m := e.metrics()
	for _, want := range []string{"sim_requests_total 1\n", "sim_tokens_total 5\n", "sim_prompt_tokens_total 2\n", `lever_active{name="fast"} 1`, `lever_active{name="dead"} 0`, `lever_active{name="null"} 0`} {
		if !strings.Contains(m, want) {
			t.Errorf("metrics lack %q:\n%s", want, m)
		}
	}
	s := &server{engine: e}
	w := httptest.NewRecorder()
	s.props(w, nil)
	for _, want := range []string{`"fast":true`, `"dead":false`, `"decode_tok_s":120`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("props lack %q: %s", want, w.Body)
		}
	}
}

func TestBenchFast(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "100,100,2000.00,12,92.31,20.000,11,100.00,458752"},
		{[]string{"--lever", "fast=+20%/-50%", "--on", "fast"}, "100,100,1000.00,12,110.77,16.667,11,120.00,458752"},
		{[]string{"--gen-tokens", "1"}, "100,100,2000.00,1,50.00,20.000,0,0.00,413696"},
	} {
		file := filepath.Join(t.TempDir(), "out.csv")
		var out, log bytes.Buffer
		args := append([]string{"bench", "--fast", "--csv", file, "--prompt-tokens", "100", "--gen-tokens", "12"}, tt.args...)
		if code := Main(args, &out, &log); code != 0 {
			t.Fatalf("%v: exit %d: %s", tt.args, code, &log)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		header, row, _ := strings.Cut(string(data), "\n")
		if header != csvHeader || strings.TrimSpace(row) != tt.want {
			t.Errorf("%v: got\n%s\nwant\n%s", tt.args, data, tt.want)
		}
		if !strings.Contains(out.String(), `ds4-bench: gen[ctx=100] decoded text: "`) {
			t.Errorf("no text in %q", &out)
		}
	}
}
