package machine

// Host settings: what of the machine an arm changes, and how it is read, set and put back. A setting is a
// number of points: files of the kernel's, or a device that a command asks and sets. What was there is read,
// written to the undo journal and synced before the change; what cannot be read is not set, because nobody
// could put it back. A default is never guessed: pyperf, ReBench and others left machines slow by "restoring"
// what they believed was normal.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"flow/builtins/command"
	"flow/starlark/diag"
	"flow/workflows/plan"
)

// Runner runs a command and gives its standard output.
type Runner func(ctx context.Context, argv []string) (string, error)

// Settings reads and changes the host. The zero value is this machine without an undo journal, on which
// Apply refuses.
type Settings struct {
	Proc, Sys string // "/proc" and "/sys" when empty
	Undo      string // folder of the undo journals
	Session   string // for whoever finds a journal
	Run       Runner // nil starts processes
	GiveUp    bool   // RestoreLeft takes what cannot be put back off the record, and names it

	hook func() // tests: called before and after everything that lasts
}

func (s Settings) withDefaults() Settings {
	if s.Proc == "" {
		s.Proc = "/proc"
	}
	if s.Sys == "" {
		s.Sys = "/sys"
	}
	if s.Run == nil {
		s.Run = RunCommand
	}
	if s.hook == nil {
		s.hook = func() {}
	}
	return s
}

// RunCommand runs argv without a shell, and gives its standard output. Of one that left processes behind the
// error is a *command.LeftError.
func RunCommand(ctx context.Context, argv []string) (string, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	left, err := command.Run(ctx, cmd)
	if err == nil && len(left) > 0 {
		return out.String(), &command.LeftError{Argv: argv, Left: left}
	}
	if err != nil {
		words := strings.TrimSpace(errs.String() + " " + out.String())
		if words != "" {
			err = fmt.Errorf("%w: %.400s", err, words)
		}
	}
	return out.String(), err
}

// point is one place that a setting changes.
type point struct {
	Path  string   `json:"path,omitempty"`  // a file of the kernel's …
	Read  []string `json:"read,omitempty"`  // … or a command that says the value, …
	Write []string `json:"write,omitempty"` // … and one that sets it: {value} is filled in
	Put   []string `json:"put,omitempty"`   // the command that undoes it where nothing can be read
	To    string   `json:"to,omitempty"`    // what is set; "" only keeps what is there, because another point bends it
}

func (p point) where() string {
	switch {
	case p.Path != "":
		return p.Path
	case p.Read != nil:
		return strings.Join(p.Read, " ")
	}
	return strings.Join(p.Put, " ")
}

// points is what a setting is made of here.
func (s Settings) points(h plan.HostSetting) ([]point, error) {
	cpu := filepath.Join(s.Sys, "devices/system/cpu")
	switch h.Name {
	case plan.HostGovernor:
		files := globs(filepath.Join(cpu, "cpufreq/policy*/scaling_governor"), filepath.Join(cpu, "cpu[0-9]*/cpufreq/scaling_governor"))
		if len(files) == 0 {
			return nil, missingSetting(h, "no CPU frequency driver ("+filepath.Join(cpu, "cpufreq")+" has no policy)", "run on the hardware itself: most virtual machines have none")
		}
		if known := strings.Fields(line(filepath.Dir(files[0]), "scaling_available_governors")); len(known) > 0 && h.Value != "" && !slices.Contains(known, h.Value) {
			return nil, missingSetting(h, fmt.Sprintf("the driver has no governor %q", h.Value), "use one of "+strings.Join(known, ", "))
		}
		// The governor "performance" bends the energy preference: what was there comes back after it.
		out := keep(globs(filepath.Join(cpu, "cpufreq/policy*/energy_performance_preference")))
		return append(out, set(files, h.Value)...), nil
	case plan.HostEPP:
		files := globs(filepath.Join(cpu, "cpufreq/policy*/energy_performance_preference"))
		if len(files) == 0 {
			return nil, missingSetting(h, "the CPU frequency driver has no energy performance preference", "leave it out: intel_pstate and amd_pstate in active mode have one")
		}
		return set(files, h.Value), nil
	case plan.HostBoost:
		return s.boost(h, cpu)
	case plan.HostTHP:
		return s.one(h, filepath.Join(s.Sys, "kernel/mm/transparent_hugepage/enabled"))
	case plan.HostSysctl:
		return s.one(h, sysctlPath(s.Proc, h.Target))
	case plan.HostFile:
		path, err := s.file(h.Target)
		if err != nil {
			return nil, missingSetting(h, err.Error(), `name a file such as "/sys/kernel/mm/ksm/run"`)
		}
		return s.one(h, path)
	case plan.HostGPUPower:
		return []point{{Read: smi(h.Target, "--query-gpu=power.limit", "--format=csv,noheader,nounits"), Write: smi(h.Target, "-pl", "{value}"), To: h.Value}}, nil
	case plan.HostGPUClocks:
		put := smi(h.Target, "-rgc")
		if h.Before != "" {
			put = smi(h.Target, "-lgc", h.Before)
		}
		return []point{{Write: smi(h.Target, "-lgc", "{value}"), Put: put, To: h.Value}}, nil
	case plan.HostCommand:
		return []point{{Write: h.Setup, Put: h.Restore, To: strings.Join(h.Setup, " ")}}, nil
	case plan.HostCPUs, plan.HostDropCaches:
		return nil, nil
	}
	return nil, &diag.Error{Kind: diag.Bug, Op: "host setting", Msg: fmt.Sprintf("got %q, which nobody knows how to set", h.Name)}
}

// clockStep is how far above its upper end a locked clock may read: the steps of the hardware are 15 MHz.
const clockStep = 15

// disproved refuses a lock that is said to hold and cannot: the driver does not tell what is locked, but no
// lock lets the clock stand above it. Below it proves nothing, because heat and power hold clocks down.
func (s Settings) disproved(ctx context.Context, h plan.HostSetting) error {
	_, most, _ := strings.Cut(h.Before, ",")
	limit, err := strconv.Atoi(most)
	if err != nil {
		return missingSetting(h, fmt.Sprintf("got before %q, want MIN,MAX", h.Before), `before = "unlocked", or before = "1200,1600"`)
	}
	text, err := s.read(ctx, point{Read: smi(h.Target, "--query-gpu=clocks.gr", "--format=csv,noheader,nounits")})
	if err != nil {
		return missingSetting(h, "the clock of now cannot be read: "+err.Error(), "see what nvidia-smi says")
	}
	if now, err := strconv.Atoi(text); err == nil && now > limit+clockStep {
		return missingSetting(h, fmt.Sprintf("before says that the clock is locked to %s, and it is %d MHz now", h.Before, now), `say what holds: before = "unlocked", or the range that nvidia-smi -lgc was given`)
	}
	return nil
}

// boost is a switch with two names: Intel's says the opposite. pyperf read one of them only and took an AMD
// machine for quiet.
func (s Settings) boost(h plan.HostSetting, cpu string) ([]point, error) {
	not := map[string]string{"on": "0", "off": "1"}[h.Value]
	is := map[string]string{"on": "1", "off": "0"}[h.Value]
	out := append(set(globs(filepath.Join(cpu, "intel_pstate/no_turbo")), not), set(globs(filepath.Join(cpu, "cpufreq/boost")), is)...)
	if len(out) == 0 { // only drivers without a common switch are set policy by policy
		out = set(globs(filepath.Join(cpu, "cpufreq/policy*/boost")), is)
	} else { // the common switch bends those of the policies
		out = append(keep(globs(filepath.Join(cpu, "cpufreq/policy*/boost"))), out...)
	}
	if len(out) == 0 {
		return nil, missingSetting(h, "neither intel_pstate/no_turbo nor cpufreq/boost is there", "leave it out: this CPU or its driver has no switch for it")
	}
	return out, nil
}

func (s Settings) one(h plan.HostSetting, path string) ([]point, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, missingSetting(h, path+" is not there", "leave it out, or use a kernel that has it")
	}
	return set([]string{path}, h.Value), nil
}

// sysctlPath is the file of a sysctl. Dots separate; where a name holds dots itself, slashes do.
func sysctlPath(proc, name string) string {
	if !strings.Contains(name, "/") {
		name = strings.ReplaceAll(name, ".", "/")
	}
	return filepath.Join(proc, "sys", filepath.FromSlash(name))
}

// file puts a file below /sys or /proc/sys below the roots.
func (s Settings) file(name string) (string, error) {
	clean := filepath.Clean(name)
	if rel, ok := strings.CutPrefix(clean, "/sys/"); ok {
		return filepath.Join(s.Sys, rel), nil
	}
	if rel, ok := strings.CutPrefix(clean, "/proc/sys/"); ok {
		return filepath.Join(s.Proc, "sys", rel), nil
	}
	return "", fmt.Errorf("%s is neither below /sys nor below /proc/sys", name)
}

func set(files []string, to string) []point {
	out := make([]point, len(files))
	for i, f := range files {
		out[i] = point{Path: f, To: to}
	}
	return out
}

func keep(files []string) []point { return set(files, "") }

// globs is what the first pattern that matches anything matches, in a stable order.
func globs(patterns ...string) []string {
	for _, p := range patterns {
		files, _ := filepath.Glob(p) // only a bad pattern is an error
		if len(files) > 0 {
			slices.Sort(files)
			return files
		}
	}
	return nil
}

func smi(gpu string, args ...string) []string {
	out := []string{"nvidia-smi"}
	if gpu != "" {
		out = append(out, "-i", gpu)
	}
	return append(out, args...)
}

func missingSetting(h plan.HostSetting, msg, fix string) error {
	return &diag.Error{Kind: diag.Machine, Op: "host setting " + h.Key(), Msg: msg, Fix: fix}
}

// read is what a point says now. Choices such as "always [madvise] never" read as the one that is chosen.
func (s Settings) read(ctx context.Context, p point) (string, error) {
	if p.Path == "" {
		out, err := s.Run(ctx, p.Read)
		if err != nil {
			return "", err
		}
		v := strings.TrimSpace(out)
		if v == "" || strings.Contains(v, "\n") {
			return "", fmt.Errorf("%s says %q, want one value", strings.Join(p.Read, " "), v)
		}
		return v, nil
	}
	b, err := readKernel(p.Path)
	if err != nil {
		return "", err
	}
	return valueOf(string(b)), nil
}

var bracketed = regexp.MustCompile(`\[([^\]\s]+)\]`)

// valueOf is the value of a kernel file: the word in brackets where it lists choices, else all of it.
func valueOf(text string) string {
	text = strings.TrimSpace(text)
	if m := bracketed.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return text
}

// equal compares values as the kernel writes them: blanks and tabs separate alike, 300 is 300.00.
func equal(a, b string) bool {
	a, b = strings.Join(strings.Fields(a), " "), strings.Join(strings.Fields(b), " ")
	if a == b {
		return true
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y
}

// write sets a point.
func (s Settings) write(ctx context.Context, p point, v string) error {
	if p.Path == "" {
		argv := make([]string, len(p.Write))
		for i, a := range p.Write {
			argv[i] = strings.ReplaceAll(a, "{value}", v)
		}
		_, err := s.Run(ctx, argv)
		return err
	}
	f, err := os.OpenFile(p.Path, os.O_WRONLY|os.O_TRUNC|unix.O_NONBLOCK, 0) // a pipe would be waited for
	if err != nil {
		return err
	}
	_, err = f.WriteString(v + "\n") // as echo does
	return errors.Join(err, f.Close())
}

// Read says what a setting is now: one value, or all that its points say where they differ.
func (s Settings) Read(ctx context.Context, h plan.HostSetting) (string, error) {
	s = s.withDefaults()
	if !h.Readable() || h.Name == plan.HostCPUs {
		return "", fmt.Errorf("the machine does not say what %s is", h.Key())
	}
	ps, err := s.points(h)
	if err != nil {
		return "", err
	}
	var said []string
	for _, p := range ps {
		if p.To == "" && h.Value != "" {
			continue // kept for another point's sake
		}
		if p.To == "" && h.Name == plan.HostGovernor && strings.HasSuffix(p.Path, "energy_performance_preference") {
			continue
		}
		v, err := s.read(ctx, p)
		if err != nil {
			return "", err
		}
		if h.Name == plan.HostBoost {
			v = boostWord(p.Path, v)
		}
		if !slices.Contains(said, v) {
			said = append(said, v)
		}
	}
	return strings.Join(said, " and "), nil
}

func boostWord(path, v string) string {
	on := "1"
	if filepath.Base(path) == "no_turbo" {
		on = "0"
	}
	if v == on {
		return "on"
	}
	return "off"
}

// Holds says whether a setting is in force, and what the machine says.
func (s Settings) Holds(ctx context.Context, h plan.HostSetting) (bool, string, error) {
	v, err := s.Read(ctx, h)
	return err == nil && equal(v, h.Value), v, err
}

// unwritable says what is needed where a setting may not be changed.
func unwritable(h plan.HostSetting, p point, err error) error {
	fix := "run flow with the right to change it (as root), or set it by hand and leave it out here"
	if p.Path != "" && errors.Is(err, fs.ErrPermission) {
		fix = "run flow as root, or give yourself the file: sudo chown $USER " + p.Path
	}
	return &diag.Error{Kind: diag.Machine, Op: "host setting " + h.Key(), Msg: fmt.Sprintf("cannot set it to %s", h.Value), Fix: fix, Err: err}
}
