package hardware

// /proc/pressure/{cpu,io,memory}: the share of time in which some task, or all of them, waited. The kernel
// updates averages and totals every two seconds.

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"syscall"
)

// pressure is one file: a line for "some" and, but for cpu before 5.13, one for "full".
type pressure struct {
	some, full stall
}

type stall struct {
	avg10 float64
	total uint64 // µs
	ok    bool
}

func openPressure(o Options, what string) Source {
	lacks := "kernels before 5.13 print no full line for cpu"
	p := "psi." + what + "."
	return openText(o, "psi."+what, filepath.Join(o.Proc, "pressure", what), parsePressure, []gauge[pressure]{
		{name: p + "some_avg10_pct", unit: "%", period: 2000, get: func(v *pressure) (float64, bool) { return v.some.avg10, v.some.ok }},
		{name: p + "full_avg10_pct", unit: "%", period: 2000, get: func(v *pressure) (float64, bool) { return v.full.avg10, v.full.ok }, lacks: lacks},
		{name: p + "some_total_us", unit: "µs", period: 2000, counter: true, get: func(v *pressure) (float64, bool) { return float64(v.some.total), v.some.ok }},
		{name: p + "full_total_us", unit: "µs", period: 2000, counter: true, get: func(v *pressure) (float64, bool) { return float64(v.full.total), v.full.ok }, lacks: lacks},
	}, noPressure)
}

func noPressure(path string, err error) (why, fix string) {
	if runtime.GOOS == "linux" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EOPNOTSUPP)) {
		return "the kernel keeps no pressure information (" + path + "): older than 4.20, built without CONFIG_PSI, or switched off",
			"boot with psi=1 on a kernel that has CONFIG_PSI"
	}
	return reason(path, err)
}

// parsePressure reads:
//
//	some avg10=3.76 avg60=0.94 avg300=0.25 total=2778531
//	full avg10=2.70 avg60=0.60 avg300=0.12 total=1278665
func parsePressure(b []byte, p *pressure) error {
	*p = pressure{}
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		kind, rest := cutField(line)
		switch string(kind) {
		case "some":
			p.some = parseStall(rest)
		case "full":
			p.full = parseStall(rest)
		}
	}
	if !p.some.ok {
		return errors.New("pressure: no line of the form some avg10=… total=…")
	}
	return nil
}

func parseStall(line []byte) (s stall) {
	var avg, total bool
	for {
		var f []byte
		if f, line = cutField(line); f == nil {
			s.ok = avg && total
			return s
		}
		i := bytes.IndexByte(f, '=')
		if i < 0 {
			continue
		}
		switch string(f[:i]) {
		case "avg10":
			s.avg10, avg = decimalOf(f[i+1:])
		case "total":
			s.total, total = uintOf(f[i+1:])
		}
	}
}

// openUserPressure is the pressure inside user.slice, which systemd-oomd acts upon: it can be far above the
// system's, because the system's is an average with everything that does not wait.
func openUserPressure(o Options) []Source {
	point := filepath.Join(o.Sys, "fs/cgroup")
	if m := cgroupMounts(textOf(o, filepath.Join(o.Proc, "self/mountinfo"))); true {
		for _, x := range m {
			if x.v1 == "" {
				point = (&cgroup{o: o}).mountPoint(x)
			}
		}
	}
	var out []Source
	for _, what := range []string{"cpu", "io", "memory"} {
		p := "psi.user." + what + "."
		out = append(out, openText(o, "psi.user."+what, filepath.Join(point, "user.slice", what+".pressure"), parsePressure, []gauge[pressure]{
			{name: p + "some_avg10_pct", unit: "%", period: 2000, get: func(v *pressure) (float64, bool) { return v.some.avg10, v.some.ok }},
			{name: p + "full_avg10_pct", unit: "%", period: 2000, get: func(v *pressure) (float64, bool) { return v.full.avg10, v.full.ok }, lacks: "kernels before 5.13 print no full line for cpu"},
		}, noUserPressure))
	}
	return out
}

func noUserPressure(path string, err error) (why, fix string) {
	if runtime.GOOS == "linux" && errors.Is(err, fs.ErrNotExist) {
		return "no user.slice with pressure in cgroup v2 (" + path + ")", "run where systemd keeps users in a slice, on a kernel with CONFIG_PSI"
	}
	return reason(path, err)
}
