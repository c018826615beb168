package engine

// Processes as /proc shows them.

import (
	"strconv"
	"strings"
)

// stat is what is used of /proc/PID/stat:
//
//	4711 (llama-server) S 4700 4711 4711 0 -1 4194304 … 22: 8123456 …
type stat struct {
	pid, ppid, pgid, sid int
	state                byte
	comm                 string
	start                uint64 // field 22, clock ticks since boot: identity together with the pid
}

// dead reports a process that has ended and waits for its parent.
func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' }

// parseStat reads the line. The name may hold spaces and parentheses, so the last one ends it.
func parseStat(text string) (stat, bool) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 1 || end < open {
		return stat{}, false
	}
	f := strings.Fields(text[end+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return stat{}, false
	}
	s := stat{comm: text[open+1 : end], state: f[0][0]}
	var err [5]error
	s.pid, err[0] = strconv.Atoi(strings.TrimSpace(text[:open]))
	s.ppid, err[1] = strconv.Atoi(f[1])
	s.pgid, err[2] = strconv.Atoi(f[2])
	s.sid, err[3] = strconv.Atoi(f[3])
	s.start, err[4] = strconv.ParseUint(f[19], 10, 64)
	for _, e := range err {
		if e != nil {
			return stat{}, false
		}
	}
	return s, true
}
