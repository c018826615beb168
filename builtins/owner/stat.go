package owner

// A process as /proc shows it.

import (
	"strconv"
	"strings"
)

// Stat is what is used of /proc/PID/stat:
//
//	4711 (llama-server) S 4700 4711 4711 0 -1 4194304 … 22: 8123456 …
type Stat struct {
	PID, Parent, Group, SID int
	State                   byte
	Comm                    string
	Start                   uint64 // clock ticks since boot
	TTY                     int    // its controlling terminal; 0: none
}

// Dead reports a process that has ended and waits for its parent.
func (s Stat) Dead() bool { return s.State == 'Z' || s.State == 'X' }

// parseStat reads the line. The name may hold spaces and parentheses, so the last one ends it.
func parseStat(text string) (Stat, bool) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 1 || end < open {
		return Stat{}, false
	}
	f := strings.Fields(text[end+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return Stat{}, false
	}
	s := Stat{Comm: text[open+1 : end], State: f[0][0]}
	var errs [6]error
	s.PID, errs[0] = strconv.Atoi(strings.TrimSpace(text[:open]))
	s.Parent, errs[1] = strconv.Atoi(f[1])
	s.Group, errs[2] = strconv.Atoi(f[2])
	s.SID, errs[3] = strconv.Atoi(f[3])
	s.TTY, errs[5] = strconv.Atoi(f[4])
	s.Start, errs[4] = strconv.ParseUint(f[19], 10, 64)
	for _, err := range errs {
		if err != nil {
			return Stat{}, false
		}
	}
	return s, true
}
