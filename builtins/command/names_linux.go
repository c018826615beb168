package command

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// names are the live members of a process group. A dead one that nobody reaps holds nothing.
func names(pgid int) []string {
	d, err := os.Open("/proc")
	if err != nil {
		return []string{fmt.Sprintf("process group %d", pgid)}
	}
	defer d.Close()
	all, _ := d.Readdirnames(-1)
	var out []string
	for _, pid := range all {
		if pid[0] < '0' || pid[0] > '9' {
			continue
		}
		b, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			continue
		}
		comm, state, group, ok := parseStat(string(b))
		if !ok || group != pgid || state == "Z" || state == "X" {
			continue
		}
		if line, err := os.ReadFile("/proc/" + pid + "/cmdline"); err == nil {
			if words := strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " ")); words != "" {
				comm = words
			}
		}
		comm = strings.ToValidUTF8(comm, "?")
		if r := []rune(comm); len(r) > 120 {
			comm = string(r[:120]) + "…"
		}
		out = append(out, "pid "+pid+" ("+comm+")")
	}
	return out
}

// parseStat reads the beginning of /proc/PID/stat, whose second field may hold anything:
//
//	47 (a ) b) S 1 46 46 0 …
func parseStat(text string) (comm, state string, group int, ok bool) {
	from, to := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if from < 0 || to < from {
		return "", "", 0, false
	}
	f := strings.Fields(text[to+1:])
	if len(f) < 3 {
		return "", "", 0, false
	}
	group, err := strconv.Atoi(f[2])
	return text[from+1 : to], f[0], group, err == nil
}
