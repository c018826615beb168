package engine

// Where a cgroup v2 for an engine may be made: found through the mount table, because hybrid hosts keep it
// at /sys/fs/cgroup/unified and containers elsewhere.
//
//	38 31 0:41 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
//
// That none can be made is a fact about the machine, not an error: the process tree still is owned.

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// mount is one line of /proc/PID/mountinfo.
type mount struct {
	root, point, fs string
}

// parseMounts reads a mount table. Lines it does not understand are skipped.
func parseMounts(table string) []mount {
	var out []mount
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 7 {
			continue
		}
		for i := 6; i+1 < len(f); i++ { // optional fields end at a lone dash
			if f[i] == "-" {
				out = append(out, mount{root: unescapeMount(f[3]), point: unescapeMount(f[4]), fs: f[i+1]})
				break
			}
		}
	}
	return out
}

// unescapeMount turns the kernel's octal escapes back: "\040" is a space.
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// ownCgroup is flow's own cgroup v2 folder, "" when there is none. self is /proc/self/cgroup, whose v2 line
// is "0::/user.slice/…"; the path counts from the root that the mount shows.
func ownCgroup(mounts []mount, self string) string {
	own := ""
	for line := range strings.Lines(self) {
		if p, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "0::"); ok {
			own = p
		}
	}
	if !strings.HasPrefix(own, "/") {
		return ""
	}
	for _, m := range mounts {
		if m.fs != "cgroup2" {
			continue
		}
		rel, err := filepath.Rel(m.root, own)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			continue
		}
		return filepath.Join(m.point, rel)
	}
	return ""
}

// cgroupParent is where engines get their child, "" for none.
func cgroupParent(o Options, proc string) string {
	switch o.Cgroups {
	case "off":
		return ""
	case "":
	default:
		return o.Cgroups
	}
	mounts, err := os.ReadFile(filepath.Join(proc, "self/mountinfo"))
	if err != nil {
		return ""
	}
	self, err := os.ReadFile(filepath.Join(proc, "self/cgroup"))
	if err != nil {
		return ""
	}
	return ownCgroup(parseMounts(string(mounts)), string(self))
}

// oomKills reads the oom_kill line of memory.events ("oom_kill 0") or of vmstat; ok is false without one.
func oomKills(text string) (n uint64, ok bool) {
	for line := range strings.Lines(text) {
		if v, found := strings.CutPrefix(line, "oom_kill "); found {
			n, err := strconv.ParseUint(strings.TrimSpace(v), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
