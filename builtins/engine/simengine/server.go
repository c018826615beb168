package simengine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// server answers HTTP. It answers 503 until it is loaded, on every path, as llama-server does.
type server struct {
	*engine
	loaded atomic.Bool
}

// serve is the server form: it listens at once, loads, and ends on SIGTERM.
func serve(ctx context.Context, args, env []string, stderr io.Writer) int {
	o, err := parse("serve", args, env, stderr)
	if err != nil {
		return usageCode(err, stderr)
	}
	died := make(chan int, 1)
	e, err := newEngine(o, realClock{newMonotonic()}, stderr, func(code int) {
		if code == 0 {
			killSelf()
		}
		select {
		case died <- code:
		default:
		}
	})
	if err != nil {
		return usageCode(err, stderr)
	}
	if e.truth != nil {
		defer e.truth.close()
	}
	if o.ignoreTerm {
		signal.Ignore(syscall.SIGTERM, os.Interrupt)
		ctx = context.WithoutCancel(ctx)
	}
	e.log.printf("sim: start pid=%d seed=%d decode_tok_s=%g prefill_tok_s=%g", os.Getpid(), o.seed, o.decode, o.prefill)
	listener, err := net.Listen("tcp", net.JoinHostPort(o.host, strconv.Itoa(o.port)))
	if err != nil {
		e.log.printf("sim: error: %v", err)
		return exitRun
	}
	s := &server{engine: e}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	web := &http.Server{
		Handler:           s.routes(),
		BaseContext:       func(net.Listener) context.Context { return running },
		ReadHeaderTimeout: 30 * time.Second,
	}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }()
	defer web.Close()
	if code, ok := s.load(ctx); !ok {
		return code
	}
	if !o.neverReady {
		s.loaded.Store(true)
		e.log.printf("sim: listening on http://%s", listener.Addr())
	}
	select {
	case code := <-died:
		return code
	case err := <-ended:
		if !errors.Is(err, http.ErrServerClosed) {
			e.log.printf("sim: error: %v", err)
			return exitRun
		}
	case <-ctx.Done():
		e.log.printf("sim: stopping")
	}
	cancel() // streams end at once, without their last frames
	grace, done := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer done()
	_ = web.Shutdown(grace)
	return exitOK
}

// Handler is the server inside the caller's process, loaded and listening nowhere: for tests of clients.
// args are those of serve. A death of the engine ends the connection as a killed process does.
func Handler(args []string, log io.Writer) (http.Handler, error) {
	o, err := parse("serve", args, nil, log)
	if err != nil {
		return nil, err
	}
	e, err := newEngine(o, realClock{newMonotonic()}, log, func(int) { panic(http.ErrAbortHandler) })
	if err != nil {
		return nil, err
	}
	s := &server{engine: e}
	s.announce()
	s.loaded.Store(!o.neverReady)
	return s.routes(), nil
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { respond(w, 200, map[string]any{"status": "ok"}) })
	mux.HandleFunc("GET /metrics", s.metricsPage)
	mux.HandleFunc("GET /props", s.props)
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, 200, map[string]any{"object": "list", "data": []any{map[string]any{"id": "sim", "object": "model", "owned_by": "flow"}}})
	})
	mux.HandleFunc("POST /tokenize", s.tokenize)
	for path, kind := range map[string]kind{"/v1/chat/completions": chat, "/v1/completions": completions, "/completion": native, "/api/generate": ollama} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, kind) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.loaded.Load() {
			refuse(w, 503, "unavailable_error", "Loading model")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// props says what is in effect, so that a lever can be confirmed over HTTP. What a dead lever would
// change is not there.
func (s *server) props(w http.ResponseWriter, _ *http.Request) {
	levers := map[string]bool{}
	active := s.active(nil)
	for name := range s.o.levers {
		levers[name] = slices.Contains(active, name)
	}
	decode, prefill := s.rates(1, active)
	respond(w, 200, map[string]any{
		"model": "sim", "levers": levers, "active": append([]string{}, active...), "seed": s.o.seed,
		"n_ctx": s.o.ctx, "total_slots": s.o.slots, "decode_tok_s": decode, "prefill_tok_s": prefill,
	})
}

func (s *server) tokenize(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Content string `json:"content"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		refuse(w, 400, "invalid_request_error", err.Error())
		return
	}
	ids := []int{}
	for _, p := range pieces(body.Content) {
		ids = append(ids, tokenID(p))
	}
	respond(w, 200, map[string]any{"tokens": ids})
}

func respond(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, kind, msg string) {
	respond(w, status, map[string]any{"error": map[string]any{"code": status, "message": msg, "type": kind}})
}

// kind is which API a request speaks.
type kind int

const (
	chat kind = iota
	completions
	native
	ollama
)

// ask is a request, whatever API it came by.
type ask struct {
	kind        kind
	prompt      string
	max         int
	temperature float64
	seed        int64
	stream      bool
	usage       bool // usage at the end of a stream
	everyUsage  bool // and in every frame
	cache       bool
	ids         bool // native: token ids
	ignoreEOS   bool
	on          []string // levers of this request alone
}

// read decodes a request body.
func (s *server) read(r *http.Request, k kind) (ask, error) {
	a := ask{kind: k, cache: true}
	var body struct {
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Prompt      json.RawMessage `json:"prompt"`
		MaxTokens   *int            `json:"max_tokens"`
		MaxNew      *int            `json:"max_completion_tokens"`
		NPredict    *int            `json:"n_predict"`
		Temperature float64         `json:"temperature"`
		Seed        int64           `json:"seed"`
		Stream      bool            `json:"stream"`
		Options     struct {
			Usage bool `json:"include_usage"`
			Every bool `json:"continuous_usage_stats"`
		} `json:"stream_options"`
		CachePrompt *bool           `json:"cache_prompt"`
		IDs         bool            `json:"return_tokens"`
		IgnoreEOS   bool            `json:"ignore_eos"`
		On          []string        `json:"sim_on"`
		Ollama      json.RawMessage `json:"options"`
	}
	body.Stream = k == ollama // which streams unless told otherwise
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return a, err
	}
	if k == chat {
		var parts []string
		for _, m := range body.Messages {
			text, err := content(m.Content)
			if err != nil {
				return a, err
			}
			parts = append(parts, text)
		}
		a.prompt = strings.Join(parts, "\n")
	} else {
		text, err := content(body.Prompt)
		if err != nil {
			return a, err
		}
		a.prompt = text
	}
	a.max = 128
	for _, n := range []*int{body.MaxTokens, body.MaxNew, body.NPredict} {
		if n != nil && *n >= 0 {
			a.max = max(*n, 1) // llama.cpp gives one token for 0
		}
	}
	a.temperature, a.seed, a.stream = body.Temperature, body.Seed, body.Stream
	a.usage, a.everyUsage = body.Options.Usage, body.Options.Usage && body.Options.Every
	a.ids, a.ignoreEOS, a.on = body.IDs, body.IgnoreEOS, body.On
	if k == ollama {
		if err := ollamaOptions(&a, body.Ollama); err != nil {
			return a, err
		}
	}
	if body.CachePrompt != nil {
		a.cache = *body.CachePrompt
	}
	for _, name := range a.on {
		if err := s.o.known(name); err != nil {
			return a, err
		}
	}
	return a, nil
}

// content is a string, or the text parts of a list.
func content(raw json.RawMessage) (string, error) {
	var text string
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", fmt.Errorf("content: want a string or a list of text parts")
	}
	for _, p := range parts {
		text += p.Text
	}
	return text, nil
}
