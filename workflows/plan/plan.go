// Package plan holds what is asked: engines, levers, sides, workloads, gates, stops and groups as
// immutable values with the place where the user wrote them.
//
// Its opinion: a refusal belongs in the constructor, so that `flow check` finds it before a night is
// spent. It also holds the two contracts between a body and the runner, Arm and Process, as net/http
// holds Handler and ResponseWriter. The package knows neither Starlark nor the machine.
package plan

import (
	"context"
	"time"

	"flow/starlark/diag"
	"flow/workflows/record"
)

// Code is a function of the workflow. Fingerprint is asked at session.run, not at declaration, because a
// helper may be defined below its user. The zero Code is "no function" (or one written in Go).
type Code struct {
	Name        string
	Pos         diag.Pos
	Fingerprint func() (string, error)
}

// Check judges an arm. It must not keep the arm. An error is a mistake in the function, never a finding.
type Check func(ctx context.Context, a *record.Arm) (record.Finding, error)

// Rule says why a group should end; "" means go on.
type Rule func(ctx context.Context, g *record.Group) (reason string, err error)

// Body acts out one arm. nil is the standard body: launch, confirm, warm, measure, stop.
type Body func(ctx context.Context, a Arm) error

// Arm is what a body gets: one execution of one side.
type Arm interface {
	Side() Side
	Workload() Workload
	Label() string
	Launch(ctx context.Context, e Engine) (Process, error)
	Check(ctx context.Context, g Gate) (record.Finding, error)
	Warm(ctx context.Context, p Process, w Workload) error
	Measure(ctx context.Context, p Process, w Workload) error
	Sample(ctx context.Context, d time.Duration) ([]record.Sample, error)
	Exec(ctx context.Context, argv []string) (record.Exec, error)
	Record(m record.Metric) error
}

// Process is a launched (or attached) engine.
type Process interface {
	// Confirm reads the evidence of every lever of the group, on whichever side this process is.
	Confirm(ctx context.Context) ([]record.Evidence, error)
	// Generate sends the workload's requests; mark is record.MarkWarm or record.MarkMeasured. A failed
	// request is a row with a status, not an error. A command engine runs to its end on MarkMeasured and
	// does nothing on MarkWarm.
	Generate(ctx context.Context, w Workload, mark string) ([]record.Request, error)
	// Stop ends the engine and proves that nothing is left. It may be called more than once.
	Stop(ctx context.Context) error
	// Info is what is known of the process so far.
	Info() *record.Process
}

// Engine is the program under test.
type Engine struct {
	Name       string              `json:"name"`
	Pos        diag.Pos            `json:"-"`
	Command    []string            `json:"command,omitempty"` // never through a shell; placeholders in braces
	URL        string              `json:"url,omitempty"`     // attached, not launched; excludes Command
	Env        map[string]string   `json:"env,omitempty"`
	Unset      []string            `json:"unset,omitempty"`
	Dir        string              `json:"dir,omitempty"`         // "" is a fresh folder of the arm
	Config     map[string]string   `json:"config,omitempty"`      // file name (in {out}) to content
	Files      []string            `json:"files,omitempty"`       // model files to fingerprint
	Flags      map[string][]string `json:"flags,omitempty"`       // flags that take a value, to their aliases
	Bare       []string            `json:"bare,omitempty"`        // flags that take none
	Version    []string            `json:"version,omitempty"`     // command whose output is the version
	VersionLog string              `json:"version_log,omitempty"` // RE2 whose first group is the version, in the log; where no command says it
	Origin     map[string]string   `json:"origin,omitempty"`      // repository, commit, tag, patch, dirty, toolchain
	Ready      Ready               `json:"ready"`
	API        *API                `json:"api,omitempty"` // nil: a command engine
	Metrics    []Metric            `json:"metrics,omitempty"`
	Evidence   []string            `json:"evidence,omitempty"` // arguments added on every side so that evidence is printed
	Timeouts   Timeouts            `json:"timeouts"`
	StopSignal string              `json:"stop_signal,omitempty"` // SIGTERM when empty
	Launch     *Systemd            `json:"launch,omitempty"`      // nil: plainly, as a child of flow's supervisor
	Resources  []string            `json:"resources,omitempty"`   // what it uses: gpus:N, gpu:UUID, cpus:SET, numa:N, disk:ID; nil is the whole host
	Collectors []Collector         `json:"collectors,omitempty"`  // what samples it and its machine, in every group that it is part of
}

// Timeouts bound the steps. Zero is the default named here.
type Timeouts struct {
	Ready   time.Duration `json:"ready,omitempty"`   // launch to ready; 120 s
	Request time.Duration `json:"request,omitempty"` // one request, and a command engine's whole run; 600 s
	Stop    time.Duration `json:"stop,omitempty"`    // grace between the stop signal and the kill; 10 s
}

// WithDefaults fills in what was not said.
func (t Timeouts) WithDefaults() Timeouts {
	if t.Ready == 0 {
		t.Ready = 120 * time.Second
	}
	if t.Request == 0 {
		t.Request = 600 * time.Second
	}
	if t.Stop == 0 {
		t.Stop = 10 * time.Second
	}
	return t
}

// Kinds of Ready.
const (
	ReadyHTTP = "http" // GET Path answers Status
	ReadyLog  = "log"  // Pattern matches a log line
	ReadyPort = "port" // the port accepts and is owned by the process tree
	ReadyExit = "exit" // a command engine: ready when launched
)

// Ready says how one knows that a server can be asked. The zero value is ReadyExit.
type Ready struct {
	Kind    string `json:"kind,omitempty"`
	Path    string `json:"path,omitempty"`
	Status  int    `json:"status,omitempty"`  // 200 when zero
	Pattern string `json:"pattern,omitempty"` // RE2
}

// Kinds of API.
const (
	APIChat        = "openai_chat"        // POST /v1/chat/completions, SSE
	APICompletions = "openai_completions" // POST /v1/completions, SSE
	APILlama       = "llama_completion"   // POST /completion, SSE without [DONE]
	APIOllama      = "ollama"             // POST /api/generate, one JSON object a line
)

// API is how a server is asked.
type API struct {
	Kind     string            `json:"kind"`
	Path     string            `json:"path,omitempty"` // "" is the kind's own
	Model    string            `json:"model,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
	Body     string            `json:"body,omitempty"`     // canonical JSON object merged into every request
	Tokenize string            `json:"tokenize,omitempty"` // path of a /tokenize endpoint; "" is none
	Metrics  string            `json:"metrics,omitempty"`  // path of a metrics endpoint, Prometheus text or JSON; "" is none
	Counts   []CountFrom       `json:"counts,omitempty"`   // token counts that the engine gives beside its answers
}

// CountFrom is where an engine says how many tokens a request had, beside its answer: a log line of the
// request, or a series of the metrics endpoint that grows by them.
type CountFrom struct {
	What    string `json:"what"`              // completion, prompt, cached, draft, accepted
	Log     string `json:"log,omitempty"`     // RE2 whose first group is the number, one match a request
	Series  string `json:"series,omitempty"`  // of the metrics endpoint: its growth over the request
	Running string `json:"running,omitempty"` // a series that says how many requests run now; What is empty then
}

// Arg is one entry of a lever's args.
type Arg struct {
	Flag   string   `json:"flag"`
	Values []string `json:"values,omitempty"` // one, or several for a repeated flag
	Bare   bool     `json:"bare,omitempty"`
	Remove bool     `json:"remove,omitempty"`
}

// Kinds of Confirm.
const (
	ConfirmLog     = "log"     // Pattern (RE2) matches the log
	ConfirmHTTP    = "http"    // GET Path, JSON Pointer equals Equals (or is there)
	ConfirmMetric  = "metric"  // metric Name above, below, equals
	ConfirmLiteral = "literal" // Text is in the binary's bytes
	ConfirmEnviron = "environ" // the process's environment holds what the lever sets
	ConfirmHost    = "host"    // every host setting of the lever reads back as it was set
	ConfirmNone    = "none"    // Reason says why not
)

// Confirm is what proves that a lever took effect. Several hold together or not at all.
type Confirm struct {
	Kind    string   `json:"kind"`
	Pattern string   `json:"pattern,omitempty"`
	Path    string   `json:"path,omitempty"`
	Pointer string   `json:"pointer,omitempty"`
	Name    string   `json:"name,omitempty"`
	Text    string   `json:"text,omitempty"`
	Equals  *string  `json:"equals,omitempty"`
	Above   *float64 `json:"above,omitempty"`
	Below   *float64 `json:"below,omitempty"`
	Reason  string   `json:"reason,omitempty"`
}

// Lever is one named change. Its identity in history is Key, not its evidence or note.
type Lever struct {
	Name          string            `json:"name"`
	Pos           diag.Pos          `json:"-"`
	Factor        string            `json:"factor,omitempty"`
	Level         int               `json:"level,omitempty"` // place in its factor, from 0
	Env           map[string]string `json:"env,omitempty"`
	Unset         []string          `json:"unset,omitempty"`
	Args          []Arg             `json:"args,omitempty"`
	Without       []string          `json:"without,omitempty"`
	Binary        string            `json:"binary,omitempty"`
	Config        map[string]string `json:"config,omitempty"`
	Request       string            `json:"request,omitempty"` // canonical JSON object merged into the body
	Host          []HostSetting     `json:"host,omitempty"`    // of the machine, put back when the arm ends
	Confirm       []Confirm         `json:"confirm"`
	ChangesOutput bool              `json:"changes_output,omitempty"`
	Requires      []string          `json:"requires,omitempty"`
	Conflicts     []string          `json:"conflicts,omitempty"`
	Note          string            `json:"note,omitempty"`
}

// Stack is an ordered set of levers.
type Stack []Lever

// Factor is levers that exclude each other and whose order is known.
type Factor struct {
	Name   string   `json:"name"`
	Pos    diag.Pos `json:"-"`
	Levels []Lever  `json:"levels"`
}

// Profile is a named base.
type Profile struct {
	Name   string   `json:"name"`
	Pos    diag.Pos `json:"-"`
	Engine Engine   `json:"engine"`
	Stack  Stack    `json:"stack"`
}

// Prompt is one prompt of a workload: a file under the workflow's root, a text, or made-up words.
type Prompt struct {
	File   string `json:"file,omitempty"` // label relative to the workflow's root
	Text   string `json:"text,omitempty"`
	Bytes  int    `json:"bytes,omitempty"`  // of a file: so much of its beginning, whole words; 0 is all
	Random int    `json:"random,omitempty"` // so many random words, a function of Seed: they mis-exercise experts and drafts
	Seed   int64  `json:"seed,omitempty"`
}

// Case is a point of a workload.
type Case struct {
	Name      string   `json:"name"` // "" for the only one
	Prompts   []Prompt `json:"prompts"`
	MaxTokens int      `json:"max_tokens"`
	Ctx       int      `json:"ctx,omitempty"` // the {ctx} placeholder; 0 is not said
}

// Workload is what an arm asks of the engine.
type Workload struct {
	Pos         diag.Pos      `json:"-"`
	Cases       []Case        `json:"cases"`
	Rule        string        `json:"rule,omitempty"` // all, worst, each; "" is all
	Temperature float64       `json:"temperature"`
	Seed        int64         `json:"seed"`
	IgnoreEOS   bool          `json:"ignore_eos,omitempty"`
	Nonce       bool          `json:"nonce,omitempty"`
	Repeat      int           `json:"repeat"`                // measured requests per prompt
	Warmup      int           `json:"warmup"`                // warm requests, of the first prompt
	Concurrency int           `json:"concurrency,omitempty"` // 1 when zero
	Body        string        `json:"body,omitempty"`        // canonical JSON object merged into every request
	Arrival     *Arrival      `json:"arrival,omitempty"`     // nil: a closed loop of Concurrency
	Stable      *Stable       `json:"stable,omitempty"`      // warm up until stable; nil: Warmup requests
	ClientCPUs  string        `json:"client_cpus,omitempty"` // pin flow to these CPUs while it asks: "0", "0-1,4"; "" leaves it free
	Think       time.Duration `json:"think,omitempty"`       // closed loop: pause between an answer and the next request of its place
}

// Kinds of Arrival.
const (
	ArrivalConstant = "constant" // one every 1/Rate seconds
	ArrivalPoisson  = "poisson"  // exponential gaps of mean 1/Rate, a function of the group's seed
	ArrivalBurst    = "burst"    // Size at once every Every
	ArrivalTrace    = "trace"    // at Times
)

// Arrival is an open loop: requests are sent when they are due, whatever the answers do.
type Arrival struct {
	Kind  string        `json:"kind"`
	Rate  float64       `json:"rate,omitempty"`  // requests a second
	Size  int           `json:"size,omitempty"`  // burst
	Every time.Duration `json:"every,omitempty"` // burst
	Times []float64     `json:"times,omitempty"` // trace: seconds since the beginning, rising
}

// Stable ends a warm-up when the last Window requests of a case differ by less than Within in their whole
// time, and at AtMost requests at the latest.
type Stable struct {
	Within float64 `json:"within"` // ratio: largest over smallest less one
	Window int     `json:"window"`
	AtMost int     `json:"at_most"`
}

// Extract is where a declared metric comes from.
type Extract struct {
	Kind    string `json:"kind"`              // csv, json, log, stdout, prometheus, request
	Path    string `json:"path,omitempty"`    // file in {out} (csv, json), URL path (prometheus)
	Column  string `json:"column,omitempty"`  // csv
	Pointer string `json:"pointer,omitempty"` // json: RFC 6901
	Pattern string `json:"pattern,omitempty"` // log, stdout: RE2 whose first group is the number
	Name    string `json:"name,omitempty"`    // prometheus series; request: a built-in request metric
	Counter bool   `json:"counter,omitempty"` // prometheus: the growth over the measured step, not the value; series named *_total always
	Row     string `json:"row,omitempty"`     // csv: only (exactly one row; default), last, first, sum, mean
}

// Metric is a declared metric: extracted, or a formula of others.
type Metric struct {
	Name    string   `json:"name"`
	Pos     diag.Pos `json:"-"`
	Unit    string   `json:"unit"`
	Better  string   `json:"better"` // higher, lower, "" when neither
	Extract *Extract `json:"extract,omitempty"`
	Of      string   `json:"of,omitempty"`
}

// Phases of a gate.
const (
	PhaseBefore = "before"
	PhaseDuring = "during"
	PhaseAfter  = "after"
)

// Gate is a condition that an arm must meet to count. Before-gates see an arm that has only samples.
type Gate struct {
	Name     string   `json:"name"`
	Pos      diag.Pos `json:"-"`
	Phase    string   `json:"phase"`           // before or after; a guard is during
	Scope    string   `json:"scope"`           // arm; group gates get the last arm with all its group
	Needs    []string `json:"needs,omitempty"` // sensors; a trailing * matches
	Required bool     `json:"required"`
	Params   string   `json:"params,omitempty"` // thresholds, canonical JSON
	Check    Check    `json:"-"`
	Code     Code     `json:"-"`
}

// Guard is a condition on a sensor, judged while the arm runs; it ends the arm.
type Guard struct {
	Name   string        `json:"name"`
	Pos    diag.Pos      `json:"-"`
	Sensor string        `json:"sensor"`
	Above  *float64      `json:"above,omitempty"` // breach when the value is above
	Below  *float64      `json:"below,omitempty"`
	Growth bool          `json:"growth,omitempty"` // judge the growth since the arm began, not the value
	Hold   time.Duration `json:"hold,omitempty"`   // how long the breach must last; 0 is one sample
	Also   []string      `json:"also,omitempty"`   // sensors that may be missing here: the worse of them and Sensor is judged
	Sides  []string      `json:"sides,omitempty"`  // only on these sides; nil is all
	Step   string        `json:"step,omitempty"`   // only while that step of the arm runs; "" is the whole arm
	While  *While        `json:"while,omitempty"`  // only while another sensor reads enough
}

// While narrows a guard to the time in which another sensor reads more than Above: a clock is judged while
// the device is busy.
type While struct {
	Sensor string  `json:"sensor"`
	Above  float64 `json:"above"`
}

// Stop ends a group early. Cap, when set, is the group's cap in blocks (after(blocks = n)). Sequential
// says that the rule looks at results and is group-sequential over the cap, so that the group's
// intervals are printed at the level of its looks.
type Stop struct {
	Name       string   `json:"name"`
	Pos        diag.Pos `json:"-"`
	Cap        int      `json:"cap,omitempty"`
	Sequential bool     `json:"sequential,omitempty"`
	EachArm    bool     `json:"each_arm,omitempty"` // asked after every arm too, not only after a block
	Params     string   `json:"params,omitempty"`
	Rule       Rule     `json:"-"`
	Code       Code     `json:"-"`
}

// Side is what is compared.
type Side struct {
	Label    string    `json:"label"`
	Engine   Engine    `json:"engine"`
	Stack    Stack     `json:"stack"`
	Workload *Workload `json:"workload,omitempty"` // nil: the group's
}

// Probe is an arm of the control before the group and after a failed gate; its metric must be inside the
// band before the group goes on.
type Probe struct {
	Metric  string        `json:"metric"`
	Above   *float64      `json:"above,omitempty"`
	Below   *float64      `json:"below,omitempty"`
	Retries int           `json:"retries,omitempty"` // 3 when zero
	Pause   time.Duration `json:"pause,omitempty"`   // between tries
}

// Group is one experiment. Make it with NewGroup, which refuses what can only mislead.
type Group struct {
	Name       string              `json:"name"`
	Pos        diag.Pos            `json:"-"`
	Role       string              `json:"role"`
	Sides      []Side              `json:"sides"`            // the control first
	Design     string              `json:"design,omitempty"` // factorial designs: DesignPB12, …; "" compares side by side
	Order      string              `json:"order"`            // labels in time, separated by spaces when any is longer than a letter; "" is alternating quads
	Workload   Workload            `json:"workload"`
	Body       Body                `json:"-"`
	BodyCode   Code                `json:"-"`
	Gates      []Gate              `json:"gates,omitempty"`
	Guards     []Guard             `json:"guards,omitempty"`
	Stops      []Stop              `json:"stops,omitempty"`
	Primary    string              `json:"primary"`
	Better     string              `json:"better"`             // direction of Primary: higher or lower
	Costs      map[string]*float64 `json:"costs,omitempty"`    // metric to limit (ratio); nil is reported only
	MinEffect  float64             `json:"min_effect"`         // ratio
	Superior   bool                `json:"superior,omitempty"` // the whole interval must lie beyond MinEffect
	Cap        int                 `json:"cap"`                // blocks
	Retry      int                 `json:"retry"`              // times a block may be redone
	Settle     time.Duration       `json:"settle,omitempty"`   // pause before each arm
	Settling   *Settling           `json:"settling,omitempty"`
	Host       []HostSetting       `json:"host,omitempty"` // on every side, put back when the arm ends
	Probe      *Probe              `json:"probe,omitempty"`
	Collectors []Collector         `json:"collectors,omitempty"` // sources of samples beside the machine's own, those of its engines among them
	WarmArm    bool                `json:"warm_arm,omitempty"`   // an unmeasured arm before the group
	// SampleEvery is between two ticks of the sampler; 100 ms when zero. A source is read no more often than
	// its numbers change, or than its reading may cost.
	SampleEvery time.Duration `json:"sample_every,omitempty"`
}

// The sampler's ticks may be this far apart.
const (
	SampleFastest = 10 * time.Millisecond
	SampleUsual   = 100 * time.Millisecond
	SampleSlowest = 10 * time.Second
)

// ControlSide is the side that the others are measured against.
func (g *Group) ControlSide() Side { return g.Sides[0] }

// WorkloadOf is the workload of a side.
func (g *Group) WorkloadOf(s Side) Workload {
	if s.Workload != nil {
		return *s.Workload
	}
	return g.Workload
}

// Levers is every lever of every side, once each, in order of first appearance: what evidence must be
// read for on each arm.
func (g *Group) Levers() []Lever {
	var out []Lever
	seen := map[string]bool{}
	for _, s := range g.Sides {
		for _, l := range s.Stack {
			if k := l.Key(); !seen[k] {
				seen[k] = true
				out = append(out, l)
			}
		}
	}
	return out
}

// Sequential reports whether a stop looks at results.
func (g *Group) Sequential() bool {
	for _, s := range g.Stops {
		if s.Sequential {
			return true
		}
	}
	return false
}
