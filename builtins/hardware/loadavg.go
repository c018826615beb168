package hardware

// /proc/loadavg: how many tasks want to run. The averages are updated every five seconds and lag by
// construction; runnable is the number at this moment (the reading thread is one of them).

import (
	"bytes"
	"errors"
	"path/filepath"
)

type loadavg struct {
	avg             [3]float64 // 1, 5, 15 minutes
	runnable, tasks number
}

func openLoadavg(o Options) Source {
	return openText(o, "loadavg", filepath.Join(o.Proc, "loadavg"), parseLoadavg, []gauge[loadavg]{
		{name: "loadavg.1m", unit: "tasks", period: 5000, get: func(l *loadavg) (float64, bool) { return l.avg[0], true }},
		{name: "loadavg.5m", unit: "tasks", period: 5000, get: func(l *loadavg) (float64, bool) { return l.avg[1], true }},
		{name: "loadavg.15m", unit: "tasks", period: 5000, get: func(l *loadavg) (float64, bool) { return l.avg[2], true }},
		{name: "loadavg.runnable", unit: "tasks", get: func(l *loadavg) (float64, bool) { return l.runnable.plain() }},
		{name: "loadavg.tasks", unit: "tasks", get: func(l *loadavg) (float64, bool) { return l.tasks.plain() }},
	}, reason)
}

// parseLoadavg reads:
//
//	1.60 1.45 0.92 2/101 11959
func parseLoadavg(b []byte, l *loadavg) error {
	*l = loadavg{}
	line, _ := cutLine(b)
	for i := range l.avg {
		var f []byte
		var ok bool
		f, line = cutField(line)
		if l.avg[i], ok = decimalOf(f); !ok {
			return errors.New("loadavg: want three averages")
		}
	}
	f, _ := cutField(line)
	if i := bytes.IndexByte(f, '/'); i >= 0 {
		l.runnable, l.tasks = numberOf(f[:i]), numberOf(f[i+1:])
	}
	return nil
}
