package plan

// Flags in a command line. A flag's value cannot be told from the positional argument that follows it, and
// a wrong guess once took the input file away from one side and called the result better. So flow knows
// what a flag takes, or it refuses:
//
//   - a flag that engine(flags = ...) names, and one that a lever gives a value, takes one value;
//   - a flag that engine(bare = ...) names, and one that a lever says is True, takes none;
//   - any other flag may be removed only where nothing that could be its value follows it.

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"flow/starlark/diag"
)

// flags is what is known of an engine's flags: their other names, and which take a value.
type flags struct {
	aliases map[string][]string
	takes   map[string]bool // absent: not known
}

func flagsOf(e Engine, s Stack) flags {
	f := flags{e.Flags, map[string]bool{}}
	for name, others := range e.Flags {
		for _, n := range append([]string{name}, others...) {
			f.takes[n] = true
		}
	}
	for _, l := range s {
		for _, a := range l.Args {
			if a.Bare || len(a.Values) > 0 {
				for _, n := range f.names(a.Flag) {
					f.takes[n] = !a.Bare
				}
			}
		}
	}
	for _, b := range e.Bare {
		for _, n := range f.names(b) {
			f.takes[n] = false
		}
	}
	return f
}

// names is a flag and its other names.
func (f flags) names(flag string) []string {
	out := []string{flag}
	for name, others := range f.aliases {
		if name == flag || slices.Contains(others, flag) {
			out = append(out, name)
			out = append(out, others...)
		}
	}
	sort.Strings(out[1:])
	return slices.Compact(out)
}

// change applies what a lever says of arguments.
func (f flags) change(argv []string, l Lever) ([]string, error) {
	for _, w := range l.Without {
		name, val, pair := strings.Cut(w, " ")
		if pair {
			argv = removePair(argv, f.names(name), strings.TrimSpace(val))
			continue
		}
		var err error
		if argv, err = f.remove(argv, name, l); err != nil {
			return nil, err
		}
	}
	for _, a := range l.Args {
		var add []string
		if a.Bare {
			add = []string{a.Flag}
		}
		for _, v := range a.Values {
			add = append(add, a.Flag, v)
		}
		at := slices.IndexFunc(argv, func(tok string) bool { return isFlag(tok, f.names(a.Flag)) })
		rest, err := f.remove(argv, a.Flag, l)
		if err != nil {
			return nil, err
		}
		if at < 1 {
			at = len(rest)
		}
		argv = slices.Insert(rest, at, add...) // where it stood, so that positional arguments keep their places
	}
	return argv, nil
}

// Absent says which flags the levers of a stack remove that do not stand in the command: such a lever does less
// than its name says.
func Absent(e Engine, s Stack) (out []string) {
	argv := append(slices.Clone(e.Command), e.Evidence...)
	f := flagsOf(e, s)
	for _, l := range s {
		for _, w := range l.Without {
			name, val, pair := strings.Cut(w, " ")
			there := removePair(argv, f.names(name), strings.TrimSpace(val))
			if !pair {
				there = slices.DeleteFunc(slices.Clone(argv), func(tok string) bool { return isFlag(tok, f.names(name)) })
			}
			if len(there) == len(argv) {
				out = append(out, fmt.Sprintf("lever %s removes %q, which does not stand in the command of engine %s", l.Name, w, e.Name))
			}
		}
		for _, a := range l.Args {
			if a.Remove && !slices.ContainsFunc(argv, func(tok string) bool { return isFlag(tok, f.names(a.Flag)) }) {
				out = append(out, fmt.Sprintf("lever %s removes %q, which does not stand in the command of engine %s", l.Name, a.Flag, e.Name))
			}
		}
		changed, err := f.change(argv, l)
		if err != nil {
			return out // refused elsewhere
		}
		argv = changed
	}
	return out
}

// isFlag reports whether a word of a command is one of the names, alone or joined to a value by "=".
func isFlag(tok string, names []string) bool {
	name, _, _ := strings.Cut(tok, "=")
	return strings.HasPrefix(tok, "-") && slices.Contains(names, name)
}

// couldBeValue: "-1" and "-.5" may be values, "-ub" is a flag.
func couldBeValue(tok string) bool {
	if !strings.HasPrefix(tok, "-") || tok == "-" {
		return true
	}
	_, err := strconv.ParseFloat(tok, 64)
	return err == nil
}

// remove drops every occurrence of a flag with what it takes.
func (f flags) remove(argv []string, flag string, l Lever) ([]string, error) {
	names := f.names(flag)
	if len(argv) == 0 {
		return argv, nil
	}
	out := []string{argv[0]}
	for i := 1; i < len(argv); i++ {
		if !isFlag(argv[i], names) {
			out = append(out, argv[i])
			continue
		}
		if strings.Contains(argv[i], "=") || i+1 == len(argv) {
			continue
		}
		takes, known := f.takes[argv[i]]
		switch next := argv[i+1]; {
		case known && takes:
			i++
		case known || !couldBeValue(next):
		default:
			return nil, &diag.Error{Pos: l.Pos, Kind: diag.Workflow, Op: fmt.Sprintf("lever %q", l.Name),
				Msg: fmt.Sprintf("cannot tell whether %q in the engine's command takes the %q that follows it", argv[i], next),
				Fix: fmt.Sprintf("without = [%q] if that is its value; engine(…, bare = [%q]) if it takes none", argv[i]+" "+next, argv[i])}
		}
	}
	return out, nil
}

// removePair drops a flag with exactly this value.
func removePair(argv []string, names []string, val string) []string {
	var out []string
	for i := 0; i < len(argv); i++ {
		if i > 0 && isFlag(argv[i], names) {
			if _, joined, ok := strings.Cut(argv[i], "="); ok && joined == val {
				continue
			}
			if i+1 < len(argv) && argv[i+1] == val {
				i++
				continue
			}
		}
		out = append(out, argv[i])
	}
	return out
}

// words reads a command as flags with values and as positional words, for the delta that people read. A
// word goes under its own text, a flag under its name; several of one flag are joined.
func (f flags) words(argv []string) map[string]string {
	m := map[string]string{}
	put := func(name, v string) {
		if old, ok := m[name]; ok {
			v = strings.TrimSpace(old + " " + v)
		}
		m[name] = v
	}
	for i := 1; i < len(argv); i++ {
		if !strings.HasPrefix(argv[i], "-") || argv[i] == "-" {
			put(argv[i], "")
			continue
		}
		name, v, joined := strings.Cut(argv[i], "=")
		takes, known := f.takes[name]
		if !joined && i+1 < len(argv) && (takes || !known && !strings.HasPrefix(argv[i+1], "-")) {
			i++
			v = argv[i]
		}
		put(name, v)
	}
	return m
}
