package metric

// Numbers taken from what an engine writes: CSV and JSON files, its log, its counters. Reading is left to
// Inputs; here bytes become a number or a reason.

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"flow/workflows/plan"
)

// Kinds of plan.Extract.
const (
	kindCSV        = "csv"
	kindJSON       = "json"
	kindLog        = "log"
	kindStdout     = "stdout"
	kindPrometheus = "prometheus"
	kindRequest    = "request"
)

// extract takes the number that x describes. request metrics are answered by the arm.
func extract(x *plan.Extract, in Inputs) (v value, source string) {
	switch x.Kind {
	case kindCSV, kindJSON:
		path := strings.TrimPrefix(x.Path, "{out}/")
		source = x.Kind + " " + path
		if in.File == nil {
			return missing("the files of the arm were not kept"), source
		}
		b, err := in.File(path)
		if err != nil {
			return missing("reading " + path + ": " + strings.ReplaceAll(err.Error(), "\n", " ")), source
		}
		if x.Kind == kindCSV {
			return fromCSV(b, x.Column, x.Row), source + " column " + x.Column
		}
		return fromJSON(b, x.Pointer), source + " " + x.Pointer
	case kindLog:
		return fromText(in.Log, x.Pattern, "the log"), "log"
	case kindStdout:
		return fromText(in.Stdout, x.Pattern, "stdout"), "stdout"
	case kindPrometheus:
		return fromSeries(x, in), "metrics endpoint " + x.Name
	}
	return missing(fmt.Sprintf("got extract kind %q, want csv, json, log, stdout, prometheus or request", x.Kind)), x.Kind
}

// fromCSV reads one column. ds4-bench writes one row per context length:
//
//	ctx_tokens,prefill_tokens,prefill_tps,gen_tokens,gen_tps,kvcache_bytes
//	2048,2048,343.76,128,26.76,52184460
//
// Some writers begin with a byte order mark. More than one row is refused unless the metric says which:
// the last row of a sweep is another experiment than the first.
func fromCSV(b []byte, column, row string) value {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	r := csv.NewReader(bytes.NewReader(b))
	r.TrimLeadingSpace = true
	head, err := r.Read()
	if err == io.EOF {
		return missing("the file is empty")
	}
	if err != nil {
		return missing("csv: " + err.Error())
	}
	at := -1
	for i, h := range head {
		if strings.TrimSpace(h) == column {
			if at >= 0 {
				return missing(fmt.Sprintf("column %q is there twice", column))
			}
			at = i
		}
	}
	if at < 0 {
		return missing(fmt.Sprintf("no column %q: got %s", column, short(strings.Join(head, ","))))
	}
	var xs []float64
	for {
		rec, err := r.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return missing("csv: " + err.Error())
		}
		v, err := parseNumber(rec[at])
		if err != nil {
			return missing(fmt.Sprintf("row %d of column %q: %v", len(xs)+1, column, err))
		}
		xs = append(xs, v)
	}
	return pick(xs, row)
}

// pick is one number of the rows, by the rule.
func pick(xs []float64, row string) value {
	if len(xs) == 0 {
		return missing("the file has a header and no rows")
	}
	total := 0.0
	for _, x := range xs {
		total += x
	}
	v := value{}
	switch row {
	case "", "only":
		if len(xs) != 1 {
			return missing(fmt.Sprintf("got %d rows, want exactly one: say row = \"last\", \"first\", \"sum\" or \"mean\"", len(xs)))
		}
		v = number(xs[0], "the only row")
	case "last":
		v = number(xs[len(xs)-1], "the last row")
	case "first":
		v = number(xs[0], "the first row")
	case "sum":
		v = number(total, "sum of rows")
	case "mean":
		v = number(total/float64(len(xs)), "mean of rows")
	default:
		return missing(fmt.Sprintf("got row %q, want only, last, first, sum or mean", row))
	}
	v.n = len(xs)
	return v
}

// parseNumber takes plain decimal numbers only: no hex, no infinity, no digit groups.
func parseNumber(s string) (float64, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return 0, fmt.Errorf("got nothing, want a number")
	}
	if strings.Trim(s, "0123456789.eE+-") != "" {
		return 0, fmt.Errorf("got %q, want a number", short(s))
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(v, 0) {
		return 0, fmt.Errorf("got %q, want a number", short(s))
	}
	return v, nil
}

// fromJSON reads the number at an RFC 6901 pointer.
func fromJSON(b []byte, pointer string) value {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		return missing("json: " + err.Error())
	}
	if _, err := d.Token(); err != io.EOF {
		return missing("json: more than one value in the file")
	}
	got, err := follow(doc, pointer)
	if err != nil {
		return missing(err.Error())
	}
	num, ok := got.(json.Number)
	if !ok {
		return missing(fmt.Sprintf("%s: got %s, want a number", pointer, kindOf(got)))
	}
	v, err := parseNumber(num.String())
	if err != nil {
		return missing(pointer + ": " + err.Error())
	}
	return number(v, "")
}

// follow walks a pointer.
func follow(doc any, pointer string) (any, error) {
	if pointer == "" {
		return doc, nil
	}
	if pointer[0] != '/' {
		return nil, fmt.Errorf("pointer %q: want it to begin with /", pointer)
	}
	walked := ""
	for _, part := range strings.Split(pointer[1:], "/") {
		key := strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		walked += "/" + part
		switch x := doc.(type) {
		case map[string]any:
			next, ok := x[key]
			if !ok {
				return nil, fmt.Errorf("nothing at %s", walked)
			}
			doc = next
		case []any:
			i, err := strconv.ParseUint(key, 10, 31)
			if err != nil || (len(key) > 1 && key[0] == '0') || int(i) >= len(x) {
				return nil, fmt.Errorf("nothing at %s: a list of %d", walked, len(x))
			}
			doc = x[i]
		default:
			return nil, fmt.Errorf("nothing at %s: above it is %s", walked, kindOf(doc))
		}
	}
	return doc, nil
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a number"
}

// fromText takes the first group of the last match: engines print running figures, and the last one is
// the whole. ^ and $ match at lines.
func fromText(text, pattern, what string) value {
	re, err := compile(pattern)
	if err != nil {
		return missing(err.Error())
	}
	if text == "" {
		return missing(what + " is empty")
	}
	all := re.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return missing(fmt.Sprintf("no line of %s matches %s", what, pattern))
	}
	v, err := parseNumber(all[len(all)-1][1])
	if err != nil {
		return missing(fmt.Sprintf("%s: %v", pattern, err))
	}
	out := number(v, "")
	if out.n = len(all); len(all) > 1 {
		out.rule = fmt.Sprintf("the last of %d matches", len(all))
	}
	return out
}

func compile(pattern string) (*regexp.Regexp, error) {
	re, err := regexp.Compile("(?m)" + pattern)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %v", pattern, err)
	}
	if re.NumSubexp() < 1 {
		return nil, fmt.Errorf("pattern %q: got no group, want one around the number", pattern)
	}
	return re, nil
}

// fromSeries reads a Prometheus series at the end of the measured step, or its growth over the step where
// the metric is a counter: by its declaration, or by the suffix _total that Prometheus reserves for them.
func fromSeries(x *plan.Extract, in Inputs) value {
	after, n := seriesOf(in.After, x.Name)
	if n == 0 {
		if len(in.After) == 0 {
			return missing("the metrics endpoint was not read")
		}
		return missing(fmt.Sprintf("the metrics endpoint has no series %q", x.Name))
	}
	name, _, _ := strings.Cut(x.Name, "{")
	if !x.Counter && !strings.HasSuffix(name, "_total") {
		if n > 1 {
			return missing(fmt.Sprintf("%d series are named %q: name one by its labels", n, x.Name))
		}
		return number(after, "value after the measured step")
	}
	before, n := seriesOf(in.Before, x.Name)
	if n == 0 {
		if len(in.Before) == 0 {
			return missing("the metrics endpoint was not read before the measured step")
		}
		return number(after, "growth over the measured step, in which the series appeared")
	}
	if after < before {
		return missing(fmt.Sprintf("the counter went back from %g to %g: the engine restarted", before, after))
	}
	return number(after-before, "growth over the measured step")
}

// seriesOf is the value of a series; of one that is there with labels only, the sum over them and how many
// there are: vLLM puts the model's name on each, which no workflow should have to say.
func seriesOf(m map[string]float64, name string) (sum float64, n int) {
	if v, ok := m[name]; ok {
		return v, 1
	}
	for _, k := range slices.Sorted(maps.Keys(m)) { // sums of floats depend on their order
		if strings.HasPrefix(k, name+"{") {
			sum, n = sum+m[k], n+1
		}
	}
	return sum, n
}
