package hardware

// Whatever stands in a file, a parser returns; and what it accepts it reads again from its own form.

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

// seed adds a file of each machine under testdata.
func seed(f *testing.F, name string) {
	for _, m := range machines {
		for _, x := range archive(f, m).Files {
			if x.Name == "proc/"+name {
				f.Add(x.Data)
			}
		}
	}
}

func FuzzNumbers(f *testing.F) {
	for _, s := range []string{"0", "18446744073709551615", "18446744073709551616", "1.50", "0.", ".5", "-1", "1e3", "", "00012", "9007199254740993.25"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, ok := uintOf([]byte(s))
		w, err := strconv.ParseUint(s, 10, 64)
		if ok && (err != nil || v != w) {
			t.Errorf("uintOf(%q) = %d, strconv says %d, %v", s, v, w, err)
		}
		if !ok && err == nil && len(s) <= 20 && !strings.HasPrefix(s, "+") {
			t.Errorf("uintOf refuses %q", s)
		}
		d, ok := decimalOf([]byte(s))
		if !ok {
			return
		}
		e, err := strconv.ParseFloat(s, 64)
		if err != nil || math.Abs(d-e) > 1e-15*math.Max(1, e)*4 {
			t.Errorf("decimalOf(%q) = %v, strconv says %v, %v", s, d, e, err)
		}
	})
}

func FuzzMeminfo(f *testing.F) {
	seed(f, "meminfo")
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, m2 meminfo
		if parseMeminfo(b, &m) != nil {
			return
		}
		text := ""
		for _, x := range []struct {
			n string
			v number
		}{{"MemTotal", m.total}, {"MemFree", m.free}, {"MemAvailable", m.available}, {"Buffers", m.buffers}, {"Cached", m.cached},
			{"SwapTotal", m.swapTotal}, {"SwapFree", m.swapFree}, {"Mlocked", m.mlocked}, {"Dirty", m.dirty}} {
			if x.v.ok {
				text += fmt.Sprintf("%s: %d kB\n", x.n, x.v.v)
			}
		}
		// A number that is not there is zero as well, so the two can be compared whole.
		if err := parseMeminfo([]byte(text), &m2); err != nil || m2 != m {
			t.Errorf("%+v became %+v, %v", m, m2, err)
		}
	})
}

func FuzzVmstat(f *testing.F) {
	seed(f, "vmstat")
	f.Fuzz(func(t *testing.T, b []byte) {
		var v, v2 vmstat
		if parseVmstat(b, &v) != nil {
			return
		}
		text := ""
		for _, x := range []struct {
			n string
			v number
		}{{"pswpin", v.pswpin}, {"pswpout", v.pswpout}, {"pgfault", v.pgfault}, {"pgmajfault", v.pgmajfault}, {"oom_kill", v.oomKill}} {
			if x.v.ok {
				text += fmt.Sprintf("%s %d\n", x.n, x.v.v)
			}
		}
		if err := parseVmstat([]byte(text), &v2); err != nil || v2 != v {
			t.Errorf("%+v became %+v, %v", v, v2, err)
		}
	})
}

func FuzzLoadavg(f *testing.F) {
	seed(f, "loadavg")
	f.Fuzz(func(t *testing.T, b []byte) {
		var l, l2 loadavg
		if parseLoadavg(b, &l) != nil {
			return
		}
		for _, a := range l.avg {
			if a < 0 || !finite(a) {
				t.Errorf("got %+v", l)
			}
		}
		if !l.runnable.ok || !l.tasks.ok || l.avg[0] > 1e6 || l.avg[1] > 1e6 || l.avg[2] > 1e6 {
			return // not what %f prints shortly
		}
		text := fmt.Sprintf("%s %s %s %d/%d 1\n", short(l.avg[0]), short(l.avg[1]), short(l.avg[2]), l.runnable.v, l.tasks.v)
		if err := parseLoadavg([]byte(text), &l2); err == nil && l2 != l {
			t.Errorf("%+v became %+v", l, l2)
		}
	})
}

func short(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func FuzzPressure(f *testing.F) {
	for _, n := range []string{"cpu", "io", "memory"} {
		seed(f, "pressure/"+n)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p, p2 pressure
		if parsePressure(b, &p) != nil {
			return
		}
		text := ""
		for _, x := range []struct {
			n string
			s stall
		}{{"some", p.some}, {"full", p.full}} {
			if x.s.avg10 < 0 || !finite(x.s.avg10) {
				t.Errorf("got %+v", p)
			}
			if x.s.ok {
				text += fmt.Sprintf("%s avg10=%s avg60=0.00 avg300=0.00 total=%d\n", x.n, short(x.s.avg10), x.s.total)
			}
		}
		if p.some.avg10 > 1e6 || p.full.avg10 > 1e6 || !p.full.ok {
			return
		}
		if err := parsePressure([]byte(text), &p2); err == nil && p2 != p {
			t.Errorf("%+v became %+v", p, p2)
		}
	})
}

func FuzzStat(f *testing.F) {
	seed(f, "stat")
	f.Add([]byte("cpu  18446744073709551615 1 0 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s stat
		if parseStat(b, &s) != nil {
			return
		}
		s.before = cpuTicks{user: number{0, true}}
		for _, of := range []func(cpuTicks) uint64{cpuTicks.busy, func(c cpuTicks) uint64 { return c.steal.v }} {
			if x, ok := s.share(of); ok && !(x >= 0 && x <= 100) {
				t.Errorf("%+v: a share of %v %%", s, x)
			}
		}
	})
}

func FuzzProcess(f *testing.F) {
	seed(f, "self/stat")
	seed(f, "self/status")
	f.Fuzz(func(t *testing.T, b []byte) {
		var m procMemory
		if err := parseProcStatus(b, &m); err != nil {
			t.Error(err)
		}
		var p, p2 procStat
		if parseProcStat(b, &p) != nil {
			return
		}
		text := fmt.Sprintf("1 (x) %c %d 0 0 0 -1 0 %d %d %d %d %d %d %d %d 20 0 %d 0 %d 0 %d\n",
			p.state, p.ppid, p.minflt, p.cminflt, p.majflt, p.cmajflt, p.utime, p.stime, p.cutime, p.cstime, p.threads, p.start, p.rssPages)
		if err := parseProcStat([]byte(text), &p2); err != nil || p2 != p {
			t.Errorf("%+v became %+v, %v", p, p2, err)
		}
	})
}

func FuzzDiskLine(f *testing.F) {
	seed(f, "diskstats")
	f.Fuzz(func(t *testing.T, b []byte) {
		for rest := b; len(rest) > 0; {
			var line []byte
			line, rest = cutLine(rest)
			var d, d2 diskLine
			if !parseDiskLine(line, &d) {
				continue
			}
			text := fmt.Sprintf("0 0 %s %d 0 %d 0 %d 0 %d 0 0 %d", d.name, d.reads, d.sectorsRead, d.writes, d.sectorsWritten, d.busyMS)
			if !parseDiskLine([]byte(text), &d2) || string(d2.name) != string(d.name) || d2.reads != d.reads || d2.sectorsRead != d.sectorsRead ||
				d2.writes != d.writes || d2.sectorsWritten != d.sectorsWritten || d2.busyMS != d.busyMS {
				t.Errorf("%+v became %+v", d, d2)
			}
		}
	})
}

func FuzzKHz(f *testing.F) {
	f.Add([]byte("3400000\n"))
	f.Add([]byte("<unknown>\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		khz, ok := parseKHz(b)
		if again, ok2 := parseKHz([]byte(strconv.FormatUint(khz, 10) + "\n")); ok && (khz == 0 || !ok2 || again != khz) {
			t.Errorf("%q: got %d, then %d, %v", b, khz, again, ok2)
		}
	})
}
