package hardware

// /proc/vmstat: pages swapped, major faults, out-of-memory kills. All are counters since boot, of the
// whole machine.

import (
	"errors"
	"path/filepath"
)

type vmstat struct {
	pswpin, pswpout, pgfault, pgmajfault, oomKill number
}

func openVmstat(o Options) Source {
	return openText(o, "vmstat", filepath.Join(o.Proc, "vmstat"), parseVmstat, []gauge[vmstat]{
		{name: "vmstat.pswpin_pages", unit: "pages", counter: true, get: func(v *vmstat) (float64, bool) { return v.pswpin.plain() }, lacks: "a kernel without swap"},
		{name: "vmstat.pswpout_pages", unit: "pages", counter: true, get: func(v *vmstat) (float64, bool) { return v.pswpout.plain() }, lacks: "a kernel without swap"},
		{name: "vmstat.pgfault", unit: "faults", counter: true, get: func(v *vmstat) (float64, bool) { return v.pgfault.plain() }},
		{name: "vmstat.pgmajfault", unit: "faults", counter: true, get: func(v *vmstat) (float64, bool) { return v.pgmajfault.plain() }},
		{name: "vmstat.oom_kill", unit: "kills", counter: true, get: func(v *vmstat) (float64, bool) { return v.oomKill.plain() }, lacks: "kernels before 4.13 have none"},
	}, reason)
}

// parseVmstat reads:
//
//	pgmajfault 1303
//	pswpin 0
//	oom_kill 0
func parseVmstat(b []byte, v *vmstat) error {
	*v = vmstat{}
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		if len(line) == 0 || line[0] != 'p' && line[0] != 'o' { // 180 lines, five of them wanted
			continue
		}
		name, rest := cutField(line)
		var into *number
		switch string(name) {
		case "pswpin":
			into = &v.pswpin
		case "pswpout":
			into = &v.pswpout
		case "pgfault":
			into = &v.pgfault
		case "pgmajfault":
			into = &v.pgmajfault
		case "oom_kill":
			into = &v.oomKill
		default:
			continue
		}
		value, _ := cutField(rest)
		*into = numberOf(value)
	}
	if !v.pswpin.ok && !v.pswpout.ok && !v.pgmajfault.ok && !v.oomKill.ok {
		return errors.New("vmstat: none of pswpin, pswpout, pgmajfault, oom_kill")
	}
	return nil
}
