package engine

// Evidence that a lever took effect. It is read on every side, the control's too: a reading says what was
// seen and never judges, because on a control the evidence must be missing.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// Confirm reads the evidence of every lever, in order: one record for each Confirm. when is "ready" or
// "stop". What could not be read has an Error.
func (p *Process) Confirm(ctx context.Context, levers []plan.Lever, when string) []record.Evidence {
	r := &reading{p: p, pages: map[string]page{}}
	var out []record.Evidence
	for _, l := range levers {
		for _, c := range l.Confirm {
			e := record.Evidence{Lever: l.Name, Kind: c.Kind, What: whatOf(l, c), When: when}
			r.read(ctx, l, c, &e)
			e.Observed = clip(strings.ToValidUTF8(e.Observed, "?"), 400)
			out = append(out, e)
		}
	}
	return out
}

// reading is one reading of all evidence: the log and each page are read once.
type reading struct {
	p      *Process
	log    *string
	pages  map[string]page
	client *http.Client
}

type page struct {
	body string
	err  error
}

func (r *reading) read(ctx context.Context, l plan.Lever, c plan.Confirm, e *record.Evidence) {
	var err error
	switch c.Kind {
	case plan.ConfirmLog:
		e.Found, e.Observed, err = r.inLog(c)
	case plan.ConfirmHTTP:
		e.Found, e.Observed, err = r.overHTTP(ctx, c)
	case plan.ConfirmMetric:
		e.Found, e.Observed, err = r.inMetrics(ctx, c)
	case plan.ConfirmLiteral:
		e.Found, e.Observed, err = r.p.literal(c.Text)
	case plan.ConfirmEnviron:
		e.Found, e.Observed, err = r.p.inEnviron(l)
	case plan.ConfirmNone:
	default:
		err = fmt.Errorf("got kind %q of evidence, want log, http, metric, literal, environ or none", c.Kind)
	}
	if err != nil {
		e.Found, e.Error = false, err.Error()
	}
}

// whatOf is what was asked for, in a line.
func whatOf(l plan.Lever, c plan.Confirm) string {
	switch c.Kind {
	case plan.ConfirmLog:
		return c.Pattern
	case plan.ConfirmHTTP:
		return strings.TrimSpace(c.Path+" "+c.Pointer) + condition(c)
	case plan.ConfirmMetric:
		return c.Name + condition(c)
	case plan.ConfirmLiteral:
		return c.Text
	case plan.ConfirmEnviron:
		var parts []string
		parts = append(parts, pairs(l.Env)...)
		for _, u := range l.Unset {
			parts = append(parts, "unset "+u)
		}
		return strings.Join(parts, ", ")
	}
	return c.Reason
}

func condition(c plan.Confirm) string {
	s := ""
	if c.Equals != nil {
		s += " = " + *c.Equals
	}
	if c.Above != nil {
		s += " > " + number(*c.Above)
	}
	if c.Below != nil {
		s += " < " + number(*c.Below)
	}
	return s
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

var errAttachedEvidence = errors.New("the engine is attached: flow did not launch it and cannot see this")

// inLog matches the pattern against the whole log; ^ and $ stand for the ends of lines.
func (r *reading) inLog(c plan.Confirm) (bool, string, error) {
	if r.p.attached {
		return false, "", errAttachedEvidence
	}
	re, err := regexp.Compile("(?m)" + c.Pattern)
	if err != nil {
		return false, "", err
	}
	if r.log == nil {
		text := r.p.Log()
		r.log = &text
	}
	at := re.FindStringIndex(*r.log)
	if at == nil {
		return false, "", nil
	}
	from := strings.LastIndexByte((*r.log)[:at[0]], '\n') + 1
	to := at[1]
	if i := strings.IndexByte((*r.log)[to:], '\n'); i >= 0 {
		to += i
	} else {
		to = len(*r.log)
	}
	return true, strings.TrimSpace((*r.log)[from:to]), nil
}

// get asks the engine for a page, at most once a reading.
func (r *reading) get(ctx context.Context, path, accept string) (string, error) {
	if got, ok := r.pages[accept+path]; ok {
		return got.body, got.err
	}
	body, err := r.fetch(ctx, path, accept)
	r.pages[accept+path] = page{body, err}
	return body, err
}

func (r *reading) fetch(ctx context.Context, path, accept string) (string, error) {
	if r.p.ended() {
		return "", errors.New("the engine has ended")
	}
	if err := r.p.foreignPort(); err != nil {
		return "", err
	}
	base := r.p.BaseURL()
	if base == "" {
		return "", errors.New("the engine has no port that flow knows: its command does not name {port}")
	}
	if r.client == nil {
		r.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Accept", accept)
	resp, err := r.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return "", fmt.Errorf("GET %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("GET %s answered %d, want 200", path, resp.StatusCode)
	}
	return string(b), nil
}

func (r *reading) overHTTP(ctx context.Context, c plan.Confirm) (bool, string, error) {
	body, err := r.get(ctx, c.Path, "application/json")
	if err != nil {
		return false, "", err
	}
	dec := json.NewDecoder(strings.NewReader(body))
	dec.UseNumber()
	var doc any
	if err := dec.Decode(&doc); err != nil {
		return false, "", fmt.Errorf("GET %s: not JSON: %w", c.Path, err)
	}
	v, err := lookPointer(doc, c.Pointer)
	if err != nil {
		return false, err.Error(), nil // seen, and it is not there: no fault of the reading
	}
	got := jsonText(v)
	return c.Equals == nil || sameText(got, *c.Equals), got, nil
}

// inMetrics reads a Prometheus page: the engine's metrics path, or the Confirm's own, or /metrics.
func (r *reading) inMetrics(ctx context.Context, c plan.Confirm) (bool, string, error) {
	path := c.Path
	if path == "" && r.p.engine.API != nil {
		path = r.p.engine.API.Metrics
	}
	if path == "" {
		path = "/metrics"
	}
	body, err := r.get(ctx, path, "text/plain; version=0.0.4")
	if err != nil {
		return false, "", err
	}
	s, err := pick(parseSeries(body), c.Name)
	if err != nil {
		return false, "", fmt.Errorf("GET %s: %w", path, err)
	}
	got := number(s.value)
	if math.IsNaN(s.value) {
		return false, got, nil
	}
	if c.Equals == nil && c.Above == nil && c.Below == nil {
		return true, got, nil
	}
	found := (c.Equals == nil || sameText(got, *c.Equals)) &&
		(c.Above == nil || s.value > *c.Above) && (c.Below == nil || s.value < *c.Below)
	return found, got, nil
}

// inEnviron compares the environment of the running process, not the one that flow meant to give it: what
// the lever sets is there, and what it unsets is not.
func (p *Process) inEnviron(l plan.Lever) (bool, string, error) {
	if p.attached {
		return false, "", errAttachedEvidence
	}
	if len(l.Env) == 0 && len(l.Unset) == 0 {
		return false, "", errors.New("the lever neither sets nor unsets an environment variable")
	}
	env, err := p.readEnv()
	if err != nil {
		return false, "", err
	}
	c, err := fillCommand(Launch{Engine: p.engine, Root: p.root, Command: record.Command{Env: l.Env}}, p.vars)
	if err != nil {
		return false, "", err
	}
	found := true
	var seen []string
	for _, want := range pairs(c.Env) {
		name, v, _ := strings.Cut(want, "=")
		got, ok := env[name]
		if !ok {
			seen = append(seen, name+" is not set")
		} else {
			seen = append(seen, name+"="+got)
		}
		found = found && ok && got == v
	}
	for _, name := range slices.Sorted(slices.Values(l.Unset)) {
		if got, ok := env[name]; ok {
			seen = append(seen, name+"="+got)
			found = false
		} else {
			seen = append(seen, name+" is not set")
		}
	}
	return found, strings.Join(seen, ", "), nil
}

// readEnv reads the engine's environment; after its end it is what was read before.
func (p *Process) readEnv() (map[string]string, error) {
	var env map[string]string
	err := errors.New("the engine ended before its environment was read")
	if !p.ended() && alive(p.info.Pid, p.info.StartTicks) {
		env, err = readEnviron(p.info.Pid)
		if err == nil && len(env) == 0 && len(p.info.Env) > 0 {
			err = errors.New("the kernel showed an empty environment") // it is being replaced or torn down
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.environ = env
		return env, nil
	}
	if p.environ != nil {
		return p.environ, nil
	}
	return nil, err
}
