package metric

// Formulas of declared metrics: "misses / (tokens - 1)". The language is numbers, names of metrics,
// + − * /, parentheses, and min, max, ln. A name that is not measured makes the result not measured.
//
//	expr    = term { ("+" | "-") term }
//	term    = factor { ("*" | "/") factor }
//	factor  = "-" factor | number | name | name "(" expr { "," expr } ")" | "(" expr ")"
//
// A name begins with a letter or _ and goes on with letters, digits, _ and dots ("nvml.0.power_w_mean");
// any other name stands in backquotes (`disk.dm-0.reads_diff`).

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
)

// maxNesting bounds the depth of a formula, so that a hostile one cannot exhaust the stack.
const maxNesting = 100

// CheckFormula parses a formula and gives the names it uses, sorted.
func CheckFormula(of string) (names []string, err error) {
	e, err := parseFormula(of)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	e.names(seen)
	return sortedKeys(seen), nil
}

// expr is a parsed formula: an operator, a function, a name or a number.
type expr struct {
	op   string // + - * / neg, min max ln, name, number
	name string
	num  float64
	args []*expr
}

func (e *expr) names(into map[string]bool) {
	if e.op == "name" {
		into[e.name] = true
	}
	for _, a := range e.args {
		a.names(into)
	}
}

// String writes the formula with all its parentheses; it parses to the same formula.
func (e *expr) String() string {
	switch e.op {
	case "number":
		return strconv.FormatFloat(e.num, 'g', -1, 64)
	case "name":
		if plain(e.name) {
			return e.name
		}
		return "`" + e.name + "`"
	case "neg":
		return "(-" + e.args[0].String() + ")"
	case "+", "-", "*", "/":
		return "(" + e.args[0].String() + " " + e.op + " " + e.args[1].String() + ")"
	}
	parts := make([]string, len(e.args))
	for i, a := range e.args {
		parts[i] = a.String()
	}
	return e.op + "(" + strings.Join(parts, ", ") + ")"
}

// eval computes e; ask answers names, nil with the reason where one is not measured.
func (e *expr) eval(ask func(name string) (*float64, string)) (v float64, why string) {
	switch e.op {
	case "number":
		return e.num, ""
	case "name":
		p, why := ask(e.name)
		if p == nil {
			if why == "" {
				why = "not measured"
			}
			return 0, e.name + ": " + why
		}
		return *p, ""
	}
	xs := make([]float64, len(e.args))
	for i, a := range e.args {
		if xs[i], why = a.eval(ask); why != "" {
			return 0, why
		}
	}
	switch e.op {
	case "neg":
		v = -xs[0]
	case "+":
		v = xs[0] + xs[1]
	case "-":
		v = xs[0] - xs[1]
	case "*":
		v = xs[0] * xs[1]
	case "/":
		if xs[1] == 0 {
			return 0, "division by zero: " + e.args[1].String() + " is 0"
		}
		v = xs[0] / xs[1]
	case "ln":
		if xs[0] <= 0 {
			return 0, fmt.Sprintf("ln of %g", xs[0])
		}
		v = math.Log(xs[0])
	case "min", "max":
		v = xs[0]
		for _, x := range xs[1:] {
			if (x < v) == (e.op == "min") {
				v = x
			}
		}
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, "the result is not a finite number"
	}
	return v, ""
}

type parser struct {
	text string
	at   int
	deep int
}

func parseFormula(of string) (*expr, error) {
	if len(of) > 10000 {
		return nil, fmt.Errorf("formula of %d bytes, want at most 10000", len(of))
	}
	p := &parser{text: of}
	e, err := p.expr()
	if err == nil && p.peek() != 0 {
		err = p.want("an operator or the end")
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// peek is the next byte that is not a space, 0 at the end.
func (p *parser) peek() byte {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

func (p *parser) want(what string) error {
	got := "the end"
	if p.peek() != 0 {
		got = strconv.Quote(p.text[p.at:min(len(p.text), p.at+10)])
	}
	return fmt.Errorf("formula %q: at %d: got %s, want %s", short(p.text), p.at+1, got, what)
}

func short(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

func (p *parser) expr() (*expr, error) {
	return p.chain("+-", func() (*expr, error) { return p.chain("*/", p.factor) })
}

// chain parses operands joined by any of ops, to the left.
func (p *parser) chain(ops string, operand func() (*expr, error)) (*expr, error) {
	left, err := operand()
	for err == nil {
		c := p.peek()
		if c == 0 || strings.IndexByte(ops, c) < 0 {
			return left, nil
		}
		p.at++
		var right *expr
		if right, err = operand(); err == nil {
			left = &expr{op: string(c), args: []*expr{left, right}}
		}
	}
	return nil, err
}

func (p *parser) factor() (*expr, error) {
	if p.deep++; p.deep > maxNesting {
		return nil, fmt.Errorf("formula %q: nested deeper than %d", short(p.text), maxNesting)
	}
	defer func() { p.deep-- }()
	c := p.peek()
	switch {
	case c == '-':
		p.at++
		e, err := p.factor()
		if err != nil {
			return nil, err
		}
		return &expr{op: "neg", args: []*expr{e}}, nil
	case c == '(':
		p.at++
		e, err := p.expr()
		if err != nil {
			return nil, err
		}
		return e, p.close()
	case c == '`':
		end := strings.IndexByte(p.text[p.at+1:], '`')
		if end <= 0 {
			return nil, p.want("a name in backquotes")
		}
		name := p.text[p.at+1 : p.at+1+end]
		p.at += end + 2
		return &expr{op: "name", name: name}, nil
	case c >= '0' && c <= '9' || c == '.':
		return p.number()
	case letter(c):
		return p.nameOrCall()
	}
	return nil, p.want("a number, a name or (")
}

func (p *parser) close() error {
	if p.peek() != ')' {
		return p.want(")")
	}
	p.at++
	return nil
}

func (p *parser) number() (*expr, error) {
	end := p.at
	for end < len(p.text) {
		c := p.text[end]
		sign := (c == '+' || c == '-') && end > p.at && (p.text[end-1] == 'e' || p.text[end-1] == 'E')
		if !(c >= '0' && c <= '9' || c == '.' || c == 'e' || c == 'E' || sign) {
			break
		}
		end++
	}
	v, err := strconv.ParseFloat(p.text[p.at:end], 64)
	if err != nil || math.IsInf(v, 0) {
		return nil, p.want("a number")
	}
	p.at = end
	return &expr{op: "number", num: v}, nil
}

func (p *parser) nameOrCall() (*expr, error) {
	end := p.at
	for end < len(p.text) && inName(p.text[end]) {
		end++
	}
	name := p.text[p.at:end]
	start := p.at
	p.at = end
	if p.peek() != '(' {
		return &expr{op: "name", name: name}, nil
	}
	most, known := map[string]int{"min": 100, "max": 100, "ln": 1}[name]
	if !known {
		p.at = start
		return nil, p.want("a function: min, max or ln")
	}
	p.at++
	e := &expr{op: name}
	for {
		a, err := p.expr()
		if err != nil {
			return nil, err
		}
		e.args = append(e.args, a)
		if p.peek() != ',' {
			break
		}
		if len(e.args) == most {
			return nil, p.want(fmt.Sprintf("at most %d arguments of %s", most, name))
		}
		p.at++
	}
	return e, p.close()
}

func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

func inName(c byte) bool {
	return letter(c) || c >= '0' && c <= '9' || c == '.'
}

// plain says whether a name needs no backquotes.
func plain(name string) bool {
	if name == "" || !letter(name[0]) {
		return false
	}
	for i := range len(name) {
		if !inName(name[i]) {
			return false
		}
	}
	return true
}

// cycle gives a chain of formulas that lead back to their start, nil where there is none.
func cycle(of map[string]*expr) []string {
	const open, done = 1, 2
	state := map[string]int{}
	var walk func(name string, path []string) []string
	walk = func(name string, path []string) []string {
		e := of[name]
		if e == nil || state[name] == done {
			return nil
		}
		path = append(path, name)
		if state[name] == open {
			return path
		}
		state[name] = open
		seen := map[string]bool{}
		e.names(seen)
		for _, n := range sortedKeys(seen) {
			if c := walk(n, path); c != nil {
				return c
			}
		}
		state[name] = done
		return nil
	}
	names := sortedKeys(of)
	sort.Strings(names)
	for _, n := range names {
		if c := walk(n, nil); c != nil {
			for c[0] != c[len(c)-1] {
				c = c[1:]
			}
			return c
		}
	}
	return nil
}
