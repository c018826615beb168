package hardware

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
)

func shell(name, format, script string) Collector {
	return Collector{Collector: plan.Collector{Name: name, Format: format, Command: []string{"/bin/sh", "-c", script}}}
}

// TestCollectorInSampler: its lines become samples with times of their own, listed, and waited for.
func TestCollectorInSampler(t *testing.T) {
	c, err := OpenCollector(t.Context(), Options{}, shell("wall", "key=value", `i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo "power_w=$i on=1"; sleep 0.01; done`))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if x := sensorOf(t, c, "wall.power_w"); !x.Available || x.Unit != "W" || x.Source != "/bin/sh" {
		t.Errorf("got %+v", x)
	}
	s, err := StartSampler(t.Context(), SamplerOptions{Sources: []Source{c}, Interval: 20 * time.Millisecond, Need: []string{"wall.*"}})
	if err != nil {
		t.Fatal(err)
	}
	n := func() (n int) {
		for _, x := range s.Samples() {
			if x.Sensor == "wall.power_w" {
				n++
			}
		}
		return n
	}
	until(t, "twenty lines", func() bool { return n() >= 20 })
	s.Stop()
	last := record.Sample{}
	for _, x := range s.Samples() {
		if x.Sensor != "wall.power_w" {
			continue
		}
		// Each line is there once, in order, with a time that no tick of the sampler gave it.
		if last.Value != 0 && (x.Value != last.Value+1 || x.MonoNS <= last.MonoNS) {
			t.Errorf("%+v comes after %+v", x, last)
		}
		last = x
	}
}

// TestCollectorEvery: a program that prints once is run again and again; one that fails in between leaves
// a hole and no error for good.
func TestCollectorEvery(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "fail")
	c := shell("bmc", "ipmitool", `[ -e `+flag+` ] && exit 1; echo "PSU1 Power | 220.0 | Watts | ok"`)
	c.Every = 50 * time.Millisecond
	src, err := OpenCollector(t.Context(), Options{}, c)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if x := sensorOf(t, src, "bmc.psu1_power_w"); x.PeriodMS != 50 {
		t.Errorf("got %+v", x)
	}
	g := src.(*guarded)
	var lines int
	more := func() bool {
		_, err := g.drain(func(int64, string, float64) { lines++ })
		if err != nil {
			t.Fatal(err)
		}
		return lines >= 3
	}
	until(t, "three runs", more)
	write(t, flag, "")
	time.Sleep(120 * time.Millisecond) // some runs fail
	if err := os.Remove(flag); err != nil {
		t.Fatal(err)
	}
	lines = 0
	until(t, "three more", more)
}

// TestCollectorTroubles: what is wrong is said with what to do, and nothing is left running.
func TestCollectorTroubles(t *testing.T) {
	quick := func(c Collector) Collector { c.Wait = 300 * time.Millisecond; return c }
	ends := func(c Collector) Collector { c.Wait = time.Minute; return c } // long before, however busy the machine
	for _, x := range []struct {
		c         Collector
		want, fix string
	}{
		{ends(shell("a", "csv", "echo must be root >&2; exit 1")), "it says: must be root", "sudo /bin/sh"},
		{ends(shell("a", "csv", "exit 3")), "exit status 3", "by hand"},
		{ends(shell("a", "csv", "true")), "the command ended", "csv lines"},
		{quick(shell("a", "jsonl", "while :; do echo hello; sleep 0.01; done")), "no value within 300ms", "jsonl lines"},
		{Collector{Collector: plan.Collector{Name: "a", Format: "csv", Command: []string{"/no/such/program"}}}, "no such file", "by hand"},
		{Collector{Collector: plan.Collector{Name: "a", Format: "csv", File: "/no/such/file"}}, "is not there", "tail -f"},
		{Collector{Collector: plan.Collector{Name: "meminfo", Format: "csv", File: "x"}}, "flow's own", "my_meminfo"},
		{Collector{Collector: plan.Collector{Name: "A b", Format: "csv", File: "x"}}, "small letters", "wall"},
		{Collector{Collector: plan.Collector{Name: "a", Format: "csf", File: "x"}}, `got format "csf"`, `format = "csv"`},
		{Collector{Collector: plan.Collector{Name: "a", Format: "csv"}}, "exactly one", "command ="},
		{Collector{Collector: plan.Collector{Name: "a", Format: "csv", File: "x", Every: time.Second}}, "somebody else", "stale"},
		{Collector{Collector: plan.Collector{Name: "a", Format: "csv", Command: []string{"x"}, Every: time.Millisecond}}, "at least 50ms", "100ms"},
	} {
		src, err := OpenCollector(t.Context(), Options{}, x.c)
		var d *diag.Error
		if err == nil || !errors.As(err, &d) || !strings.Contains(err.Error(), x.want) || !strings.Contains(d.Fix, x.fix) {
			t.Errorf("%+v: got %v (fix %q), want %q (fix with %q)", x.c, err, fixOf(d), x.want, x.fix)
		}
		if src != nil {
			src.Close()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := OpenCollector(ctx, Options{}, shell("a", "csv", "sleep 10")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestCollectorChildKeepsOutput: a child in the background that keeps the output open does not hold up the
// next run of a command.
func TestCollectorChildKeepsOutput(t *testing.T) {
	for _, keeps := range []string{"sleep 600 &", "sleep 600 2>/dev/null &", "sleep 600 >/dev/null &"} {
		c := shell("bmc", "key=value", keeps+` echo power_w=1`)
		c.Every = 50 * time.Millisecond
		src, err := OpenCollector(t.Context(), Options{}, c)
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		until(t, "three runs", func() bool {
			if _, err := src.(*guarded).drain(func(int64, string, float64) { lines++ }); err != nil {
				t.Fatal(err)
			}
			return lines >= 3
		})
		src.Close()
	}
}

func fixOf(d *diag.Error) string {
	if d == nil {
		return ""
	}
	return d.Fix
}

// TestCollectorEnds: Close ends the command, what it started, and what does not listen to a signal.
func TestCollectorEnds(t *testing.T) {
	dir := t.TempDir()
	src, err := OpenCollector(t.Context(), Options{}, shell("a", "key=value", `trap '' TERM; sh -c 'trap "" TERM; echo $$ > `+dir+`/child; while :; do sleep 0.05; done' & echo $$ > `+dir+`/self; while :; do echo x=1; sleep 0.02; done`))
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	until(t, "both processes", func() bool {
		pids = nil
		for _, n := range []string{"self", "child"} {
			b, err := os.ReadFile(filepath.Join(dir, n))
			if pid, bad := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && bad == nil {
				pids = append(pids, pid)
			}
		}
		return len(pids) == 2
	})
	if err := src.Close(); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		until(t, fmt.Sprintf("the end of %d", pid), func() bool {
			if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
				return true
			}
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // nobody may wait for an orphan here
			return err == nil && strings.Contains(string(b), ") Z ")
		})
	}
}

// TestCollectorStale: silence is not a value that stays.
func TestCollectorStale(t *testing.T) {
	var now atomic.Int64
	c := shell("a", "key=value", "echo x_w=5; sleep 60")
	c.Stale = 3 * time.Second
	src, err := OpenCollector(t.Context(), Options{Now: now.Load}, c)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	wantValues(t, "fresh", oneSample(t, src, 2e9), map[string]float64{"a.x_w": 5})
	if err := src.Sample(4e9, func(n string, v float64) { t.Errorf("%s = %v, although it is stale", n, v) }); err == nil || !strings.Contains(err.Error(), "stale: nothing for 4s") {
		t.Errorf("got %v", err)
	}
	now.Store(4e9)
	if _, err := src.(*guarded).drain(func(int64, string, float64) {}); err == nil {
		t.Error("a silent collector is no error to the sampler")
	}
}

// TestCollectorFile: a file that grows, is written anew, is replaced, and one that nobody writes any more.
func TestCollectorFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "power.csv")
	write(t, path, "power_w\n1\n2\n3\n")
	var wall atomic.Int64
	wall.Store(time.Now().UnixNano())
	c := Collector{Collector: plan.Collector{Name: "w", Format: "csv", File: "power.csv", Stale: 5 * time.Second}, Dir: dir}
	src, err := OpenCollector(t.Context(), Options{Wall: wall.Load}, c)
	if err != nil {
		t.Fatal(err)
	}
	var got []float64
	take := func(n int) []float64 {
		t.Helper()
		got = nil
		until(t, fmt.Sprintf("%d values", n), func() bool {
			if _, err := src.(*guarded).drain(func(_ int64, _ string, v float64) { got = append(got, v) }); err != nil {
				t.Fatal(err)
			}
			return len(got) >= n
		})
		return got
	}
	if got := take(1); got[0] != 3 || len(got) != 1 {
		t.Errorf("of what was there before only the newest is of now, got %v", got)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, "4\n5\n6")
	if got := take(2); got[0] != 4 || got[1] != 5 || len(got) != 2 {
		t.Errorf("grown: got %v, want 4, 5 and not the line without an end", got)
	}
	fmt.Fprint(f, "0\n")
	f.Close()
	if got := take(1); got[0] != 60 {
		t.Errorf("the line has its end: got %v", got)
	}
	next := filepath.Join(dir, "next")
	write(t, next, "power_w\n7\n")
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
	if got := take(1); got[0] != 7 {
		t.Errorf("replaced: got %v", got)
	}
	write(t, path, "power_w\n9")
	if got := take(1); got[0] != 9 {
		t.Errorf("written anew, without an end: got %v", got)
	}
	src.Close()

	wall.Store(time.Now().Add(time.Minute).UnixNano())
	if _, err := OpenCollector(t.Context(), Options{Wall: wall.Load}, c); err == nil || !strings.Contains(err.Error(), "stale") {
		t.Errorf("an old file: got %v", err)
	}
}

// TestCollectorLongFile: a night's log is read from its heading and its end.
func TestCollectorLongFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "long.csv")
	var b strings.Builder
	b.WriteString("power_w\n")
	for i := range 200_000 {
		fmt.Fprintf(&b, "%d\n", i)
	}
	write(t, path, b.String())
	src, err := OpenCollector(t.Context(), Options{}, Collector{Collector: plan.Collector{Name: "w", Format: "csv", File: path, Wait: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	wantValues(t, "the end", oneSample(t, src, monotonic()), map[string]float64{"w.power_w": 199_999})
}

// TestPaces: a source is read no more often than it says; one without a pace at every tick.
func TestPaces(t *testing.T) {
	mk := func(name string) *scripted {
		return script(name, func(_ int, emit func(string, float64)) error { emit(name+".value", 1); return nil })
	}
	quick, slow, rated := mk("quick"), mk("slow"), mk("rated")
	s, err := StartSampler(t.Context(), SamplerOptions{Sources: []Source{quick, &paced{slow, 200 * time.Millisecond}, &paced{rated, 50 * time.Millisecond}}, Interval: 5 * time.Millisecond,
		Need: []string{"slow.value", "quick.value", "rated.value"}})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	until(t, "a hundred ticks", func() bool { return quick.calls.Load() >= 100 })
	took := time.Since(start)
	s.Stop()
	for _, c := range []struct {
		src  *scripted
		pace time.Duration
	}{{slow, 200 * time.Millisecond}, {rated, 50 * time.Millisecond}} {
		if n, most := c.src.calls.Load(), int64(took/c.pace)+2; n > most || n < 2 {
			t.Errorf("%s: read %d times in %v, want at most %d", c.src.name, n, took, most)
		}
	}
}

// TestLastReading: a window that ends just before Stop has a reading behind its edge, but what is costly to
// read is left alone.
func TestLastReading(t *testing.T) {
	quick, slow := steady("quick"), steady("slow")
	s, err := StartSampler(t.Context(), SamplerOptions{Sources: []Source{quick, &paced{slow, time.Second}}, Interval: time.Hour, Need: []string{"quick.value", "slow.value"}})
	if err != nil {
		t.Fatal(err)
	}
	edge := monotonic()
	st := s.Stop()
	if quick.calls.Load() != 2 || slow.calls.Load() != 1 || st.Ticks != 1 {
		t.Errorf("read %d and %d times in %d ticks, want 2, 1, 1", quick.calls.Load(), slow.calls.Load(), st.Ticks)
	}
	all := s.Samples()
	if last := all[len(all)-1]; last.Sensor != "quick.value" || last.MonoNS < edge {
		t.Errorf("the last sample is %+v, want one after %d", last, edge)
	}
}

type paced struct {
	*scripted
	pace time.Duration
}

func (p *paced) every() time.Duration { return p.pace }
