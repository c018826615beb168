package plan

// Collectors: what samples the machine beside flow's own sensors. They are the group's, because they run
// for as long as an arm does and every side must have the same; what one of its engines declares, all have.

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"flow/starlark/diag"
)

// Collector is one external source of samples, whose sensors are NAME.what: a command whose lines become
// samples, or a file that something else keeps writing. It may also count processes by pattern.
type Collector struct {
	Name      string        `json:"name"`
	Pos       diag.Pos      `json:"-"`
	Command   []string      `json:"command,omitempty"`   // either this
	File      string        `json:"file,omitempty"`      // or this
	Processes string        `json:"processes,omitempty"` // or this: a pattern of names, whose count is procs.NAME.count
	Format    string        `json:"format,omitempty"`    // one of CollectorFormats; none for processes
	Every     time.Duration `json:"every,omitempty"`     // run the command anew this often; 0: it goes on printing by itself
	Stale     time.Duration `json:"stale,omitempty"`     // without a line for so long nothing counts as measured; 0: 10 s, or three times Every
	Wait      time.Duration `json:"wait,omitempty"`      // for the first line; 0: 5 s, or twice Every
}

// CollectorFormats are the formats of lines that flow reads.
func CollectorFormats() []string {
	return []string{"csv", "jsonl", "key=value", "powermetrics", "powermetrics-plist", "nvidia-smi", "rocm-smi", "ipmitool"}
}

var collectorName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// ownSensors are the first words of flow's own sensors, which a collector must not take.
var ownSensors = []string{"meminfo", "vmstat", "loadavg", "stat", "disk", "psi", "cpufreq", "cpu", "net", "uptime", "power", "engine", "self",
	"procs", "rapl", "hwmon", "thermal", "nvme", "amdgpu", "nvml", "pagecache", "host", "sampler"}

// Check refuses what cannot be collected.
func (c Collector) Check() error {
	refuse := func(fix, format string, args ...any) error {
		return &diag.Error{Pos: c.Pos, Kind: diag.Workflow, Op: fmt.Sprintf("collector %q", c.Name), Msg: fmt.Sprintf(format, args...), Fix: fix}
	}
	switch {
	case !collectorName.MatchString(c.Name):
		return refuse(`collector("wall", …)`, "got a name that is no sensor's first word, want small letters, digits and _")
	case slices.Contains(ownSensors, c.Name):
		return refuse(fmt.Sprintf("collector(%q, …)", "my_"+c.Name), "this is the name of sensors of flow's own")
	case c.ways() != 1:
		return refuse(fmt.Sprintf(`collector(%q, command = ["meter", "--csv"], format = "csv")`, c.Name), "give exactly one of command, file and processes")
	case c.Processes != "" && (c.Format != "" || c.Every+c.Stale+c.Wait != 0):
		return refuse(fmt.Sprintf(`collector(%q, processes = r"^ffmpeg$")`, c.Name), "processes are counted by flow: they have no format and no times")
	case c.Processes != "" && slices.Contains([]string{"engines", "builds", "agents"}, c.Name):
		return refuse(fmt.Sprintf("collector(%q, …)", "my_"+c.Name), "procs.%s.count is flow's own", c.Name)
	case c.Processes != "":
		if _, err := regexp.Compile(c.Processes); err != nil {
			return refuse(fmt.Sprintf(`collector(%q, processes = r"^ffmpeg$")`, c.Name), "processes: %v", err)
		}
		return nil
	case len(c.Command) > 0 && c.Command[0] == "":
		return refuse(`command = ["meter"]`, "the command has no first word")
	case !slices.Contains(CollectorFormats(), c.Format):
		near := diag.Nearest(c.Format, CollectorFormats())
		if near == "" {
			near = "csv"
		}
		return refuse(fmt.Sprintf("format = %q", near), "got format %q, want one of %s", c.Format, strings.Join(CollectorFormats(), ", "))
	case c.Every < 0 || c.Stale < 0 || c.Wait < 0:
		return refuse(`every = "1s"`, "got a negative duration")
	case c.Every > 0 && c.File != "":
		return refuse(`stale = "5s"`, "every is for a command; the file is written by somebody else")
	case c.Every > 0 && c.Every < 50*time.Millisecond:
		return refuse(`every = "100ms"`, "got every %v, want at least 50ms: starting a program costs the engine's cores", c.Every)
	}
	return nil
}

// ways counts the sources that are named.
func (c Collector) ways() int {
	n := 0
	for _, there := range []bool{len(c.Command) > 0, c.File != "", c.Processes != ""} {
		if there {
			n++
		}
	}
	return n
}

// gatherCollectors adds those of the engines: an equal one is the same one.
func (g *Group) gatherCollectors() error {
	out := slices.Clone(g.Collectors)
	for _, s := range g.Sides {
		for _, c := range s.Engine.Collectors {
			i := slices.IndexFunc(out, func(o Collector) bool { return o.Name == c.Name })
			switch {
			case i < 0:
				out = append(out, c)
			case Sum(out[i]) != Sum(c):
				return refuse(g, "give each collector its own name", "engine %q has another collector %q than the group", s.Engine.Name, c.Name)
			}
		}
	}
	g.Collectors = out
	return nil
}

func (g *Group) checkCollectors() error {
	seen := map[string]bool{}
	for _, c := range g.Collectors {
		if err := c.Check(); err != nil {
			return err
		}
		if seen[c.Name] {
			return refuse(g, "give each collector its own name", "collector %q stands twice", c.Name)
		}
		seen[c.Name] = true
	}
	return nil
}
