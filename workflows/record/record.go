// Package record holds what happened: plain facts, with no behaviour but a name.
//
// Every package that produces, judges, stores or prints facts shares these types, so that no pair of
// packages needs an adapter. A pointer or a nil slice means "not measured": never 0, never NaN.
// Times named *NS are nanoseconds; Mono*NS count on the monotonic clock of the machine (CLOCK_MONOTONIC
// on Linux), Wall*NS since the Unix epoch. All fields of a record are JSON, because the effect journal
// stores what a workflow saw.
package record

import "strconv"

// Finding outcomes of a gate.
const (
	Pass       = "pass"
	Fail       = "fail"
	Unmeasured = "unmeasured"
)

// Dispositions of an arm.
const (
	OK          = "ok"
	Invalid     = "invalid"     // a gate failed or could not be measured
	Failed      = "failed"      // transient: the engine died, hung, or answered garbage
	Infeasible  = "infeasible"  // dies the same way every time
	Interrupted = "interrupted" // a signal ended it
	Superseded  = "superseded"  // its block was redone
)

// Verdicts of a group. Invalid and Infeasible are shared with dispositions.
const (
	Better       = "better"
	Worse        = "worse"
	Equivalent   = "equivalent"
	Inconclusive = "inconclusive"
)

// Roles of a group.
const (
	RoleScreen        = "screen"
	RoleQualification = "qualification"
	RoleLadder        = "ladder"
	RoleNoiseFloor    = "noise-floor"
	RoleSweep         = "sweep"
)

// Measurers of a session.
const (
	MeasurerReal      = "real"
	MeasurerSimulated = "simulated"
	MeasurerRecorded  = "recorded"
)

// Source is one file a session was made of: a workflow, a loaded file, a prompt.
type Source struct {
	Label  string `json:"label"` // "stack-screen.star", "@flow//gates.star"
	SHA256 string `json:"sha256"`
	Text   string `json:"text,omitempty"` // verbatim, workflow files only
}

// Session is one execution of a workflow on one machine.
type Session struct {
	ID            string            `json:"id"` // UUIDv7
	Workflow      string            `json:"workflow"`
	Root          string            `json:"root,omitempty"`  // folder of the workflow when it ran; a hint for resume, never hashed
	Status        string            `json:"status"`          // running, done, stopped, failed
	Exit          *int              `json:"exit,omitempty"`  // nil while running
	Error         string            `json:"error,omitempty"` // what ended it early
	Seed          uint64            `json:"seed"`
	Params        map[string]string `json:"params,omitempty"` // name to JSON value, after defaults
	Measurer      string            `json:"measurer"`
	Simulate      string            `json:"simulate,omitempty"` // the --simulate text; of a recorded measurer, the session whose arms it takes
	Sources       []Source          `json:"sources,omitempty"`
	Machine       Machine           `json:"machine"`
	FlowVersion   string            `json:"flow_version"`
	Dialect       string            `json:"dialect"`
	WallStartNS   int64             `json:"wall_start_ns"`
	WallEndNS     *int64            `json:"wall_end_ns,omitempty"`
	MonoStartNS   int64             `json:"mono_start_ns"`
	OffsetStartNS int64             `json:"offset_start_ns"`         // wall minus monotonic at start
	OffsetEndNS   *int64            `json:"offset_end_ns,omitempty"` // and at the end: a step shows as a difference
	Resumed       int               `json:"resumed,omitempty"`       // times resumed
	Imported      bool              `json:"imported,omitempty"`      // came from another tool's record
	Budget        *Budget           `json:"budget,omitempty"`        // the latest that its main set; nil is none
	Notes         []string          `json:"notes,omitempty"`
}

// Machine is what a session ran on. ID is a hash of stable fields only (no clock, no address, no uptime).
type Machine struct {
	ID    string            `json:"id"`
	Host  string            `json:"host,omitempty"`
	Facts map[string]string `json:"facts,omitempty"` // cpu_model, cpus, memory_mib, kernel, os, arch, gpu0, driver, governor, cgroup …
}

// Lever is one named change as it was recorded.
type Lever struct {
	Name          string `json:"name"`
	Factor        string `json:"factor,omitempty"`
	Change        string `json:"change"` // effective change as canonical JSON
	Hash          string `json:"hash"`   // of name and change: its identity in history
	ChangesOutput bool   `json:"changes_output,omitempty"`
	Unconfirmed   string `json:"unconfirmed,omitempty"` // the reason given to confirm.none
	Declared      string `json:"declared"`              // the whole plan.Lever as JSON, so that a champion can be rebuilt
}

// Side is one side of a group: what is compared.
type Side struct {
	Label   string  `json:"label"`
	Engine  string  `json:"engine"` // engine name
	Stack   []Lever `json:"stack"`
	Command Command `json:"command"` // effective, before placeholders of an arm are filled in
	Control bool    `json:"control,omitempty"`
	// Estimated: no arm runs this side. A factorial design estimates what one lever does on the base, and
	// its comparison needs a side to speak of: the base with that lever, labelled by the lever's name.
	Estimated bool `json:"estimated,omitempty"`
}

// Command is what is effective on a side: absolute, and as a delta to the engine without levers.
type Command struct {
	Argv    []string          `json:"argv,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Unset   []string          `json:"unset,omitempty"`
	Dir     string            `json:"dir,omitempty"`
	Config  map[string]string `json:"config,omitempty"`  // file name to content
	Request string            `json:"request,omitempty"` // overrides of the request body, canonical JSON
	URL     string            `json:"url,omitempty"`
	Launch  string            `json:"launch,omitempty"` // by what it is launched: "systemd-run --user …"; "" is by flow itself
	Host    map[string]string `json:"host,omitempty"`   // host settings: "governor" → "performance"
	Delta   map[string]string `json:"delta,omitempty"`  // "arg -ub" → "1024", "env X" → "1", "unset Y" → "", …
}

// Group is one experiment.
type Group struct {
	ID          string             `json:"id"`
	SessionID   string             `json:"session_id"`
	Index       int                `json:"index"` // in the session, from 0
	Name        string             `json:"name"`
	Role        string             `json:"role"`
	Design      string             `json:"design,omitempty"` // factorial designs; "" compares side by side
	Order       string             `json:"order"`            // as declared; "" is alternating quads, the first by coin
	Seed        uint64             `json:"seed"`
	Declared    string             `json:"declared"`        // hash
	Resolved    string             `json:"resolved"`        // hash with the digests of files, binary and model
	Engine      string             `json:"engine"`          // hash of the control's engine with an empty stack, resolved
	Workload    string             `json:"workload"`        // hash
	Model       string             `json:"model,omitempty"` // SHA-256 of the model files, "" when none is named
	Sides       []Side             `json:"sides"`
	Control     string             `json:"control"`            // label
	Primary     string             `json:"primary"`            // metric name
	Better      string             `json:"better"`             // higher or lower
	MinEffect   float64            `json:"min_effect"`         // ratio: .01 is 1 %
	Superior    bool               `json:"superior,omitempty"` // the whole interval must lie beyond MinEffect, not the estimate alone
	Cap         int                `json:"cap"`                // blocks
	Costs       map[string]float64 `json:"costs,omitempty"`    // metric to limit as a ratio (-.03); +Inf is not used: reported only is in CostsShown
	CostsShown  []string           `json:"costs_shown,omitempty"`
	CaseRule    string             `json:"case_rule,omitempty"`  // all, worst, each; "" is all
	Cold        bool               `json:"cold,omitempty"`       // nothing ran before its first arm in the session: no noise is borrowed
	Sequential  bool               `json:"sequential,omitempty"` // a stop looks at results: intervals are at the level of its looks
	Noise       []Noise            `json:"noise,omitempty"`      // known before the group began, so that every look and every later judgement uses the same
	Gates       []GateSpec         `json:"gates,omitempty"`
	Stops       []string           `json:"stops,omitempty"` // names with their parameters
	Pos         string             `json:"pos,omitempty"`   // where the user made it
	Arms        []*Arm             `json:"arms,omitempty"`  // in time, all attempts
	Verdict     string             `json:"verdict,omitempty"`
	Reason      string             `json:"reason,omitempty"`
	Stopped     string             `json:"stopped,omitempty"`     // which stop ended it
	Comparisons []Comparison       `json:"comparisons,omitempty"` // one per rung and case
	Steps       []Comparison       `json:"steps,omitempty"`       // of a ladder that adds up: each rung against the one before it, which is the Control
	Warnings    []string           `json:"warnings,omitempty"`
	WallStartNS int64              `json:"wall_start_ns"`
	WallEndNS   *int64             `json:"wall_end_ns,omitempty"`
}

// Noise is what was known of one metric's noise before a group began, from earlier arms.
type Noise struct {
	Metric string  `json:"metric"`
	Case   string  `json:"case,omitempty"`
	SD     float64 `json:"sd"` // of one arm, on logarithms: .0027 is .27 %
	DF     float64 `json:"df"`
	From   string  `json:"from"`             // in words, with what was left out
	Shared bool    `json:"shared,omitempty"` // of arms that had neighbours on the machine: lent to such arms only
}

// GateSpec is a gate or a guard as it stood when the group ran, with the thresholds in force.
type GateSpec struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"`  // gate or guard
	Phase    string `json:"phase"` // before, during, after
	Scope    string `json:"scope"` // arm or group
	Required bool   `json:"required"`
	Params   string `json:"params,omitempty"` // thresholds as canonical JSON
	Code     string `json:"code,omitempty"`   // fingerprint of its function
}

// Comparison is one side against the control, for one case of the workload and one metric.
type Comparison struct {
	Side     string    `json:"side"`
	Control  string    `json:"control"`
	Case     string    `json:"case,omitempty"`
	Metric   string    `json:"metric"`
	Verdict  string    `json:"verdict,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Estimate *Estimate `json:"estimate,omitempty"` // nil when there is nothing to estimate from
	// What the field publishes, on raw values.
	MedianControl    *float64  `json:"median_control,omitempty"`
	MedianSide       *float64  `json:"median_side,omitempty"`
	RangeControl     []float64 `json:"range_control,omitempty"` // min, max
	RangeSide        []float64 `json:"range_side,omitempty"`
	GainOfMediansPct *float64  `json:"gain_of_medians_pct,omitempty"` // 100*(b/a-1), in that form
	PairDeltas       []float64 `json:"pair_deltas,omitempty"`
	NControl         int       `json:"n_control"`
	NSide            int       `json:"n_side"`
	BlocksNeeded     *int      `json:"blocks_needed,omitempty"` // more blocks that should decide it
	Cost             bool      `json:"cost,omitempty"`          // a secondary metric
	CostBroken       bool      `json:"cost_broken,omitempty"`   // its estimate lies beyond its limit
}

// Estimate is an effect as a ratio minus one: .02 is +2 %. Intervals come from the logarithm.
type Estimate struct {
	Method       string   `json:"method"` // quad, pair, ladder, unpaired
	Effect       float64  `json:"effect"`
	Log          float64  `json:"log"`          // ln(1+effect)
	SE           *float64 `json:"se,omitempty"` // of Log; nil when no noise is known
	DF           float64  `json:"df"`
	Level        float64  `json:"level"`         // of Low and High: .95 unless a look narrows it
	Low          *float64 `json:"low,omitempty"` // ratio minus one
	High         *float64 `json:"high,omitempty"`
	Low90        *float64 `json:"low90,omitempty"` // the 90 % interval, for equivalence
	High90       *float64 `json:"high90,omitempty"`
	Blocks       int      `json:"blocks"`
	Borrowed     string   `json:"borrowed,omitempty"` // what noise was borrowed, in words
	BorrowedDF   float64  `json:"borrowed_df,omitempty"`
	ValidAnytime bool     `json:"valid_anytime,omitempty"`
	Looks        int      `json:"looks,omitempty"`
}

// ArmName is how people call an arm of a group: its side and its number in time, "B3" the third arm of all. A
// side whose label ends in a digit is kept apart, "S1#2": S12 could be another side.
func ArmName(label string, seq int) string {
	if n := len(label); n > 0 && label[n-1] >= '0' && label[n-1] <= '9' {
		label += "#"
	}
	return label + strconv.Itoa(seq+1)
}

// TookNS is how long the arms of a group took together, which a time while the session was stopped between them does
// not add to; nil when no arm ran.
func TookNS(arms []*Arm) *int64 {
	var sum int64
	for _, a := range arms {
		sum += max(0, a.MonoEndNS-a.MonoStartNS)
	}
	if sum == 0 {
		return nil
	}
	return &sum
}

// Arm is one execution of one side: one fresh launch of the engine. The experimental unit.
type Arm struct {
	ID          string            `json:"id"`
	GroupID     string            `json:"group_id"`
	Label       string            `json:"label"`   // side
	Block       int               `json:"block"`   // index in the group, from 0; -1 is a warm or probe arm
	Slot        int               `json:"slot"`    // place in the block, from 0
	Attempt     int               `json:"attempt"` // of its block, from 0
	Seq         int               `json:"seq"`     // in the group, in time, from 0
	Purpose     string            `json:"purpose"` // measured, warm, probe
	Disposition string            `json:"disposition"`
	Reason      string            `json:"reason,omitempty"` // why it is not ok, in words
	Process     *Process          `json:"process,omitempty"`
	Requests    []Request         `json:"requests,omitempty"`
	Samples     []Sample          `json:"-"` // stored apart
	Summaries   []Summary         `json:"-"` // of its samples by phase, stored apart
	Steps       []Step            `json:"steps,omitempty"`
	Metrics     []Metric          `json:"metrics,omitempty"`
	Evidence    []Evidence        `json:"evidence,omitempty"`
	Findings    []Finding         `json:"findings,omitempty"`
	Execs       []Exec            `json:"execs,omitempty"`
	Neighbours  []string          `json:"neighbours,omitempty"` // other flow engines on the host meanwhile
	Load        *Load             `json:"load,omitempty"`       // how the measured requests were sent; nil for a command engine
	Warnings    []string          `json:"warnings,omitempty"`   // what a reader of its numbers must know
	Attached    bool              `json:"attached,omitempty"`   // engine not launched by flow: weaker evidence
	Host        map[string]string `json:"host,omitempty"`       // what the machine said of itself in words before the launch: governor, power_source, …
	HostWhy     map[string]string `json:"host_why,omitempty"`   // why the rest of what was asked for is not in Host
	WallStartNS int64             `json:"wall_start_ns"`
	MonoStartNS int64             `json:"mono_start_ns"`
	MonoEndNS   int64             `json:"mono_end_ns"`
	OverheadNS  int64             `json:"overhead_ns"` // flow's own time: not engine, not settling
	Group       *Group            `json:"-"`           // the group so far, for gates; nil when stored
}

// Process is one launched engine.
type Process struct {
	Argv       []string          `json:"argv"`
	Env        map[string]string `json:"env"`
	Dir        string            `json:"dir,omitempty"`
	Files      map[string]string `json:"files,omitempty"` // config files written: name to content
	Binary     string            `json:"binary,omitempty"`
	BinarySHA  string            `json:"binary_sha256,omitempty"`
	Version    string            `json:"version,omitempty"`
	Pid        int               `json:"pid"`
	StartTicks uint64            `json:"start_ticks,omitempty"` // /proc/PID/stat field 22: identity with the pid
	Port       int               `json:"port,omitempty"`
	Cgroup     string            `json:"cgroup,omitempty"` // "" when none could be made
	Unit       string            `json:"unit,omitempty"`   // systemd's transient unit that it ran in
	LaunchNS   int64             `json:"launch_ns"`        // monotonic
	ReadyNS    int64             `json:"ready_ns,omitempty"`
	ExitNS     int64             `json:"exit_ns,omitempty"`
	ExitCode   *int              `json:"exit_code,omitempty"`
	Signal     string            `json:"signal,omitempty"`
	StoppedBy  string            `json:"stopped_by,omitempty"` // itself, signal, kill
	Leftovers  []string          `json:"leftovers,omitempty"`  // what had to be killed after the stop
	OOMKilled  bool              `json:"oom_killed,omitempty"`
	Log        string            `json:"-"` // stdout and stderr together from byte 0, head and tail when huge
	LogTail    string            `json:"log_tail,omitempty"`
	LogBytes   int64             `json:"log_bytes"`
}

// Request marks.
const (
	MarkWarm     = "warm"
	MarkMeasured = "measured"
	MarkIdentity = "identity" // one greedy request without a nonce, for comparing texts where the others' prompts differ
)

// Request is one generation inside an arm. All *NS are monotonic; nil is "did not happen or not seen".
type Request struct {
	Index            int      `json:"index"` // in the arm, from 0, warm ones included
	Case             string   `json:"case,omitempty"`
	Repeat           int      `json:"repeat"`
	Mark             string   `json:"mark"`   // warm or measured
	Status           string   `json:"status"` // ok, error, cut
	Error            string   `json:"error,omitempty"`
	ErrorKind        string   `json:"error_kind,omitempty"` // connect, http, stream, timeout, closed, garbage, endless (more than is kept of one), cancelled, request (it could not be made)
	HTTPStatus       int      `json:"http_status,omitempty"`
	PromptSHA        string   `json:"prompt_sha256"`
	Nonce            string   `json:"nonce,omitempty"`
	BodySHA          string   `json:"body_sha256,omitempty"`
	ScheduledNS      *int64   `json:"scheduled_ns,omitempty"` // when an open loop wanted it sent; nil in a closed loop
	StartNS          *int64   `json:"start_ns,omitempty"`     // before connecting and writing
	SentNS           *int64   `json:"sent_ns,omitempty"`      // after the last byte of the request was written
	HeadersNS        *int64   `json:"headers_ns,omitempty"`
	FirstByteNS      *int64   `json:"first_byte_ns,omitempty"`
	FirstChoiceNS    *int64   `json:"first_choice_ns,omitempty"`
	LastChoiceNS     *int64   `json:"last_choice_ns,omitempty"` // last message with choices, the finish frame included
	FirstReasoningNS *int64   `json:"first_reasoning_ns,omitempty"`
	FirstContentNS   *int64   `json:"first_content_ns,omitempty"`
	LastContentNS    *int64   `json:"last_content_ns,omitempty"` // last token-bearing frame, reasoning included
	UsageNS          *int64   `json:"usage_ns,omitempty"`
	DoneNS           *int64   `json:"done_ns,omitempty"`
	CloseNS          *int64   `json:"close_ns,omitempty"`
	StampSource      string   `json:"stamp_source"`   // read or kernel
	Frames           int      `json:"frames"`         // messages with a payload, [DONE] not counted
	ContentFrames    int      `json:"content_frames"` // token-bearing
	Reads            int      `json:"reads"`
	Coalesced        int      `json:"coalesced,omitempty"`    // content frames that one read brought with a later one: their stamp is the later one's
	ArrivalsUS       []int64  `json:"arrivals_us,omitempty"`  // per frame: µs since sent for the first, then deltas
	BlankFrames      []int    `json:"blank_frames,omitempty"` // indexes in ArrivalsUS of frames without tokens (role-only, empty, usage); nil where not noted
	OtherFrames      []int    `json:"other_frames,omitempty"` // indexes in ArrivalsUS of frames without choices (usage alone, errors)
	FrameTokens      []int    `json:"frame_tokens,omitempty"` // per content frame, where the engine says so
	MaxTokens        int      `json:"-"`                      // most tokens that the body asked for; 0 where it is not known
	FirstFrameTokens *int     `json:"first_frame_tokens,omitempty"`
	PromptTokens     *int     `json:"prompt_tokens,omitempty"`
	CompletionTokens *int     `json:"completion_tokens,omitempty"` // usage, else the best source there is
	CachedTokens     *int     `json:"cached_tokens,omitempty"`
	ReasoningTokens  *int     `json:"reasoning_tokens,omitempty"`
	Counts           []Count  `json:"counts,omitempty"` // every source there is
	FinishReason     string   `json:"finish_reason,omitempty"`
	Text             string   `json:"-"` // the completion, reasoning apart; stored compressed
	TextSHA          string   `json:"text_sha256,omitempty"`
	ReasoningSHA     string   `json:"reasoning_sha256,omitempty"`
	Usage            string   `json:"usage,omitempty"`               // raw JSON
	Timings          string   `json:"timings,omitempty"`             // raw JSON of the server
	ServerDecodeTokS *float64 `json:"server_decode_tok_s,omitempty"` // as the server prints it
	ServerPromptMS   *float64 `json:"server_prompt_ms,omitempty"`
	ServerDecodeMS   *float64 `json:"server_decode_ms,omitempty"`
	ServerPromptN    *int     `json:"server_prompt_n,omitempty"`
	ServerDecodeN    *int     `json:"server_decode_n,omitempty"`
	DraftTokens      *int     `json:"draft_tokens,omitempty"`   // speculated tokens that were offered, as the server says
	DraftAccepted    *int     `json:"draft_accepted,omitempty"` // and how many of them were accepted
	WarmState        string   `json:"warm_state,omitempty"`     // of a measured request: what had warmed the engine before it, in words
	Values           []Metric `json:"values,omitempty"`         // metrics of this request
	Warnings         []string `json:"warnings,omitempty"`
}

// Load is how the client itself did while it sent the measured requests of an arm: what was asked of it,
// what it achieved, and what it cost.
type Load struct {
	Arrival      string   `json:"arrival"`                 // closed loop of 4, poisson 2/s …
	Asked        int      `json:"asked,omitempty"`         // requests at once in a closed loop; 0 in an open one
	WindowNS     int64    `json:"window_ns"`               // first start to last end
	SteadyNS     int64    `json:"steady_ns"`               // of it: while as many as asked were in flight; in an open loop all of it
	InFlightMean float64  `json:"in_flight_mean"`          // over the window
	InFlightMax  int      `json:"in_flight_max"`           //
	ServerMax    *float64 `json:"server_max,omitempty"`    // most requests that the server said it ran at once; nil where it does not say
	ServerSeries string   `json:"server_series,omitempty"` // the series it said so in
	CPUSeconds   *float64 `json:"cpu_seconds,omitempty"`   // of flow's own process, kernel part included
	LagP50US     *float64 `json:"lag_p50_us,omitempty"`    // lateness of a timer in flow's own process
	LagP99US     *float64 `json:"lag_p99_us,omitempty"`    //
	LagMaxUS     *float64 `json:"lag_max_us,omitempty"`    //
	ProbeUS      []int64  `json:"probe_us,omitempty"`      // round trips of small requests before the measured ones
	ClientCPUs   string   `json:"client_cpus,omitempty"`   // where flow was pinned meanwhile
	ClockStepNS  int64    `json:"clock_step_ns,omitempty"` // of the wall clock against the monotonic one during the arm
	StableWarm   *bool    `json:"stable_warm,omitempty"`   // whether the warm-up reached what was asked; nil for a fixed count
	WarmRequests int      `json:"warm_requests"`           //
}

// Count is a token count from one source.
type Count struct {
	Source string `json:"source"` // usage, timings, log, metrics, tokenize, frames
	What   string `json:"what"`   // prompt, completion, cached
	N      int    `json:"n"`
}

// Sample is one value of one sensor at one time.
type Sample struct {
	Sensor string  `json:"sensor"` // "vmstat.pswpin_pages", "psi.memory.full_avg10_pct", "nvml.0.power_w"
	MonoNS int64   `json:"mono_ns"`
	Value  float64 `json:"value"`
}

// Summary is what one sensor did in one phase of an arm: its measured steps, or the time in which a measured
// request was in its prefill or in its decode. A figure for which there are too few samples is nil, and Why
// says so.
type Summary struct {
	Sensor   string
	Phase    string  // measure, prefill, decode
	N        int     // samples inside
	Coverage float64 // share of the phase that they cover
	Mean     *float64
	Min      *float64
	Max      *float64
	P05      *float64
	P50      *float64
	P95      *float64
	P99      *float64
	Growth   *float64 // the largest less the first
	Rise     *float64 // the largest less the last one before the engine was launched
	Diff     *float64 // of a counter, between the edges of the phase
	Why      string
}

// Sensor says what can be sampled and what cannot.
type Sensor struct {
	Name      string `json:"name"`
	Unit      string `json:"unit"`
	Source    string `json:"source"`            // file or library that feeds it
	Counter   bool   `json:"counter,omitempty"` // cumulative: differences mean something, values do not
	Available bool   `json:"available"`
	Why       string `json:"why,omitempty"` // why not
	Fix       string `json:"fix,omitempty"` // how to get it
	PeriodMS  int    `json:"period_ms"`     // how often the source really updates; 0 is unknown
}

// Step is a span of an arm on the monotonic clock: settle, launch, ready, confirm, warm, measure, stop.
type Step struct {
	Name    string `json:"name"`
	StartNS int64  `json:"start_ns"`
	EndNS   int64  `json:"end_ns"`
}

// Metric is a named number with a unit, a direction and a source. Value nil means not measured, Why says
// why; Withheld keeps the computed value that its sources do not support.
type Metric struct {
	Name     string   `json:"name"`
	Unit     string   `json:"unit"`
	Better   string   `json:"better,omitempty"` // higher, lower, ""
	Source   string   `json:"source"`           // client clock, usage, sensor name, formula, csv …
	Rule     string   `json:"rule,omitempty"`   // median of measured requests, difference of a counter …
	Case     string   `json:"case,omitempty"`
	Value    *float64 `json:"value,omitempty"`
	Withheld *float64 `json:"withheld,omitempty"`
	Why      string   `json:"why,omitempty"`
	N        int      `json:"n,omitempty"`        // requests or samples behind it
	Coverage *float64 `json:"coverage,omitempty"` // share of the window that samples cover
}

// Evidence is one reading of what proves that a lever took effect.
type Evidence struct {
	Lever    string `json:"lever"`
	Kind     string `json:"kind"` // log, http, metric, literal, environ, host, none
	What     string `json:"what"` // the pattern, path or name asked for
	When     string `json:"when"` // ready or stop
	Found    bool   `json:"found"`
	Observed string `json:"observed,omitempty"` // the line or value seen
	Error    string `json:"error,omitempty"`    // why it could not be read
}

// Finding is what a gate found.
type Finding struct {
	Gate     string `json:"gate"`
	Phase    string `json:"phase"`
	Outcome  string `json:"outcome"` // pass, fail, unmeasured
	Observed string `json:"observed,omitempty"`
	Limit    string `json:"limit,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Required bool   `json:"required"`
	Error    string `json:"error,omitempty"` // a mistake in the gate's function
	Scope    string `json:"scope,omitempty"` // "" is arm
	Warning  string `json:"-"`               // of the gate itself, for its arm's warnings
}

// Exec is a command that an arm's body ran.
type Exec struct {
	Argv     []string `json:"argv"`
	ExitCode int      `json:"exit_code"`
	Stdout   string   `json:"stdout"`
	Stderr   string   `json:"stderr"`
	Seconds  float64  `json:"seconds"`
}

// Effect is one journaled effect of a workflow, in the order in which main asked for it.
type Effect struct {
	Index  int      `json:"index"`
	Op     string   `json:"op"`             // run, query, history, champion, read, wait_until, note
	Hash   string   `json:"hash"`           // of what was asked, resolved
	What   string   `json:"what"`           // in words, for "changed" messages: parts with their hashes as JSON
	Refs   []string `json:"refs,omitempty"` // group ids
	Done   bool     `json:"done"`
	Result []byte   `json:"result,omitempty"` // JSON, as the workflow saw it
}

// Event is one line for people watching. Kind: session.start, group.start, arm.start, arm.step, arm.end, block.end, group.end, warning, note.
type Event struct {
	WallNS  int64  `json:"wall_ns"`
	Kind    string `json:"kind"`
	Group   string `json:"group,omitempty"` // name
	GroupID string `json:"group_id,omitempty"`
	Arm     string `json:"arm,omitempty"` // "A1"
	Text    string `json:"text,omitempty"`
	GroupOf *Group `json:"-"` // on group.start and group.end
	ArmOf   *Arm   `json:"-"` // on arm.end
}

// Table is rows of a query. Values are nil, int64, float64, string, []byte or bool.
type Table struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
}
