package hardware

// Processes counted by pattern: another engine, a build, a coding agent next to the one under test are
// load that no average shows in time. Names are looked at every two seconds in a lane of their own, because
// a scan of /proc takes milliseconds; a process is looked at while it is young, and then now and again.

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"flow/workflows/record"
)

// Pattern counts processes as procs.NAME.count. Match is asked of a process's name, of its program, and of
// the script or module that an interpreter runs, each by itself; so "^vllm" finds
// "/opt/venv/bin/python /opt/venv/bin/vllm serve" and "python -m vllm.entrypoints".
type Pattern struct {
	Name  string
	Match *regexp.Regexp
}

// DefaultPatterns count engines, builds and coding agents.
func DefaultPatterns() []Pattern {
	return []Pattern{
		{"engines", regexp.MustCompile(`^(llama-(server|cli|bench|batched.*|run)|ollama|vllm\b.*|sglang\b.*|ds4\b.*|strata\b.*|koboldcpp.*|tabbyapi.*|tritonserver|trtllm-.*|text-generation-.*|lmdeploy|lms|mlx_lm\b.*|exo|whisper-.*|sd-server)$`)},
		{"builds", regexp.MustCompile(`^(cc1|cc1plus|clang(\+\+)?(-[0-9]+)?|gcc|g\+\+|nvcc|cicc|ptxas|cudafe\+\+|hipcc|ld|ld\.lld|lld|mold|ninja|go|compile|make|gmake|cmake|cargo|rustc|javac|bazel|tsc|swift-frontend)$`)},
		{"agents", regexp.MustCompile(`^(claude|codex|aider|cursor(-agent)?|copilot.*|goose|opencode|gemini-cli)$`)},
	}
}

type procs struct {
	o       Options
	pids    func() []int // the engine's own, which do not count
	sensors []record.Sensor
	names   []string // of the sensors
	own     bool
	seen    map[int]*seenProc
	round   uint64
}

type seenProc struct {
	start   string // of its stat: with the pid, the identity of a process
	matches uint64 // bit i: pattern i
	round   uint64
	looks   int
}

func openProcs(o Options) Source {
	p := &procs{o: o, seen: map[int]*seenProc{}}
	_, err := namesIn(o.Proc)
	var why, fix string
	if err != nil {
		why, fix = reason(o.Proc, err)
	}
	for _, x := range o.Processes {
		n := "procs." + x.Name + ".count"
		p.names = append(p.names, n)
		p.sensors = append(p.sensors, record.Sensor{Name: n, Unit: "processes", Source: filepath.Join(o.Proc, "PID/cmdline"), PeriodMS: 2000, Available: why == "", Why: why, Fix: fix})
	}
	return p
}

// OpenProcesses counts further processes by patterns of one's own.
func OpenProcesses(o Options, patterns []Pattern) Source {
	o.Processes = patterns
	p := openProcs(o.withDefaults()).(*procs)
	p.own = true
	return &guarded{Source: p}
}

func (p *procs) Name() string {
	if p.own {
		return "procs.own" // beside the default ones: names of sources are unique in a sampler
	}
	return "procs"
}
func (p *procs) Sensors() []record.Sensor { return p.sensors }
func (p *procs) Close() error             { return nil }
func (p *procs) slow() bool               { return len(p.sensors) > 0 && p.sensors[0].Available }
func (p *procs) every() time.Duration     { return 2 * time.Second }

func (p *procs) bind(pids func() []int) Source {
	return &procs{o: p.o, own: p.own, pids: pids, sensors: p.sensors, names: p.names, seen: map[int]*seenProc{}}
}

func (p *procs) Sample(_ int64, emit func(string, float64)) error {
	if len(p.sensors) == 0 || !p.sensors[0].Available {
		return nil
	}
	found, err := p.scan()
	if err != nil {
		return err
	}
	counts := make([]int, len(p.names))
	for _, x := range found {
		for i := range counts {
			if x.matches&(1<<i) != 0 {
				counts[i]++
			}
		}
	}
	for i, n := range p.names {
		emit(n, float64(counts[i]))
	}
	return nil
}

// scan looks at every process but flow and the engine.
func (p *procs) scan() (map[int]*seenProc, error) {
	names, err := namesIn(p.o.Proc)
	if err != nil {
		return nil, err
	}
	own := map[int]bool{os.Getpid(): p.o.Proc == "/proc"}
	if p.pids != nil {
		for _, pid := range p.pids() {
			own[pid] = true
		}
	}
	p.round++
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil || own[pid] {
			continue
		}
		p.look(pid)
	}
	for pid, x := range p.seen {
		if x.round != p.round {
			delete(p.seen, pid)
		}
	}
	return p.seen, nil
}

func (p *procs) look(pid int) {
	x := p.seen[pid]
	// A young process may still exec; an old one hardly does, and its pid is not given away while it lives.
	if x != nil && x.looks > 2 && (p.round+uint64(pid))%16 != 0 {
		x.round = p.round
		return
	}
	dir := filepath.Join(p.o.Proc, strconv.Itoa(pid))
	stat := textOf(p.o, filepath.Join(dir, "stat"))
	start := identity(stat)
	if start == "" {
		return // gone
	}
	if x == nil || x.start != start {
		x = &seenProc{start: start, matches: p.match(stat, textOf(p.o, filepath.Join(dir, "cmdline")))}
		p.seen[pid] = x
	}
	x.round = p.round
	x.looks++
}

// identity is the name and the start time in a process's stat: exec changes the one, reuse of a pid the
// other.
func identity(stat string) string {
	i, j := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if i < 0 || j < i {
		return ""
	}
	f, _ := cutField(skipFields([]byte(stat[j+1:]), 19))
	return stat[i:j] + string(f)
}

func (p *procs) match(stat, cmdline string) (bits uint64) {
	i, j := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	words := candidates(stat[i+1:j], []byte(cmdline))
	for k, pattern := range p.o.Processes {
		if k >= 64 {
			break
		}
		for _, w := range words {
			if pattern.Match.MatchString(w) {
				bits |= 1 << k
				break
			}
		}
	}
	return bits
}

// candidates are the words by which a process may be known: its name, its program, and for an interpreter
// the script or the module that it runs.
func candidates(comm string, cmdline []byte) []string {
	out := []string{comm}
	args := bytes.Split(cmdline, []byte{0})
	if len(args[0]) == 0 {
		return out
	}
	program := filepath.Base(string(args[0]))
	out = append(out, program)
	if !interpreter.MatchString(program) {
		return out
	}
	for i := 1; i < len(args) && i < 8; i++ {
		switch w := string(args[i]); {
		case w == "-m" && i+1 < len(args):
			return append(out, string(args[i+1]))
		case w == "-c", w == "-e":
			return out
		case w != "" && w[0] != '-':
			return append(out, filepath.Base(w))
		}
	}
	return out
}

// interpreter runs what its arguments name.
var interpreter = regexp.MustCompile(`^(python[0-9.]*|node|bun|deno|ruby|perl|sh|bash|dash|zsh)$`)

// Process is one that a pattern found.
type Process struct {
	PID     int    `json:"pid"`
	Pattern string `json:"pattern"`
	Name    string `json:"name"`
}

// Processes lists what the patterns find now, flow itself left out, by pid.
func Processes(o Options) []Process {
	o = o.withDefaults()
	p := openProcs(o).(*procs)
	if _, err := p.scan(); err != nil {
		return nil
	}
	var out []Process
	for pid := range p.seen {
		for i, pattern := range o.Processes {
			if p.seen[pid].matches&(1<<i) != 0 {
				out = append(out, Process{pid, pattern.Name, nameOf(o, pid)})
			}
		}
	}
	sortProcesses(out)
	return out
}

func nameOf(o Options, pid int) string {
	args := textOf(o, filepath.Join(o.Proc, strconv.Itoa(pid), "cmdline"))
	words := strings.Split(strings.TrimRight(args, "\x00"), "\x00")
	if words[0] == "" {
		return fmt.Sprintf("process %d", pid)
	}
	name := filepath.Base(words[0])
	switch {
	case len(words) > 2 && words[1] == "-m" && interpreter.MatchString(name):
		name += " -m " + words[2]
	case len(words) > 1 && !strings.HasPrefix(words[1], "-"):
		name += " " + filepath.Base(words[1])
	}
	return name
}
