package hardware

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/blockdevice"
)

func TestParseMeminfo(t *testing.T) {
	var m meminfo
	text := "MemTotal:       100 kB\nSomethingNew: 12 pages\nMemFree:\t7 kB\nCached: many kB\nDirty: 3 MB\nSwapTotal: 5 kB\nSwapFree: 9 kB\n\nnonsense\nMlocked: 18446744073709551616 kB"
	if err := parseMeminfo([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	want := meminfo{total: number{100, true}, free: number{7, true}, swapTotal: number{5, true}, swapFree: number{9, true}}
	if m != want {
		t.Errorf("got %+v, want %+v: what is not a number of kB is not measured", m, want)
	}
	if err := parseMeminfo([]byte("MemFree: 7 kB\n"), &m); err == nil {
		t.Error("a text without MemTotal is not meminfo")
	}
}

// TestSwapUsedNeverBelowZero: SwapFree above SwapTotal is a torn reading, not a huge number.
func TestSwapUsedNeverBelowZero(t *testing.T) {
	srcs := Open(tree(t, "cpu-server"))
	defer closeAll(t, srcs)
	x := srcs[0].(*guarded).Source.(*text[meminfo])
	x.v = meminfo{swapTotal: number{5, true}, swapFree: number{9, true}}
	for _, g := range x.gauges {
		if v, ok := g.get(&x.v); g.name == "meminfo.swap_used_mib" && ok {
			t.Errorf("got %v, want not measured", v)
		}
	}
}

func TestParseVmstat(t *testing.T) {
	var v vmstat
	if err := parseVmstat([]byte("pswpin 3\npswpinx 4\npswpout\noom_kill -1\n"), &v); err != nil {
		t.Fatal(err)
	}
	if want := (vmstat{pswpin: number{3, true}}); v != want {
		t.Errorf("got %+v, want %+v", v, want)
	}
	if err := parseVmstat([]byte("nr_free_pages 12\n"), &v); err == nil {
		t.Error("want an error where nothing is known")
	}
}

func TestParseLoadavg(t *testing.T) {
	for _, c := range []struct {
		text string
		want loadavg
		ok   bool
	}{
		{"0.08 12.03 100.05 1/312 20131\n", loadavg{[3]float64{.08, 12.03, 100.05}, number{1, true}, number{312, true}}, true},
		{"0.08 0.03 0.05", loadavg{avg: [3]float64{.08, .03, .05}}, true},
		{"0.08 0.03\n", loadavg{}, false},
		{"0.08 x 0.05 1/2 3\n", loadavg{}, false},
		{"-1 0 0 1/2 3\n", loadavg{}, false},
		{"", loadavg{}, false},
	} {
		var l loadavg
		err := parseLoadavg([]byte(c.text), &l)
		if (err == nil) != c.ok || c.ok && l != c.want {
			t.Errorf("%q: got %+v, %v, want %+v", c.text, l, err, c.want)
		}
	}
}

func TestParsePressure(t *testing.T) {
	for _, c := range []struct {
		text string
		want pressure
		ok   bool
	}{
		{"some avg10=1.50 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=7\n",
			pressure{stall{1.5, 12, true}, stall{.25, 7, true}}, true},
		{"some avg10=1.50 avg60=0.00 avg300=0.00 total=12\n", pressure{some: stall{1.5, 12, true}}, true}, // cpu before 5.13
		{"some avg10=1.50 avg20=3 total=12 new=1\nall avg10=1 total=2\n", pressure{some: stall{1.5, 12, true}}, true},
		{"some avg10=1.50 avg60=0.00\n", pressure{}, false},
		{"full avg10=0.25 total=7\n", pressure{}, false},
		{"", pressure{}, false},
	} {
		var p pressure
		err := parsePressure([]byte(c.text), &p)
		if (err == nil) != c.ok || c.ok && p != c.want {
			t.Errorf("%q: got %+v, %v, want %+v", c.text, p, err, c.want)
		}
	}
}

// TestBusy: between the two readings user +30, system +10, steal +10, idle +45, iowait +5 ticks: busy
// (30+10+10)/100.
func TestBusy(t *testing.T) {
	var s stat
	read := func(text string) (busy, steal float64, ok bool) {
		t.Helper()
		if err := parseStat([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		busy, ok = s.share(cpuTicks.busy)
		steal, _ = s.share(func(c cpuTicks) uint64 { return c.steal.v })
		return busy, steal, ok
	}
	if _, _, ok := read("cpu  100 0 100 1000 10 0 0 0 0 0\n"); ok {
		t.Error("the first reading has no share")
	}
	if busy, steal, ok := read("cpu  130 0 110 1045 15 0 0 10 0 0\n"); !ok || busy != 50 || steal != 10 {
		t.Errorf("got %v %% busy, %v %% steal, %v, want 50, 10", busy, steal, ok)
	}
	if _, _, ok := read("cpu  130 0 110 1045 15 0 0 10 0 0\n"); ok {
		t.Error("no tick has passed: there is no share")
	}
	if _, _, ok := read("cpu  120 0 110 1200 15 0 0 10 0 0\n"); ok {
		t.Error("a counter that went back gives no share")
	}
	if err := parseStat([]byte("intr 12\ncpu0 1 2 3 4\n"), &s); err == nil {
		t.Error("want an error without a cpu line")
	}
}

func TestParseProcStat(t *testing.T) {
	const tail = " S 4200 4242 4242 0 -1 4194304 1303 11 7 5 250 31 2 1 20 0 9 0 81234 1073741824 26214 0 0\n"
	want := procStat{state: 'S', ppid: 4200, minflt: 1303, cminflt: 11, majflt: 7, cmajflt: 5, utime: 250, stime: 31, cutime: 2, cstime: 1, threads: 9, start: 81234, rssPages: 26214}
	for _, name := range []string{"llama-server", "a b", "a) S 1 (b", "", "new\nline", ")))"} {
		var p procStat
		if err := parseProcStat([]byte("4242 ("+name+")"+tail), &p); err != nil || p != want {
			t.Errorf("name %q: got %+v, %v, want %+v", name, p, err, want)
		}
	}
	if got, want := want.all(), (tally{284, 12, 1314}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, bad := range []string{"", "4242 (x)", "4242 (x) S 1 2 3", "4242 x" + tail, "4242 (x) S 4200 4242 4242 0 -1 4194304 1303 11 7 5 -250 31 2 1 20 0 9 0 81234 1073741824 26214"} {
		var p procStat
		if parseProcStat([]byte(bad), &p) == nil {
			t.Errorf("%q: want an error", bad)
		}
	}
}

func TestParseDiskLine(t *testing.T) {
	for _, c := range []struct {
		line string
		want string
		ok   bool
	}{
		{"   8       0 sda 1523 210 84210 9120 3021 4410 92112 41233 0 8123 50353", "sda 1523 84210 3021 92112 8123", true}, // 2.6
		{" 259 0 nvme0n1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17", "nvme0n1 1 3 5 7 10", true},                            // 5.5
		{" 259 0 nvme0n1 1 2 3", "", false},
		{" 259 0 nvme0n1 1 2 x 4 5 6 7 8 9 10 11", "", false},
		{"", "", false},
	} {
		var d diskLine
		ok := parseDiskLine([]byte(c.line), &d)
		got := fmt.Sprintf("%s %d %d %d %d %d", d.name, d.reads, d.sectorsRead, d.writes, d.sectorsWritten, d.busyMS)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%q: got %q, %v, want %q", c.line, got, ok, c.want)
		}
	}
}

// TestAgainstProcfs: an independent reader of the same files sees the same values.
func TestAgainstProcfs(t *testing.T) {
	for _, name := range machines {
		t.Run(name, func(t *testing.T) {
			o := tree(t, name)
			o.OpenFile = os.Open // procfs is refused nothing
			srcs := Open(o)
			defer closeAll(t, srcs)
			got := sampleAll(t, srcs, 0)
			want := map[string]float64{}
			pfs, err := procfs.NewFS(o.Proc)
			if err != nil {
				t.Fatal(err)
			}
			m, err := pfs.Meminfo()
			if err != nil {
				t.Fatal(err)
			}
			for n, p := range map[string]*uint64{"total": m.MemTotal, "available": m.MemAvailable, "free": m.MemFree, "buffers": m.Buffers,
				"cached": m.Cached, "dirty": m.Dirty, "mlocked": m.Mlocked, "swap_total": m.SwapTotal} {
				if p != nil {
					want["meminfo."+n+"_mib"] = float64(*p) / 1024
				}
			}
			l, err := pfs.LoadAvg()
			if err != nil {
				t.Fatal(err)
			}
			want["loadavg.1m"], want["loadavg.5m"], want["loadavg.15m"] = l.Load1, l.Load5, l.Load15
			st, err := pfs.Stat()
			if err != nil {
				t.Fatal(err)
			}
			c := st.CPUTotal
			want["stat.cpu_busy_s"] = c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal
			want["stat.cpu_iowait_s"] = c.Iowait
			want["stat.procs_running"] = float64(st.ProcessesRunning)
			for _, r := range []string{"cpu", "io", "memory"} {
				p, err := pfs.PSIStatsForResource(r)
				if err != nil {
					continue
				}
				want["psi."+r+".some_avg10_pct"], want["psi."+r+".some_total_us"] = p.Some.Avg10, float64(p.Some.Total)
				want["psi."+r+".full_avg10_pct"], want["psi."+r+".full_total_us"] = p.Full.Avg10, float64(p.Full.Total)
			}
			bfs, err := blockdevice.NewFS(o.Proc, o.Sys)
			if err != nil {
				t.Fatal(err)
			}
			disks, err := bfs.ProcDiskstats()
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range disks {
				if _, whole := got["disk."+d.DeviceName+".reads"]; whole {
					want["disk."+d.DeviceName+".reads"] = float64(d.ReadIOs)
					want["disk."+d.DeviceName+".read_mib"] = float64(d.ReadSectors) * 512 / (1 << 20)
					want["disk."+d.DeviceName+".written_mib"] = float64(d.WriteSectors) * 512 / (1 << 20)
					want["disk."+d.DeviceName+".busy_ms"] = float64(d.IOsTotalTicks)
				}
			}
			if len(want) < 15 {
				t.Fatalf("only %d values to compare", len(want))
			}
			for n, w := range want {
				if g, ok := got[n]; !ok || math.Abs(g-w) > 1e-9*math.Max(1, w) {
					t.Errorf("%s: got %v (measured %v), want %v", n, g, ok, w)
				}
			}
		})
	}
}

// TestLongText: a file longer than the buffer is read whole.
func TestLongText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stat")
	long := "cpu  1 2 3 4 5 6 7 8\nintr " + strings.Repeat("0 ", 40000) + "\nctxt 99\n"
	write(t, path, long)
	f, err := openFile(Options{}.withDefaults(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	for range 2 {
		if b, err := f.read(); err != nil || string(b) != long {
			t.Fatalf("got %d bytes, %v, want %d", len(b), err, len(long))
		}
	}
}
