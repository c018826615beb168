package metric

import (
	"math"
	"strings"
	"testing"
)

func TestFormula(t *testing.T) {
	vars := map[string]float64{"misses": 398, "tokens": 200, "zero": 0, "neg": -4, "a.b.c": 7, "disk.dm-0.reads": 5}
	ask := func(name string) (*float64, string) {
		if v, ok := vars[name]; ok {
			return &v, ""
		}
		return nil, "was not read"
	}
	tests := []struct {
		of   string
		want float64
		why  string
	}{
		{"misses / (tokens - 1)", 2, ""},
		{"1 + 2 * 3 - 4 / 2", 5, ""},
		{"10 - 4 - 3", 3, ""},
		{"16 / 4 / 2", 2, ""},
		{"-2 * -3", 6, ""},
		{"--1", 1, ""},
		{"2*-neg", 8, ""},
		{"1.5e2 + .5", 150.5, ""},
		{"1e-2", .01, ""},
		{"min(3, 1, 2) + max(3, 1, 2)", 4, ""},
		{"ln(1)", 0, ""},
		{"a.b.c + `disk.dm-0.reads`", 12, ""},
		{"\t( tokens )\n", 200, ""},
		{"gone + 1", 0, "gone: was not read"},
		{"0 * gone", 0, "gone: was not read"},
		{"1 / zero", 0, "division by zero: zero is 0"},
		{"1 / (tokens - 200)", 0, "division by zero"},
		{"ln(neg)", 0, "ln of -4"},
		{"1e308 * 10", 0, "not a finite number"},
	}
	for _, tt := range tests {
		e, err := parseFormula(tt.of)
		if err != nil {
			t.Errorf("%s: %v", tt.of, err)
			continue
		}
		v, why := e.eval(ask)
		if tt.why != "" && !strings.Contains(why, tt.why) || tt.why == "" && (why != "" || !near(v, tt.want)) {
			t.Errorf("%s: got %v, %q, want %v, %q", tt.of, v, why, tt.want, tt.why)
		}
	}
}

func TestFormulaErrors(t *testing.T) {
	for of, want := range map[string]string{
		"":                         "got the end, want a number, a name or (",
		"1 +":                      "at 4: got the end",
		"(1":                       "want )",
		"1 2":                      `got "2", want an operator or the end`,
		"a b":                      `got "b"`,
		"foo(1)":                   "want a function: min, max or ln",
		"ln(1, 2)":                 "at most 1 arguments",
		"ln()":                     "want a number",
		"1..2":                     "want a number",
		"1e999":                    "want a number",
		"a ? b":                    `got "? b"`,
		"``":                       "name in backquotes",
		"`a":                       "name in backquotes",
		strings.Repeat("(", 200):   "nested deeper",
		strings.Repeat("-", 200):   "nested deeper",
		strings.Repeat("1+", 9000): "at most 10000",
	} {
		if _, err := CheckFormula(of); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", short(of), err, want)
		}
	}
	names, err := CheckFormula("b + a * min(b, c.d_mean) - 2e3")
	if err != nil || strings.Join(names, " ") != "a b c.d_mean" {
		t.Errorf("names %v, %v", names, err)
	}
}

// No text panics; what parses has the same meaning after it is written and parsed again.
func FuzzFormula(f *testing.F) {
	for _, s := range []string{"misses / (tokens - 1)", "-min(a, `b-c`, 1e-3)", "ln(2)*-.5", "((a))", "1e", "a.b"} {
		f.Add(s)
	}
	ask := func(name string) (*float64, string) { v := float64(len(name)); return &v, "" }
	f.Fuzz(func(t *testing.T, of string) {
		e, err := parseFormula(of)
		if err != nil {
			return
		}
		v, why := e.eval(ask)
		if why == "" && (math.IsNaN(v) || math.IsInf(v, 0)) {
			t.Fatalf("%q is %v", of, v)
		}
		again, err := parseFormula(e.String())
		if err != nil {
			if strings.Contains(err.Error(), "deeper") || strings.Contains(err.Error(), "at most") {
				return // writing adds parentheses
			}
			t.Fatalf("%q was written as %q: %v", of, e.String(), err)
		}
		if w, why2 := again.eval(ask); w != v || why2 != why {
			t.Fatalf("%q is %v %q, written and parsed again %v %q", of, v, why, w, why2)
		}
	})
}

// finite fails unless v is a finite number or nil with a reason.
func finite(t *testing.T, v value) {
	if v.v == nil && v.why == "" {
		t.Fatal("nil without a reason")
	}
	if v.v != nil && (math.IsNaN(*v.v) || math.IsInf(*v.v, 0)) {
		t.Fatalf("%v", *v.v)
	}
}

func FuzzCSV(f *testing.F) {
	f.Add([]byte("\xef\xbb\xbfa,b\n1,2\n"), "a", "last")
	f.Add([]byte("a,\"b\nc\"\r\n1,2e3"), "b\nc", "")
	f.Fuzz(func(t *testing.T, b []byte, column, row string) { finite(t, fromCSV(b, column, row)) })
}

func FuzzLog(f *testing.F) {
	f.Add("hit rate: 81.5% (3)\n", `rate: ([0-9.]+)%`)
	f.Add("n=1e400", `n=(.*)`)
	f.Fuzz(func(t *testing.T, text, pattern string) { finite(t, fromText(text, pattern, "the log")) })
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b~/":2}]}`), "/a/1/b~0~1")
	f.Fuzz(func(t *testing.T, b []byte, pointer string) { finite(t, fromJSON(b, pointer)) })
}
