package measure

// Token counts that an engine gives beside its answers: in its log, in its metrics, and by cutting the
// text again. They come after the answers and may lag them, so they are read before the engine is stopped.

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// Bounds of what is read after the requests.
const (
	recounts   = 64                     // texts that are cut again
	metricsLag = 3 * time.Second        // how long a metrics endpoint may lag
	runningLag = 500 * time.Millisecond // how long a gauge of running requests may lag
	lagPoll    = 50 * time.Millisecond
)

// runningSeries is the series that says how many requests the server runs; "" where none is known.
func runningSeries(e plan.Engine) string {
	if e.API == nil || e.API.Metrics == "" {
		return ""
	}
	for _, c := range e.API.Counts {
		if c.Running != "" {
			return c.Running
		}
	}
	return ""
}

// ofSeries is the value of a series; of one that is there with labels only, the sum over them: vLLM puts the
// model's name on each.
func ofSeries(m map[string]float64, name string) (float64, bool) {
	if v, ok := m[name]; ok {
		return v, true
	}
	total, found := 0.0, false
	for k, v := range m {
		if strings.HasPrefix(k, name+"{") {
			total, found = total+v, true
		}
	}
	return total, found
}

// recount reads the counts of all sources into the requests. The warnings say what could not be matched.
func (p *process) recount(ctx context.Context) {
	if p.client == nil || len(p.requests) == 0 {
		return
	}
	measured := false
	for _, q := range p.requests {
		measured = measured || q.Mark == record.MarkMeasured
	}
	if !measured {
		return
	}
	p.recountTexts(ctx)
	for _, c := range p.e.API.Counts {
		switch {
		case c.Log != "":
			p.countsOfLog(ctx, c)
		case strings.Contains(c.Series, "*"):
			p.countsOfRows(ctx, c)
		case c.Series != "":
			p.countsOfSeries(ctx, c)
		}
	}
	p.foreign(ctx)
}

// foreign warns of requests that the server still runs when ours have ended: somebody else's, who took of its
// time. A gauge may lag our last answer, so it is asked again.
func (p *process) foreign(ctx context.Context) {
	series := runningSeries(p.e)
	if series == "" || p.after == nil {
		return
	}
	for until := time.Now().Add(runningLag); ; time.Sleep(lagPoll) {
		m, err := p.client.Metrics(ctx)
		n, ok := ofSeries(m, series)
		if err != nil || !ok || n < 1 || ctx.Err() != nil {
			return
		}
		if time.Now().After(until) {
			p.note(fmt.Sprintf("other requests: the server runs %g that are not flow's (%s): its speed was shared", n, series))
			return
		}
	}
}

// recountTexts asks the engine to cut the answers again: whole texts only, because a piece cut alone gets a
// beginning of its own.
func (p *process) recountTexts(ctx context.Context) {
	if p.e.API.Tokenize == "" {
		return
	}
	n := 0
	for i := range p.requests {
		q := &p.requests[i]
		if q.Mark != record.MarkMeasured || q.Status != "ok" || q.Text == "" || q.ReasoningSHA != "" || has3(q.Counts, "tokenize") {
			continue
		}
		if n++; n > recounts {
			return
		}
		k, err := p.client.Tokenize(ctx, q.Text)
		if err != nil {
			p.note("recount: " + err.Error())
			return
		}
		q.Counts = append(q.Counts, record.Count{Source: "tokenize", What: "completion", N: k})
	}
}

func has3(cs []record.Count, source string) bool {
	return slices.ContainsFunc(cs, func(c record.Count) bool { return c.Source == source })
}

// answered are the requests whose answers came to an end, in the order of their ends, and whether that
// order is certain: it is where one ran at a time.
func (p *process) answered() (out []*record.Request, sure bool) {
	for i := range p.requests {
		if q := &p.requests[i]; q.ContentFrames > 0 && q.Status == "ok" {
			out = append(out, q)
		}
	}
	end := func(q *record.Request) int64 {
		for _, at := range []*int64{q.DoneNS, q.CloseNS, q.LastContentNS} {
			if at != nil {
				return *at
			}
		}
		return 0
	}
	slices.SortStableFunc(out, func(a, b *record.Request) int { return cmp.Compare(end(a), end(b)) })
	sure = true
	for i := 1; i < len(out); i++ {
		if s := out[i].StartNS; s == nil || *s < end(out[i-1]) {
			sure = false
		}
	}
	return out, sure
}

// give puts one count a request where they match, or compares the sums.
func (p *process) give(source, what, where string, counts []int) {
	rows, sure := p.answered()
	switch {
	case len(counts) == 0:
		p.note(fmt.Sprintf("counts: %s names no %s tokens", where, what))
	case len(counts) != len(rows):
		p.note(fmt.Sprintf("counts: %s has %d entries of %s tokens for %d answers: not compared", where, len(counts), what, len(rows)))
	case !sure:
		p.compareSums(where, what, sumOf(counts), rows)
	default:
		for i, q := range rows {
			p.set(q, source, what, counts[i])
		}
	}
}

func (p *process) set(q *record.Request, source, what string, n int) {
	switch what {
	case "draft":
		q.DraftTokens = &n
		return
	case "accepted":
		q.DraftAccepted = &n
		return
	case "cached":
		if q.CachedTokens == nil {
			q.CachedTokens = &n
		}
	case "completion":
		if q.CompletionTokens == nil {
			q.CompletionTokens = &n
		}
	case "prompt":
		if q.PromptTokens == nil {
			q.PromptTokens = &n
		}
	}
	q.Counts = append(q.Counts, record.Count{Source: source, What: what, N: n})
}

func sumOf(xs []int) int {
	n := 0
	for _, x := range xs {
		n += x
	}
	return n
}

// compareSums is what is left when counts cannot be given to single requests.
func (p *process) compareSums(where, what string, n int, rows []*record.Request) {
	own := 0
	for _, q := range rows {
		var k *int
		switch what {
		case "completion":
			k = q.CompletionTokens
		case "prompt":
			k = q.PromptTokens
		default:
			return
		}
		if k == nil {
			return
		}
		own += *k
	}
	if gap := n - own; gap > len(rows) && float64(gap) > .03*float64(n) || -gap > len(rows) && float64(-gap) > .03*float64(own) {
		p.note(fmt.Sprintf("counts: %s has %d %s tokens for all answers together, the answers say %d: one of them is wrong", where, n, what, own))
	}
}

// countsOfLog reads one match a request.
func (p *process) countsOfLog(ctx context.Context, c plan.CountFrom) {
	re, err := regexp.Compile("(?m)" + c.Log)
	if err != nil || re.NumSubexp() == 0 {
		p.note("counts: pattern " + strconv.Quote(c.Log) + " has no group")
		return
	}
	rows, _ := p.answered()
	var counts []int
	for until := time.Now().Add(metricsLag / 6); ; time.Sleep(lagPoll) { // a line may come after the answer
		counts = counts[:0]
		for _, m := range re.FindAllStringSubmatch(p.ep.Log(), -1) {
			if n, err := strconv.Atoi(m[1]); err == nil {
				counts = append(counts, n)
			}
		}
		if len(counts) >= len(rows) || ctx.Err() != nil || time.Now().After(until) {
			break
		}
	}
	p.give("log", c.What, "the log", counts)
}

// countsOfRows reads a metrics endpoint that lists its last requests, as Strata's does: "requests.*.output_tokens".
// Rows with a time are put in its order; else the newest is first.
func (p *process) countsOfRows(ctx context.Context, c plan.CountFrom) {
	pre, post, _ := strings.Cut(c.Series, "*")
	rows, _ := p.answered()
	var counts []int
	for until := time.Now().Add(metricsLag); ; time.Sleep(lagPoll) {
		m, err := p.client.Metrics(ctx)
		if err != nil {
			p.note("counts: " + err.Error())
			return
		}
		type row struct {
			n    int
			time float64
		}
		var found []row
		for i := 0; ; i++ {
			v, ok := m[pre+strconv.Itoa(i)+post]
			if !ok {
				break
			}
			at, ok := m[pre+strconv.Itoa(i)+".time"]
			if !ok {
				at = -float64(i)
			}
			found = append(found, row{int(v), at})
		}
		slices.SortStableFunc(found, func(a, b row) int { return cmp.Compare(a.time, b.time) })
		counts = counts[:0]
		for _, r := range found {
			counts = append(counts, r.n)
		}
		if len(counts) >= len(rows) || ctx.Err() != nil || time.Now().After(until) {
			break
		}
	}
	// A short list holds the newest; they still belong to the last answers.
	if len(counts) > 0 && len(counts) < len(rows) {
		if all, sure := p.answered(); sure {
			for i, q := range all[len(all)-len(counts):] {
				p.set(q, "metrics", c.What, counts[i])
			}
			return
		}
	}
	p.give("metrics", c.What, "the metrics endpoint", counts)
}

// countsOfSeries compares the growth of a counter over the measured step with the answers. The counter may
// lag the stream, so it is asked until it has caught up.
func (p *process) countsOfSeries(ctx context.Context, c plan.CountFrom) {
	if p.before == nil {
		return
	}
	var rows []*record.Request
	all, _ := p.answered()
	own := 0
	for _, q := range all {
		if q.Mark == record.MarkMeasured {
			rows = append(rows, q)
			if k := q.CompletionTokens; k != nil && c.What == "completion" {
				own += *k
			}
		}
	}
	if len(rows) == 0 {
		return // nothing was answered: the failures say so
	}
	grown := func() (float64, bool) {
		b, _ := ofSeries(p.before, c.Series) // a counter that is not there yet is at 0
		a, ok := ofSeries(p.after, c.Series)
		return a - b, ok
	}
	d, ok := grown()
	for until := time.Now().Add(metricsLag); c.What == "completion" && own > 0 && (!ok || d < .97*float64(own)) && ctx.Err() == nil && time.Now().Before(until); {
		time.Sleep(lagPoll)
		if m, err := p.client.Metrics(ctx); err == nil {
			p.after = m
		}
		d, ok = grown()
	}
	switch {
	case !ok:
		p.note("counts: the metrics endpoint has no series " + c.Series)
	case len(rows) == 1 && d >= 0:
		p.set(rows[0], "metrics", c.What, int(d))
	default:
		p.compareSums("the metrics endpoint", c.What, int(d), rows)
	}
}

// note keeps a warning of the arm, once.
func (p *process) note(text string) {
	if !slices.Contains(p.notes, text) {
		p.notes = append(p.notes, text)
	}
}
