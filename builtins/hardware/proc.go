package hardware

// /proc/PID/stat and /proc/PID/status of one process.

import (
	"bytes"
	"errors"
)

// procStat is what flow reads of /proc/PID/stat.
type procStat struct {
	state                        byte
	ppid                         uint64
	minflt, cminflt              uint64
	majflt, cmajflt              uint64
	utime, stime, cutime, cstime uint64 // ticks; the c ones are of children that were waited for
	threads                      uint64
	start                        uint64 // ticks after boot: with the pid, the identity of a process
	rssPages                     uint64
}

// tally is what a process has used up: CPU ticks, major and minor faults.
type tally struct{ ticks, faults, minor uint64 }

func (t *tally) add(u tally) {
	t.ticks, t.faults, t.minor = t.ticks+u.ticks, t.faults+u.faults, t.minor+u.minor
}

// beyond is t less u, nothing where u is more.
func (t tally) beyond(u tally) (d tally) {
	if t.ticks > u.ticks {
		d.ticks = t.ticks - u.ticks
	}
	if t.faults > u.faults {
		d.faults = t.faults - u.faults
	}
	if t.minor > u.minor {
		d.minor = t.minor - u.minor
	}
	return d
}

// children is what the children that the process has waited for used up.
func (p *procStat) children() tally { return tally{p.cutime + p.cstime, p.cmajflt, p.cminflt} }

// all is the process's own part and its children's.
func (p *procStat) all() tally {
	return tally{p.utime + p.stime + p.cutime + p.cstime, p.majflt + p.cmajflt, p.minflt + p.cminflt}
}

var errProcStat = errors.New("stat of a process: want pid (name) state and 22 numbers")

// parseProcStat reads (the name may hold spaces, parentheses and line ends, so the last parenthesis counts):
//
//	4242 (llama-server (x)) S 4200 4242 4242 0 -1 4194304 1303 0 7 0 250 31 2 1 20 0 9 0 81234 1073741824 26214 …
func parseProcStat(b []byte, p *procStat) error {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return errProcStat
	}
	state, rest := cutField(b[i+1:])
	if len(state) != 1 || state[0]|0x20 < 'a' || state[0]|0x20 > 'z' {
		return errProcStat
	}
	*p = procStat{state: state[0]}
	at := 4 // number of the next field, as proc(5) counts
	for _, want := range [...]struct {
		field int
		into  *uint64
	}{{4, &p.ppid}, {10, &p.minflt}, {11, &p.cminflt}, {12, &p.majflt}, {13, &p.cmajflt}, {14, &p.utime}, {15, &p.stime}, {16, &p.cutime}, {17, &p.cstime}, {20, &p.threads}, {22, &p.start}, {24, &p.rssPages}} {
		rest = skipFields(rest, want.field-at)
		var f []byte
		f, rest = cutField(rest)
		at = want.field + 1
		v, ok := uintOf(bytes.TrimRight(f, "\n"))
		if !ok {
			return errProcStat
		}
		*want.into = v
	}
	return nil
}

// procMemory is what flow reads of /proc/PID/status, in KiB. A kernel thread and a zombie have none of it.
type procMemory struct {
	rss, lck, pin, swap number
}

// parseProcStatus reads:
//
//	VmLck:	       0 kB
//	VmPin:	       0 kB
//	VmRSS:	  107520 kB
//	VmSwap:	       0 kB
func parseProcStatus(b []byte, m *procMemory) error {
	*m = procMemory{}
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		if len(line) < 3 || line[0] != 'V' || line[1] != 'm' {
			continue
		}
		i := bytes.IndexByte(line, ':')
		if i < 0 {
			continue
		}
		var into *number
		switch string(line[:i]) {
		case "VmRSS":
			into = &m.rss
		case "VmLck":
			into = &m.lck
		case "VmPin":
			into = &m.pin
		case "VmSwap":
			into = &m.swap
		default:
			continue
		}
		value, rest := cutField(line[i+1:])
		if unit, _ := cutField(rest); string(unit) == "kB" {
			*into = numberOf(value)
		}
	}
	return nil
}
