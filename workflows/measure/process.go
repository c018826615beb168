package measure

// The process of an arm: an engine with its client, from ready to stopped.

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"sort"
	"sync"
	"time"

	"flow/builtins/client"
	"flow/builtins/engine"
	"flow/builtins/hardware"
	"flow/builtins/metric"
	"flow/workflows/plan"
	"flow/workflows/record"
	"flow/workflows/run"
)

// process is a launched engine with a client.
type process struct {
	r      *rig
	e      plan.Engine
	ep     *engine.Process
	client *client.Client

	mu            sync.Mutex
	requests      []record.Request
	evidence      []record.Evidence
	before, after map[string]float64
	stopped       bool
	ran           bool
	elapsed       *float64
	load          *record.Load
	stable        *bool    // whether a warm-up until stable became so
	texts         []string // prompts that were sent, without their nonces
	notes         []string // warnings of the arm
}

// Confirm reads the evidence now. What shows only later is read again at the stop.
func (p *process) Confirm(ctx context.Context) ([]record.Evidence, error) {
	ev := append(p.ep.Confirm(ctx, withoutHost(p.r.t.Levers), "ready"), p.confirmHost(ctx, "ready")...)
	p.mu.Lock()
	p.evidence = append(p.evidence, ev...)
	p.mu.Unlock()
	return ev, ctx.Err()
}

// Generate sends the workload, or lets a command engine run to its end.
func (p *process) Generate(ctx context.Context, w plan.Workload, mark string) ([]record.Request, error) {
	if p.client == nil {
		return nil, p.runCommand(ctx, mark)
	}
	prompts, err := p.prompts(w, mark)
	if err != nil {
		return nil, err
	}
	if mark == record.MarkMeasured && p.before == nil {
		p.before = p.counters(ctx)
	}
	// A dead engine answers no more: what is in flight ends by its closed socket, the rest is not sent.
	rctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-p.ep.Done():
			t := time.NewTimer(time.Second)
			defer t.Stop()
			select {
			case <-t.C:
				cancel()
			case <-rctx.Done():
			}
		case <-rctx.Done():
		}
	}()
	rows, err := p.send(rctx, w, prompts, mark)
	if err == nil && mark == record.MarkMeasured && p.attached() && w.Nonce {
		rows = append(rows, p.client.Run(rctx, p.identity(prompts, len(rows)), 1)...)
	}
	cancel()
	<-ended
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.requests = append(p.requests, rows...)
	p.mu.Unlock()
	if ctx.Err() != nil {
		return rows, context.Cause(ctx)
	}
	if p.ended(ctx, rows) {
		return rows, &run.EngineError{Reason: p.died(mark, rows)}
	}
	if mark == record.MarkMeasured {
		p.after = p.counters(ctx)
	}
	return rows, nil
}

// deathNotice is how long the news that an engine ended may take after its sockets closed.
const deathNotice = time.Second

// muteBefore is how long a stream may be mute before its break without a word about it.
const muteBefore = time.Second

// ended reports whether the engine is gone. A socket closes before the supervisor can tell of the death
// behind it, so after a broken connection the news gets a moment: else an engine that dies while it warms
// up is found out only by the next request, which says nothing of where it died.
func (p *process) ended(ctx context.Context, rows []record.Request) bool {
	var notice <-chan time.Time
	for _, q := range rows {
		if q.Status != "ok" && (q.ErrorKind == "connect" || q.ErrorKind == "closed") {
			t := time.NewTimer(deathNotice)
			defer t.Stop()
			notice = t.C
			break
		}
	}
	if notice == nil {
		select {
		case <-p.ep.Done():
			return true
		default:
			return false
		}
	}
	select {
	case <-p.ep.Done():
		return true
	case <-notice:
	case <-ctx.Done():
	}
	return false
}

// howEnded says how an engine ended that nobody asked to end. One without code and signal that was killed
// all the same died with its supervisor: nobody was left to see how.
func howEnded(info *record.Process) string {
	switch {
	case info.OOMKilled:
		return "was killed for want of memory"
	case info.Signal != "":
		return "was ended by " + info.Signal
	case info.ExitCode != nil:
		return fmt.Sprintf("exited by itself with code %d", *info.ExitCode)
	case info.StoppedBy == "kill":
		return "was ended with its supervisor, which was killed from outside,"
	}
	return "ended by itself"
}

// died says how the engine ended, and where.
func (p *process) died(mark string, rows []record.Request) string {
	how := howEnded(p.ep.Info())
	for i, q := range rows {
		if q.Status != "ok" {
			return fmt.Sprintf("the engine %s during the %s requests, in request %d of %d after %d content frames%s", how, mark, i+1, len(rows), q.ContentFrames, silence(q))
		}
	}
	return fmt.Sprintf("the engine %s after the %s requests", how, mark)
}

// silence says how long a stream was mute before it broke off. A server that was asked to end may stop its
// tokens at once and keep the connection: llama-server does for thirty seconds after a SIGTERM.
func silence(q record.Request) string {
	last, end := q.LastContentNS, q.CloseNS
	if last == nil || end == nil || *end-*last < int64(muteBefore) {
		return ""
	}
	return fmt.Sprintf(", %.1f s after the last of them", time.Duration(*end-*last).Seconds())
}

// runCommand waits for a command engine; to warm it means nothing.
func (p *process) runCommand(ctx context.Context, mark string) error {
	if mark != record.MarkMeasured || p.ran {
		return nil
	}
	p.ran = true
	err := p.ep.Wait(ctx)
	info := p.ep.Info()
	if info.ExitNS > info.LaunchNS {
		s := float64(info.ExitNS-info.LaunchNS) / 1e9
		p.elapsed = &s
	}
	var exit *engine.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &exit):
		return &run.EngineError{Reason: exit.Error()}
	case err != nil:
		return &run.EngineError{Reason: err.Error()}
	}
	return nil
}

// prompts lays out the workload's requests: warm ones with the first prompt of each case, measured ones
// repeat by repeat, so that a prompt's repeats are spread over the arm.
func (p *process) prompts(w plan.Workload, mark string) ([]client.Prompt, error) {
	p.mu.Lock()
	index := len(p.requests)
	if w.Stable != nil && mark == record.MarkMeasured { // the same in every arm, however long it took to warm up
		index = max(index, w.Stable.AtMost*len(w.Cases))
	}
	p.mu.Unlock()
	info, err := plan.Effective(p.e, p.r.t.Side.Stack)
	if err != nil {
		return nil, err
	}
	body, err := plan.MergeJSON(info.Request, w.Body)
	if err != nil {
		return nil, err
	}
	var out []client.Prompt
	add := func(c plan.Case, text string, repeat int) {
		q := client.Prompt{Case: c.Name, Index: index + len(out), Repeat: repeat, Mark: mark, Text: text, MaxTokens: c.MaxTokens,
			Temperature: w.Temperature, Seed: w.Seed, IgnoreEOS: w.IgnoreEOS, Body: body}
		if w.Nonce {
			q.Nonce = nonce(p.nonceSeed(), q.Index)
		}
		out = append(out, q)
	}
	for _, c := range w.Cases {
		repeats, prompts := w.Repeat, c.Prompts
		if mark == record.MarkWarm {
			repeats, prompts = w.Warmup, c.Prompts[:1]
			if w.Stable != nil {
				repeats = w.Stable.AtMost
			}
		}
		texts := make([]string, len(prompts))
		for i, x := range prompts {
			if texts[i], err = p.r.prompt(x); err != nil {
				return nil, err
			}
		}
		for n := range repeats {
			for _, text := range texts {
				add(c, text, n)
			}
		}
		if mark == record.MarkMeasured {
			p.texts = append(p.texts, texts...)
		}
	}
	return out, nil
}

// counters reads the engine's metrics endpoint; nil where it has none.
func (p *process) counters(ctx context.Context) map[string]float64 {
	if p.e.API == nil || p.e.API.Metrics == "" {
		return nil
	}
	m, err := p.client.Metrics(ctx)
	if err != nil {
		return nil
	}
	return m
}

// Stop reads the evidence a last time and ends the engine.
func (p *process) Stop(ctx context.Context) error {
	p.mu.Lock()
	first := !p.stopped
	p.stopped = true
	p.mu.Unlock()
	if first {
		cctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		ev := append(p.ep.Confirm(cctx, withoutHost(p.r.t.Levers), "stop"), p.confirmHost(cctx, "stop")...)
		p.mu.Lock()
		p.evidence = append(p.evidence, ev...)
		dead, notes := p.deadKnobs(cctx, p.evidence)
		p.evidence, p.notes = append(p.evidence, dead...), append(p.notes, notes...)
		p.recount(cctx)
		p.mu.Unlock()
		cancel()
	}
	return p.ep.Stop(ctx)
}

// Info is what is known of the process so far.
func (p *process) Info() *record.Process { return p.ep.Info() }

// facts fills an arm with what the process did.
func (p *process) facts(ctx context.Context, a *record.Arm) {
	info := p.ep.Info()
	if info.Binary != "" {
		if h, err := p.r.m.digests.Binary(ctx, info.Binary); err == nil {
			info.BinarySHA = h
		}
		info.Version = p.r.m.version(ctx, p.e, info.BinarySHA)
	}
	if info.Version == "" {
		info.Version = versionInLog(p.e.VersionLog, info.Log)
	}
	a.Process, a.Evidence, a.Requests, a.Load = info, p.evidence, p.requests, p.load
	for i := range a.Requests {
		a.Requests[i].Values = metric.Request(&a.Requests[i])
	}
	stdout, ok := p.ep.Stdout()
	if !ok {
		stdout = info.Log // without a file of its own, standard output is in the log
	}
	a.Metrics = append(a.Metrics, metric.Arm(a, p.e.Metrics, metric.Inputs{
		File:   func(path string) ([]byte, error) { return readRegular(p.file(path)) },
		Log:    info.Log,
		Stdout: stdout, Before: p.before, After: p.after, Elapsed: p.elapsed,
		Sensors: hardware.Sensors(p.r.sources), Needed: needed(p.r.t.Group),
	})...)
	a.Summaries = metric.Summaries(a, hardware.Sensors(p.r.sources))
	a.Warnings = append(append(a.Warnings, p.notes...), warnings(a, p.texts)...)
}

// versionInLog is the first group of the pattern in the log; "" without a pattern.
func versionInLog(pattern, log string) string {
	if pattern == "" {
		return ""
	}
	re, err := regexp.Compile("(?m)" + pattern)
	if err != nil {
		return "unknown: " + err.Error() // the declaration has compiled it
	}
	m := re.FindStringSubmatch(log)
	if len(m) < 2 {
		return fmt.Sprintf("unknown: no line of the log matches %q", pattern)
	}
	return m[1]
}

// needed are the metrics that the group will ask for beside the engine's own.
func needed(g *plan.Group) []string {
	out := []string{g.Primary}
	for name := range g.Costs {
		out = append(out, name)
	}
	if g.Probe != nil {
		out = append(out, g.Probe.Metric)
	}
	sort.Strings(out)
	return out
}

// file is a path that a metric names: absolute, or in the arm's folder.
func (p *process) file(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(p.r.out, path)
}

// attached: flow did not launch the engine, so that it lives on between arms.
func (p *process) attached() bool { return p.e.URL != "" }

// nonceSeed is the group's, so that prompts are equal between arms; an engine that lives on between arms
// would find them in its cache, so there it carries the arm as well.
func (p *process) nonceSeed() uint64 {
	if !p.attached() {
		return p.r.t.GroupSeed
	}
	h := sha256.Sum256([]byte(p.r.t.ArmID))
	return p.r.t.GroupSeed ^ binary.LittleEndian.Uint64(h[:])
}

// identity is one request more, without a nonce and greedy: by its text the output of sides is compared
// whose other prompts differ.
func (p *process) identity(ps []client.Prompt, n int) []client.Prompt {
	if len(ps) == 0 {
		return nil
	}
	q := ps[0]
	q.Index, q.Mark, q.Nonce, q.Temperature, q.ScheduledNS = ps[0].Index+n, record.MarkIdentity, "", 0, nil
	return []client.Prompt{q}
}
