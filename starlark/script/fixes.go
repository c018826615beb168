package script

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"flow/starlark/diag"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Researchers write Python; Starlark looks like it and says "got string literal, want newline". This file
// holds what to write instead, as data: testdata/fixes.golden has an example of every row.

type phase uint8

const (
	parsing phase = iota
	resolving
	evaluating
)

// habit is one row: an error of the interpreter, recognised by its message and the line it is on.
type habit struct {
	name  string
	phase phase
	msg   string // regexp on the message
	line  string // regexp on the source line; empty matches all. A group named "at" gives the column
	say   string // replaces the message; {1} is a group of msg, {l1} of line
	fix   string // as say
	// more computes the fix where text is not enough; "" leaves fix as it is.
	more func(s site) string
}

// site is what a computed fix may look at.
type site struct {
	loader *Loader
	pos    diag.Pos
	msg    []string // groups of habit.msg
	line   []string // groups of habit.line
	text   string   // the source line
	callee *starlark.CallFrame
}

// habits, in the order of asking; the first that fits counts.
func habits() []habit {
	const primary = `^got .*want primary expression`
	rows := []habit{
		{"f-string", parsing, `^got string literal, want`, `(?:^|[^\w"'])(?P<at>[fF][rR]?|[rR][fF])["']`, `f-strings are not part of Starlark`, `write "%s has %d" % (name, n), or "{} has {}".format(name, n)`, nil},
		{"string prefix", parsing, `^got string literal, want`, `(?:^|[^\w"'])(?P<at>[uU])["']`, `Starlark strings have no prefix u`, `write "text"`, nil},
		{"print statement", parsing, `^got .*, want newline`, `^\s*(?P<at>print)\s+(.+)$`, `print is a function`, `write print({l2})`, nil},
		{"texts side by side", parsing, `^got string literal, want`, `(?:^|["'])\s*(?P<at>[rb]?["'])`, `texts side by side are not joined in Starlark`, `write + between them`, nil},
		{"assert", parsing, `^got .*, want newline`, `^\s*(?P<at>assert)\b`, `assert is not part of Starlark`, `write if not condition: fail("what is wrong")`, nil},
		{"exec or match statement", parsing, `^got .*, want newline`, `^\s*(?P<at>match|exec)\s+`, `{l1} is not part of Starlark`, `write if, elif and else`, nil},
		{"try", parsing, `^got (try|except|finally), want`, ``, `{1} is not part of Starlark: errors cannot be caught`, `ask before: if key in d: …, d.get(key, default), getattr(x, "name", default)`, nil},
		{"is", parsing, `^got is, want`, `(?P<at>\bis\b)( not)?`, `is is not part of Starlark`, `compare with == or !=: x == None, x != None`, nil},
		{"chained comparison", parsing, `^(\S+) does not associate with (\S+)`, ``, `comparisons cannot be chained`, `write a {1} b and b {2} c`, nil},
		{"class", parsing, `^got class, want`, ``, `class is not part of Starlark`, `a record is struct(name = value, …); behaviour is a function that takes it`, nil},
		{"import", parsing, `^got (import|from), want`, ``, `import is not part of Starlark`, `write load("file.star", "name")`, nil},
		{"raise", parsing, `^got raise, want`, ``, `raise is not part of Starlark`, `write fail("what is wrong")`, nil},
		{"del", parsing, `^got del, want`, ``, `del is not part of Starlark`, `write d.pop(key) for a dict, l.pop(i) for a list`, nil},
		{"global", parsing, `^got (global|nonlocal), want`, ``, `{1} is not part of Starlark: a function cannot assign outer variables`, `return the value and use it where the function is called`, nil},
		{"with", parsing, `^got with, want`, ``, `with is not part of Starlark`, `call the function and use its result; there is nothing to close`, nil},
		{"async", parsing, `^got (async|await), want`, ``, `{1} is not part of Starlark`, `write it without: every call waits for its result`, nil},
		{"yield", parsing, `^got yield, want`, ``, `yield is not part of Starlark`, `collect the values in a list and return it`, nil},
		{"decorator", parsing, `^unexpected input character '@'`, ``, `decorators are not part of Starlark`, `call it: checked = decorate(function)`, nil},
		{"increment", parsing, primary, `(\w+)\s*(?P<at>\+\+|--)`, `{l2} is not part of Starlark`, `write {l1} += 1`, func(s site) string {
			return fmt.Sprintf("write %s %c= 1", s.line[1], s.line[2][0])
		}},
		{"dict unpacking", parsing, `^got '\*\*', want primary expression`, ``, `** does not unpack into a dict`, `write a | b for two dicts`, nil},
		{"power", parsing, `^got '\*\*', want`, ``, `there is no power operator`, `write x * x, or math.pow(x, n)`, nil},
		{"list unpacking", parsing, `^got '\*', want primary expression`, ``, `* does not unpack into a list`, `write a + b for two lists`, nil},
		{"ternary without else", parsing, `^conditional expression without else clause`, ``, ``, `write a if condition else b`, nil},
		{"walrus", parsing, `^got ':', want`, `(?P<at>:=)`, `:= is not part of Starlark`, `assign on a line of its own, before`, nil},
		{"annotation of a result", parsing, `^got '-', want ':'|^got '>'|^got .*want ':'`, `^\s*def\b.*\)\s*(?P<at>->)`, `types are not annotated in Starlark`, `write def name(a, b):`, nil},
		{"annotation of a parameter", parsing, `^got ':', want '\)'`, `^\s*def\b.*?\w\s*(?P<at>:)`, `types are not annotated in Starlark`, `write def name(a, b):`, nil},
		{"annotation of a variable", parsing, `^got ':', want newline`, `^\s*\w+\s*(?P<at>:)\s*[\w\[\], .]+`, `types are not annotated in Starlark`, `write name = value`, nil},
		{"else if", parsing, `^got if, want ':'`, `(?P<at>else\s+if)\b`, ``, `write elif`, nil},
		{"else of a loop", parsing, `^got else, want primary expression`, ``, `this else has no if`, `a loop has no else in Starlark, and an else stands exactly under its if`, nil},
		{"and", parsing, primary, `(?P<at>&&)`, `&& is not part of Starlark`, `write and`, nil},
		{"or", parsing, primary, `(?P<at>\|\|)`, `|| is not part of Starlark`, `write or`, nil},
		{"not", parsing, `^unexpected input character '!'`, ``, `! is not part of Starlark`, `write not x`, nil},
		{"question mark", parsing, `^unexpected input character '\?'`, ``, `? is not part of Starlark`, `write a if condition else b`, nil},
		{"unequal", parsing, `^got '>', want primary expression`, `(?P<at><>)`, `<> is not part of Starlark`, `write !=`, nil},
		{"ellipsis", parsing, `^got '\.', want primary expression`, `(?P<at>\.\.\.)`, `... is not part of Starlark`, `write pass`, nil},
		{"set literal", parsing, `^got ('}'|','|for), want ':'`, ``, `a set has no literal`, `write set([a, b])`, nil},
		{"digit groups", parsing, `^got identifier, want`, `\d(?P<at>_)\d`, `a number has no _ in Starlark`, `write 1000000, or 1e6 for a float`, nil},
		{"chained assignment", parsing, `^got '=', want newline`, `^\s*\w+\s*=[^=]`, `an assignment has one = in Starlark`, `write one line for each name`, nil},
		{"quotes", parsing, "^unexpected input character '[“”‘’`´]'", ``, `only " and ' quote text`, `write "text"`, nil},
		{"missing colon", parsing, `^got newline, want ':'`, `^\s*(def|if|elif|else|for)\b`, `this line lacks ":" at its end`, `write : at the end of the line`, nil},
		{"open bracket", parsing, `^got (.*), want '([\])}])'`, ``, `a bracket is still open here`, `close it with {2}, or write a comma before the next value`, nil},
		{"open string", parsing, `^unexpected (EOF|newline) in string`, ``, `this text has no closing quote`, `text over several lines stands between """ and """`, nil},
		{"indentation", parsing, `^got (indent|outdent), want|^unindent does not match`, ``, `this line is not indented as the lines around it`, `a block's lines start in the same column`, nil},
		{"missing indent", parsing, `^got (.*), want indent`, ``, `this line is not indented further than the line before its block`, `indent it by four spaces more`, func(s site) string {
			if strings.Contains(s.text, "\t") || strings.Contains(s.loader.file(s.pos.File).line(s.pos.Line-1), "\t") {
				return "tabs and spaces are mixed: indent with spaces only"
			}
			return ""
		}},
		{"tuple with a comma", parsing, `^unparenthesized tuple with trailing comma`, ``, ``, `write parentheses around it, (a,), or take the last comma away`, nil},
		{"load without names", parsing, `^load statement must import at least 1 symbol`, ``, ``, `name what you want of it: load("file.star", "name")`, nil},
		{"keyword as name", parsing, `^not an identifier`, ``, `this is not a name`, `a name is letters, digits and _, and no word of the language`, nil},

		{"while", resolving, `does not support while loops`, ``, `while is not part of Starlark: every loop ends`, `write for _ in range(1000): … with break or return when done`, nil},
		{"top-level for", resolving, `^for loop not within a function`, ``, `a loop stands in a function`, `write [f(x) for x in xs], or put the loop into a function`, nil},
		{"top-level if", resolving, `^if statement not within a function`, ``, `an if statement stands in a function`, `write x = a if condition else b, or put it into a function`, nil},
		{"global assigned twice", resolving, `^cannot reassign (?:global|top-level) (\w+)`, ``, ``, `a global has one value: give the second one another name`, nil},
		{"return outside", resolving, `^return statement not within a function`, ``, ``, `only functions return; a global is name = value`, nil},
		{"load in a function", resolving, `^load statement within a`, ``, ``, `move it to the top of the file`, nil},
		{"load of a private name", resolving, `^load: names with leading underscores are not exported: _*(\w+)`, ``, ``, `rename it to {1} in the file that defines it`, nil},
		{"positional after named", resolving, `^positional argument may not follow named`, ``, ``, `put it before the named ones, or name it`, nil},
		{"required after optional", resolving, `^required parameter may not follow optional`, ``, ``, `parameters without default come first, or after *`, nil},
		{"constant of another language", resolving, `^undefined: (null|nil|true|false|NULL|none|NaN|nan)\b`, ``, ``, ``, func(s site) string {
			other := map[string]string{"true": "True", "false": "False", "NaN": "None: what was not measured is None", "nan": "None: what was not measured is None"}
			if w := other[s.msg[1]]; w != "" {
				return "write " + w
			}
			return "write None"
		}},
		{"capability", resolving, `^undefined: (session|arm|process)\b`, ``, `the top level of a file has no {1}`, ``, func(s site) string {
			return map[string]string{
				"session": "what acts stands in main, which gets it:\ndef main(session):\n    result = session.run(…)",
				"arm":     "a gate's check and a group's body get it: def check(arm): …",
				"process": "it is the result of arm.launch() in a group's body",
			}[s.msg[1]]
		}},
		{"builtin of Python", resolving, `^undefined: (sum|map|filter|open|isinstance|exit|quit|input|eval|exec|super|object|iter|next|pow|lambda|time|os|sys|re|format|frozenset|complex|divmod|callable|id|globals|locals|vars|self|Exception|ValueError)\b`, ``, ``, ``, pythonBuiltin},
		{"unknown name", resolving, `^undefined: (\w+)(.*)`, ``, ``, ``, unknownName},

		{"variable named as what it calls", evaluating, `^global variable (\w+) referenced before assignment`, `^\s*(\w+)\s*=.*\b(\w+)\s*\(`, ``, ``, func(s site) string {
			name := s.msg[1]
			if s.line[1] != name || s.loader == nil || !s.loader.known(name) {
				return fmt.Sprintf("move the line that assigns %s above this one", name)
			}
			return fmt.Sprintf("the variable hides what it calls: rename it, my_%s = %s(…)", name, name)
		}},
		{"global used too early", evaluating, `^global variable (\w+) referenced before assignment`, ``, ``, `move the line that assigns {1} above this one`, nil},
		{"local assigned later", evaluating, `^local variable (\w+) referenced before assignment`, ``, ``, `assign {1} first, on every way here`, func(s site) string {
			if f := s.loader.file(s.pos.File); f != nil && slices.Contains(f.globals, s.msg[1]) {
				return fmt.Sprintf("assigning %s in a function makes it the function's own, and hides the global: use another name, and return the value", s.msg[1])
			}
			return ""
		}},
		{"frozen", evaluating, `cannot (.+) frozen (list|hash table|set)`, ``, ``, ``, frozenValue},
		{"changed while looped over", evaluating, `cannot .* (list|hash table|set) during iteration`, ``, ``, `loop over a copy: for x in list(xs)`, nil},
		{"attribute of None", evaluating, `^NoneType has no \.(\w+) field or method`, ``, `None has no .{1}`, `the value is not there: test it first, if x != None: … x.{1}`, nil},
		{"has_key", evaluating, `has no \.has_key field or method`, ``, ``, `write key in d`, nil},
		{"float format", evaluating, `^unknown conversion %[-.0-9+ #]`, ``, `a format takes no width and no digits`, `write "%d" or "%s" without a width`, func(s site) string {
			if m := regexp.MustCompile(`%[-+ #0-9]*\.(\d*)[a-zA-Z]`).FindStringSubmatch(s.text); m != nil {
				return fmt.Sprintf(`write "%%s" %% fixed(x, %s)`, cmp.Or(m[1], "0"))
			}
			if strings.HasPrefix(s.msg[0], "unknown conversion %.") { // the format stands elsewhere
				return `write "%s" % fixed(x, 2)`
			}
			return ""
		}},
		{"format spec", evaluating, `format spec features not supported in replacement fields: (\S*)`, ``, ``, `write "{}".format(fixed(x, 2))`, nil},
		{"format wants a number", evaluating, `^%(\w) format requires`, ``, ``, `write %s for text`, nil},
		{"format arguments", evaluating, `(not enough|too many) arguments for format string`, ``, ``, `one value for every %: "%s of %s" % (a, b)`, nil},
		{"text and number", evaluating, `^unknown binary op: (string \+ (int|float)|(int|float) \+ string)`, ``, ``, `write str(x), or "%s" % x`, nil},
		{"list and value", evaluating, `^unknown binary op: list \+ (\w+)`, ``, ``, `write xs + [x]`, nil},
		{"dict and dict", evaluating, `^unknown binary op: dict \+ dict`, ``, ``, `write a | b`, nil},
		{"compared kinds", evaluating, `^(\w+) (<|>|<=|>=) (\w+) not implemented`, ``, ``, `make them one kind first: int(x), float(x), str(x)`, func(s site) string {
			if s.msg[1] == "duration" || s.msg[3] == "duration" {
				return "compare durations with durations, or take .seconds of this one"
			}
			if s.msg[1] == "NoneType" || s.msg[3] == "NoneType" {
				return "one of them was not measured: test x != None first"
			}
			return ""
		}},
		{"missing key", evaluating, `^key (.+) not in dict`, ``, ``, `write d.get({1}, default), or test {1} in d`, nil},
		{"recursion", evaluating, `^function (\w+) called recursively`, ``, ``, `Starlark has no recursion: loop over a list of what is left to do`, nil},
		{"call of no function", evaluating, `^invalid call of non-function \((\w+)\)`, ``, `got {1}, want a function to call`, `take the parentheses away, or see whether a variable has the function's name`, nil},
		{"loop over a number", evaluating, `^(int|float) value is not iterable`, ``, ``, `write range(n)`, nil},
		{"loop over a record", evaluating, `^(\w+) value is not iterable`, ``, ``, `print(dir(x)) lists its fields`, func(s site) string {
			return map[string]string{
				"group": "a result has several lists: for c in result.comparisons: …, or .arms, .sides, .warnings",
				"arm":   "an arm has several lists: for r in arm.requests: …, or .metrics, .evidence",
			}[s.msg[1]]
		}},
		{"unhashable", evaluating, `unhashable type: (\w+)`, ``, ``, `a key must not change: write tuple(xs) for a list`, nil},
		{"unpacking", evaluating, `^too (many|few) values to unpack`, ``, ``, `as many names on the left as values on the right`, nil},
		{"division by zero", evaluating, `division by zero|modulo by zero`, ``, ``, `test the divisor first: a / b if b else None`, nil},
		{"fail with a fix", evaluating, `(?s)^fail: (.*)\nfix: (.*)$`, ``, `{1}`, `{2}`, nil},
		{"unknown field", evaluating, `^(\S+) has no \.(\w+) (?:field or method|attribute)(?: \(did you mean (\.\w+)\?\))?`, ``, ``, `print(dir(x)) lists its fields`, func(s site) string {
			switch {
			case s.msg[3] != "":
				return "write " + s.msg[3]
			case s.msg[1] == "session" && (s.msg[2] == "sleep" || s.msg[2] == "wait"):
				return `a pause before each arm is group(…, settle = "5s"); session.wait_until waits for a condition`
			case slices.Contains([]string{"session", "arm", "process"}, s.msg[1]):
				return "flow builtins " + s.msg[1] + " lists what it can do"
			case s.msg[1] == "string":
				return "this is text where something made by a function is wanted: call the function that makes it"
			case s.msg[1] == "NoneType":
				return "this is None, what was not measured or not found: test x != None first"
			}
			return ""
		}},
		{"index that is no number", evaluating, `^(list|tuple) index: got (\w+), want int`, ``, ``, `a {1} has numbers: [x for x in xs if x.name == "…"]`, func(s site) string {
			if strings.Contains(s.text, ".metrics[") {
				return `write arm.metric("decode_tok_s")`
			}
			return ""
		}},
		{"main without its session", evaluating, `^function (main) (?:accepts no arguments|missing \d+ argument)`, ``, ``, `flow calls main with the session: def main(session):`, func(s site) string {
			if s.callee != nil { // the file calls it by itself
				return wrongCall(s)
			}
			return ""
		}},
		{"wrong call", evaluating, `^function (\w+) (missing|accepts|got) `, ``, ``, ``, wrongCall},
		{"name not in file", evaluating, `^load: name (\w+) not found in module (\S+?)(?: \((.*)|$)`, ``, ``, ``, loadedNames},
	}
	return rows
}

// befriend finds the row for an error and fills in its fix.
func (l *Loader) befriend(d *diag.Error, p phase, msg string, callee *starlark.CallFrame) {
	if p == parsing && l.neverClosed(d, msg) || p == resolving && l.misloaded(d, msg) {
		return
	}
	text := l.file(d.Pos.File).line(d.Pos.Line)
	for _, h := range habits() {
		if h.phase != p {
			continue
		}
		m := regexp.MustCompile(h.msg).FindStringSubmatch(msg)
		if m == nil {
			continue
		}
		var groups []string
		if h.line != "" {
			re := regexp.MustCompile(h.line)
			at := re.FindStringSubmatchIndex(text)
			if at == nil {
				continue
			}
			groups = re.FindStringSubmatch(text)
			if i := re.SubexpIndex("at"); i > 0 && at[2*i] >= 0 {
				d.Pos.Col = len([]rune(text[:at[2*i]])) + 1
			}
		}
		if h.say != "" && (d.Err == nil || strings.HasPrefix(msg, "fail: ")) {
			d.Err = nil
			d.Msg = fill(h.say, m, groups)
		}
		d.Fix = fill(h.fix, m, groups)
		if h.more != nil {
			if fix := h.more(site{l, d.Pos, m, groups, text, callee}); fix != "" {
				d.Fix = fix
			}
		}
		return
	}
}

func fill(text string, msg, line []string) string {
	for i, g := range msg {
		text = strings.ReplaceAll(text, fmt.Sprintf("{%d}", i), g)
	}
	for i, g := range line {
		text = strings.ReplaceAll(text, fmt.Sprintf("{l%d}", i), g)
	}
	return text
}

// known says whether a name exists without the file's own doing.
func (l *Loader) known(name string) bool {
	return l.Predeclared.Has(name) || starlark.Universe.Has(name)
}

func pythonBuiltin(s site) string {
	if fix := unknownName(s); strings.HasPrefix(fix, "load") {
		return fix
	}
	switch name := s.msg[1]; name {
	case "sum":
		return "add in a loop, or with a function of the library"
	case "map", "filter":
		return "write [f(x) for x in xs if …]"
	case "open":
		return "a workflow opens no files: a prompt is prompt_file(\"prompts/main.txt\"), an engine's result extract.json(…), a value of yours param(…)"
	case "input":
		return "a workflow asks nobody: what may differ is param(\"name\", default = …), set with --set name=value"
	case "eval", "exec":
		return "a workflow is what stands in its files: load(\"file.star\", \"name\"); a group's body runs a program with arm.exec([…])"
	case "isinstance":
		return `write type(x) == "string"`
	case "exit", "quit", "Exception", "ValueError":
		return `write fail("what is wrong")`
	case "pow":
		return "write math.pow(x, n)"
	case "time":
		return "there is no clock: a workflow must run the same way again"
	case "format":
		return "write fixed(x, 2)"
	default:
		return "Starlark has no " + name
	}
}

// unknownName looks for the name in the library, then for a near one among all that the file could mean.
func unknownName(s site) string {
	name := s.msg[1]
	if label := s.loader.exporting(name); label != "" && label != s.pos.File {
		return fmt.Sprintf("load(%q, %q)", label, name)
	}
	if strings.Contains(s.msg[0], "did you mean") { // one of the file's own names
		return ""
	}
	names := append(s.loader.Predeclared.Keys(), starlark.Universe.Keys()...)
	if f := s.loader.file(s.pos.File); f != nil { // unresolved: its own names are found as text
		for _, m := range regexp.MustCompile(`(?m)^(?:def )?(\w+)\s*[=(]`).FindAllStringSubmatch(f.Text, -1) {
			names = append(names, m[1])
		}
	}
	if near := diag.Nearest(name, names); near != "" && near != name {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return ""
}

// frozenValue names what froze the list where that is known, else says that globals are.
func frozenValue(s site) string {
	f := s.loader.file(s.pos.File)
	name := ""
	if m := regexp.MustCompile(`(\w+)\s*(?:\.\w+\(|\[|[-+|&^]=)`).FindStringSubmatch(s.text); m != nil {
		name = m[1]
	}
	instead := "make a new one instead: xs = xs + [x]"
	if s.msg[2] == "hash table" {
		instead = `make a new one instead: d = d | {"key": value}`
	}
	if name != "" {
		instead = strings.ReplaceAll(strings.ReplaceAll(instead, "xs", name), "d =", name+" =")
		instead = strings.ReplaceAll(instead, "= d |", "= "+name+" |")
	}
	by := s.loader.freezer(name, s.pos)
	switch {
	case by != "":
		return fmt.Sprintf("%s captured %s, so it stays as it is; %s", by, name, instead)
	case f != nil && slices.Contains(f.globals, name):
		return fmt.Sprintf("globals do not change once their file has ended: copy %s in the function and return it", name)
	}
	return instead
}

// wrongCall shows how the function was declared.
func wrongCall(s site) string {
	if s.callee == nil {
		return ""
	}
	def := s.loader.enclosingDef(toPos(s.callee.Pos))
	if def == nil || def.Name.Name != s.msg[1] {
		return ""
	}
	var params []string
	for _, p := range def.Params {
		switch p := p.(type) {
		case *syntax.Ident:
			params = append(params, p.Name)
		case *syntax.BinaryExpr:
			params = append(params, p.X.(*syntax.Ident).Name+"=…")
		case *syntax.UnaryExpr:
			star := p.Op.String()
			if id, ok := p.X.(*syntax.Ident); ok {
				star += id.Name
			}
			params = append(params, star)
		}
	}
	return fmt.Sprintf("call it as %s(%s)", def.Name.Name, strings.Join(params, ", "))
}

// loadedNames lists what the file does define.
func loadedNames(s site) string {
	if m := regexp.MustCompile(`did you mean (\w+)\?`).FindStringSubmatch(s.msg[0]); m != nil {
		return fmt.Sprintf("load(%q, %q)", s.msg[2], m[1])
	}
	label, err := resolveLabel(s.pos.File, s.msg[2])
	if err != nil {
		return ""
	}
	s.loader.mu.Lock()
	names := s.loader.modules[label].Keys()
	s.loader.mu.Unlock()
	if other := s.loader.exporting(s.msg[1]); other != "" {
		return fmt.Sprintf("it is in another file: load(%q, %q)", other, s.msg[1])
	}
	names = slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(n, "_") })
	if near := diag.Nearest(s.msg[1], names); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	if len(names) == 0 {
		return "the file defines no names"
	}
	return "the file defines " + strings.Join(names, ", ")
}
