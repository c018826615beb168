package simengine

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// lever is a declared lever: the factors by which it multiplies the two rates when it is on.
type lever struct {
	decode  float64 // 1.2 is +20 %
	prefill float64
	text    bool // changes the greedy text
	dead    bool // accepted, does nothing, says nothing
}

// drift changes the decode rate over the life of the process: rate × (1+per)^n, n counting requests or
// seconds.
type drift struct {
	per  float64
	unit string // request or s
}

// options is the parsed command line.
type options struct {
	host string
	port int

	decode, prefill float64 // true rates with every lever off, tokens per second
	work            string  // "", or cpu
	levers          map[string]lever
	on              []string // in the order asked, each once
	drift           drift
	noise           float64 // standard deviation of the logarithm of a launch's rates
	warmPenalty     float64 // share by which the first request is slower
	firstStep       float64 // length of a bench's first decode step, in steps
	seed            int64
	nonce           string // of this launch: with the seed it fixes the noise
	ctx             int    // context in tokens, 0 is unlimited
	slots           int    // requests at once, 0 is unlimited
	eosAt           int    // natural end after so many tokens, 0 is never
	noPromptCache   bool
	noTimings       bool
	truth           string
	as              string // whose log and metrics it has: "", strata

	faults

	// bench
	csv          string
	promptTokens int
	promptFile   string
	genTokens    int
	fast         bool
}

// faults is what the engine does wrong. when limits all of it to one lever being on.
type faults struct {
	when             string
	dieAt, dieCode   int
	hangAt, errorAt  int
	garbage          bool
	perFrame         int
	roleFirst        bool
	reasoning        int
	wrongUsage       int
	cachedTokens     int // -1 is as it is
	slowStart        time.Duration
	neverReady       bool
	ignoreTerm       bool
	leaveChild       bool
	takeMemory       int // MiB
	flood            bool
	exitBefore       int // -1 is no
	noUsage, noDone  bool
	crlf, keepAlive  bool
	split            bool
	stallAt, stallMS int
}

// none is the engine without faults; roleFirst is how a chat server behaves.
func none() faults { return faults{perFrame: 1, roleFirst: true, cachedTokens: -1, exitBefore: -1} }

// list is a repeatable flag whose values may be comma-separated.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(s string) error {
	for _, v := range strings.Split(s, ",") {
		if v = strings.TrimSpace(v); v != "" {
			*l = append(*l, v)
		}
	}
	return nil
}

// parse reads the flags of one form. env is what os.Environ gives.
func parse(form string, args, env []string, stderr io.Writer) (*options, error) {
	o := &options{faults: none(), levers: map[string]lever{}}
	var declared, on, texts, dead list
	var driftText, noiseText, warmText, config string
	fs := flag.NewFlagSet("sim-engine "+form, flag.ContinueOnError)
	fs.SetOutput(stderr)
	switch form {
	case "serve":
		fs.StringVar(&o.host, "host", "127.0.0.1", "address to listen on")
		fs.IntVar(&o.port, "port", 0, "port to listen on; 0 picks a free one")
	case "bench":
		fs.StringVar(&o.csv, "csv", "", "file to write the results to")
		fs.IntVar(&o.promptTokens, "prompt-tokens", 512, "length of the prompt that is made up when there is no file")
		fs.StringVar(&o.promptFile, "prompt-file", "", "file with the prompt")
		fs.IntVar(&o.genTokens, "gen-tokens", 128, "tokens to generate")
		fs.BoolVar(&o.fast, "fast", false, "virtual time: no sleeping, exact rates")
		fs.Float64Var(&o.firstStep, "first-step", 2, "length of the first decode step, in steps")
	}
	fs.Float64Var(&o.decode, "decode-tok-s", 100, "true decode rate with every lever off")
	fs.Float64Var(&o.prefill, "prefill-tok-s", 2000, "true prefill rate with every lever off")
	fs.StringVar(&o.work, "work", "", "cpu: burn a fixed amount of work per token instead of waiting for deadlines")
	fs.Var(&declared, "lever", "NAME=EFFECT[/PREFILL]: a lever and its true effect, such as fast=+20% (repeatable, comma-separated)")
	fs.Var(&on, "on", "NAME: switch a declared lever on (repeatable); also FLOW_SIM_ON=a,b and SIM_NAME=1")
	fs.Var(&texts, "text-lever", "NAME: a lever that changes the greedy text (repeatable)")
	fs.Var(&dead, "ignore", "NAME: a lever that is accepted, does nothing and logs nothing (repeatable)")
	fs.StringVar(&config, "config", "", `JSON file whose "on" lists levers to switch on`)
	fs.StringVar(&driftText, "drift", "", "change of the decode rate per request or second: .1%/request, -1%/s")
	fs.StringVar(&noiseText, "noise", "0", "standard deviation of a launch's rates (log-normal): 2%")
	fs.StringVar(&warmText, "warm-penalty", "0", "how much slower the first request is: 10%")
	fs.Int64Var(&o.seed, "seed", 1, "seed of the noise")
	fs.StringVar(&o.nonce, "nonce", "", "names this launch: with the seed it fixes the noise; also FLOW_SIM_NONCE")
	fs.IntVar(&o.ctx, "ctx", 0, "context in tokens; a longer prompt is refused (0: no limit)")
	fs.IntVar(&o.slots, "slots", 0, "requests served at once, others wait (0: no limit)")
	fs.IntVar(&o.eosAt, "eos-at", 0, "end by itself after so many tokens unless the request ignores it")
	fs.BoolVar(&o.noPromptCache, "no-prompt-cache", false, "forget every prompt")
	fs.BoolVar(&o.noTimings, "no-timings", false, "send no timings object")
	fs.StringVar(&o.as, "as", "", "strata: log lines and JSON metrics in its manner")
	fs.StringVar(&o.truth, "truth", "", "file for the monotonic time of every write, JSON lines")
	f := &o.faults
	fs.StringVar(&f.when, "fault-when", "", "NAME: the faults below happen only while this lever is on")
	fs.IntVar(&f.dieAt, "die-at-token", 0, "the process dies when so many tokens are out")
	fs.IntVar(&f.dieCode, "die-code", 0, "exit code of that death; 0 is SIGKILL")
	fs.IntVar(&f.hangAt, "hang-at-token", 0, "send nothing more when so many tokens are out")
	fs.IntVar(&f.errorAt, "error-at-token", 0, "send an error frame when so many tokens are out, and end")
	fs.BoolVar(&f.garbage, "garbage-frames", false, "send frames that are no JSON in between")
	fs.IntVar(&f.perFrame, "tokens-per-frame", 1, "tokens of one frame")
	fs.BoolVar(&f.roleFirst, "role-only-first", true, "chat: send a frame with the role alone before the prompt is read")
	fs.IntVar(&f.reasoning, "reasoning-first", 0, "chat: so many tokens of reasoning first")
	fs.IntVar(&f.wrongUsage, "wrong-usage", 0, "add this to the usage's completion tokens")
	fs.IntVar(&f.cachedTokens, "cached-tokens", -1, "report so many cached tokens, whatever is true")
	fs.DurationVar(&f.slowStart, "slow-start", 0, "time until ready")
	fs.BoolVar(&f.neverReady, "never-ready", false, "stay loading for ever")
	fs.BoolVar(&f.ignoreTerm, "ignore-sigterm", false, "do not end on SIGTERM")
	fs.BoolVar(&f.leaveChild, "leave-child", false, "leave a process in a session of its own behind")
	fs.IntVar(&f.takeMemory, "take-memory", 0, "MiB to take before ready")
	fs.BoolVar(&f.flood, "flood-log", false, "write 64 KiB of log per token")
	fs.IntVar(&f.exitBefore, "exit-before-ready", -1, "exit with this code before ready")
	fs.BoolVar(&f.noUsage, "no-usage", false, "send no usage even when asked")
	fs.BoolVar(&f.noDone, "no-done", false, "send no [DONE]")
	fs.BoolVar(&f.crlf, "crlf", false, "end lines with CR LF")
	fs.BoolVar(&f.keepAlive, "keepalive-comments", false, "send comments between frames and while the prompt is read")
	fs.BoolVar(&f.split, "split-frames", false, "send every frame in several writes")
	fs.IntVar(&f.stallAt, "stall-at-token", 0, "pause when so many tokens are out; the deadlines move with it")
	fs.IntVar(&f.stallMS, "stall-ms", 200, "length of that pause")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("got argument %q, want flags only", fs.Arg(0))
	}
	var err error
	for _, p := range []struct {
		flag, text string
		to         *float64
	}{{"noise", noiseText, &o.noise}, {"warm-penalty", warmText, &o.warmPenalty}} {
		if *p.to, err = percent(p.text); err != nil {
			return nil, fmt.Errorf("--%s: %w", p.flag, err)
		}
	}
	if o.drift, err = parseDrift(driftText); err != nil {
		return nil, fmt.Errorf("--drift: %w", err)
	}
	for _, d := range declared {
		name, l, err := parseLever(d)
		if err != nil {
			return nil, fmt.Errorf("--lever: %w", err)
		}
		o.levers[name] = l
	}
	for _, name := range texts {
		l := o.lever(name)
		l.text = true
		o.levers[name] = l
	}
	for _, name := range dead {
		l := o.lever(name)
		l.dead = true
		o.levers[name] = l
	}
	if config != "" {
		more, err := readConfig(config)
		if err != nil {
			return nil, err
		}
		on = append(on, more...)
	}
	environ := environment(env)
	_ = on.Set(environ["FLOW_SIM_ON"])
	if o.nonce == "" {
		o.nonce = environ["FLOW_SIM_NONCE"]
	}
	for _, name := range slices.Sorted(maps.Keys(o.levers)) {
		if v := environ[envName(name)]; v != "" && v != "0" {
			on = append(on, name)
		}
	}
	for _, name := range on {
		if err := o.known(name); err != nil {
			return nil, err
		}
		if !slices.Contains(o.on, name) {
			o.on = append(o.on, name)
		}
	}
	return o, o.check()
}

// check refuses values that no engine can have.
func (o *options) check() error {
	for _, n := range []struct {
		flag  string
		value float64
	}{{"decode-tok-s", o.decode}, {"prefill-tok-s", o.prefill}} {
		if !(n.value > 0) || math.IsInf(n.value, 0) {
			return fmt.Errorf("--%s: got %v, want a rate above 0", n.flag, n.value)
		}
	}
	switch {
	case o.work != "" && o.work != "cpu":
		return fmt.Errorf("--work: got %q, want cpu", o.work)
	case o.as != "" && o.as != "strata":
		return fmt.Errorf("--as: got %q, want strata", o.as)
	case o.perFrame < 1:
		return fmt.Errorf("--tokens-per-frame: got %d, want at least 1", o.perFrame)
	case o.noise < 0:
		return fmt.Errorf("--noise: got %v, want at least 0", o.noise)
	case o.warmPenalty < 0 || o.warmPenalty >= 1:
		return fmt.Errorf("--warm-penalty: got %v, want 0 to below 100%%", o.warmPenalty)
	case o.takeMemory < 0 || o.slots < 0 || o.ctx < 0:
		return fmt.Errorf("got a negative size, want at least 0")
	}
	if o.when != "" {
		if err := o.known(o.when); err != nil {
			return fmt.Errorf("--fault-when: %w", err)
		}
		if !slices.Contains(o.on, o.when) {
			off := none()
			off.when = o.when
			o.faults = off
		}
	}
	return nil
}

// lever is a declared lever, or a neutral new one.
func (o *options) lever(name string) lever {
	if l, ok := o.levers[name]; ok {
		return l
	}
	return lever{decode: 1, prefill: 1}
}

// known refuses a lever that nobody declared: a real engine refuses an unknown flag.
func (o *options) known(name string) error {
	if _, ok := o.levers[name]; ok {
		return nil
	}
	names := strings.Join(slices.Sorted(maps.Keys(o.levers)), ", ")
	if names == "" {
		names = "none"
	}
	return fmt.Errorf("unknown lever %q (declared: %s)", name, names)
}

// envName is the variable that switches a lever on: SIM_FLASH_ATTN for flash-attn.
func envName(name string) string {
	return "SIM_" + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name))
}

func environment(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, kv := range env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			m[k] = v
		}
	}
	return m
}

func readConfig(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	var c struct {
		On []string `json:"on"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("--config: %s: %w", path, err)
	}
	return c.On, nil
}

// percent reads "2%", "+20%", ".02" or "0" as a ratio.
func percent(s string) (float64, error) {
	text, scale := s, 1.0
	if t, ok := strings.CutSuffix(s, "%"); ok {
		text, scale = t, 100
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("got %q, want a share such as 2%% or .02", s)
	}
	return v / scale, nil
}

// parseLever reads "fast=+20%" or "fast=+20%/-5%": the effect on decode and, after the slash, on prefill.
func parseLever(s string) (string, lever, error) {
	name, effect, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return "", lever{}, fmt.Errorf("got %q, want NAME=EFFECT such as fast=+20%%", s)
	}
	l := lever{decode: 1, prefill: 1}
	decode, prefill, both := strings.Cut(effect, "/")
	e, err := percent(decode)
	if err != nil {
		return "", lever{}, err
	}
	l.decode += e
	if both {
		if e, err = percent(prefill); err != nil {
			return "", lever{}, err
		}
		l.prefill += e
	}
	if l.decode <= 0 || l.prefill <= 0 {
		return "", lever{}, fmt.Errorf("got %q, want an effect above -100%%", s)
	}
	return name, l, nil
}

func parseDrift(s string) (drift, error) {
	if s == "" {
		return drift{}, nil
	}
	text, unit, ok := strings.Cut(s, "/")
	if !ok || (unit != "request" && unit != "s") {
		return drift{}, fmt.Errorf("got %q, want .1%%/request or .1%%/s", s)
	}
	per, err := percent(text)
	if err != nil {
		return drift{}, err
	}
	if per <= -1 {
		return drift{}, fmt.Errorf("got %q, want a drift above -100%%", s)
	}
	return drift{per, unit}, nil
}
