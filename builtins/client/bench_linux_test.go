package client

// Benchmarks of the client against what it is compared with, on this machine and in one run. They want a
// machine that does nothing else. CONTRIBUTING.md has the commands and how long each takes.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"flow/builtins/engine/simengine"

	"golang.org/x/sys/unix"
)

// The test binary is the engine, a reader, a server or a burden when it is called so: none of them may share
// our processor time.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "sim-engine":
			os.Exit(simengine.Main(os.Args[2:], os.Stdout, os.Stderr))
		case "reader":
			os.Exit(readerMain(os.Args[2:]))
		case "answerer":
			os.Exit(answererMain())
		case "burden":
			for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// again is this binary as something else. It is ended with the benchmark.
func again(b *testing.B, args ...string) *exec.Cmd {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Stderr = os.Stderr
	return cmd
}

// started starts cmd and gives its URL, which it prints after "listening on ", and its end.
func started(b *testing.B, cmd *exec.Cmd, out io.Reader) (url string, end func()) {
	b.Helper()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	end = func() {
		_ = cmd.Process.Signal(unix.SIGTERM)
		_ = cmd.Wait()
	}
	in := bufio.NewReader(out)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			end()
			b.Fatal(err)
		}
		if _, url, ok := strings.Cut(line, "listening on "); ok {
			go func() { _, _ = io.Copy(io.Discard, in) }()
			return strings.TrimSpace(url), end
		}
	}
}

// engine starts the embedded engine.
func engine(b *testing.B, args ...string) (url string, end func()) {
	b.Helper()
	cmd := again(b, append([]string{"sim-engine", "serve", "--port", "0"}, args...)...)
	cmd.Stderr = nil
	out, err := cmd.StderrPipe()
	if err != nil {
		b.Fatal(err)
	}
	return started(b, cmd, out)
}

// burdened keeps every core busy until end.
func burdened(b *testing.B) (end func()) {
	b.Helper()
	var all []*exec.Cmd
	for range runtime.NumCPU() {
		cmd := again(b, "burden")
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		all = append(all, cmd)
	}
	return func() {
		for _, cmd := range all {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
}

// written is when a frame was written: the engine's own times before and after.
type written struct{ before, after int64 }

// truths is what the engine noted, by the name of the stream.
func truths(b *testing.B, file string) map[string][]written {
	b.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	out := map[string][]written{}
	for line := range bytes.Lines(data) {
		var w struct {
			Prompt string `json:"prompt"`
			Before int64  `json:"before_ns"`
			After  int64  `json:"after_ns"`
		}
		if err := json.Unmarshal(line, &w); err != nil {
			b.Fatal(err)
		}
		out[w.Prompt] = append(out[w.Prompt], written{w.Before, w.After})
	}
	return out
}

// outcome is one run of a reader.
type outcome struct {
	p50, p99, most float64 // of the stamp error, µs
	cpu            float64 // s per million frames
	rss            float64 // MB
	shared         float64 // % of frames in one read with the one before; -1 unknown
	late           float64 // of the engine against its deadlines, p99 in µs
	unknown        float64 // % of frames whose truth is not known
}

// known is how long a write may take so that its beginning is the truth: in a longer one the engine was away.
const known = 100_000

// read runs a reader as a process, against an engine of its own that writes frames at fixed deadlines, 100 a
// second and stream, and notes the time of each write.
func read(b *testing.B, how string, streams, tokens int, busy bool) (o outcome) {
	b.Helper()
	dir := b.TempDir()
	file, got := filepath.Join(dir, "truth.jsonl"), filepath.Join(dir, "arrivals")
	to, end := engine(b, "--truth", file, "--decode-tok-s", "100", "--prefill-tok-s", "1000000")
	defer end()
	if busy {
		defer burdened(b)()
	}
	args := []string{strconv.Itoa(streams), strconv.Itoa(tokens), "r", got}
	var cmd *exec.Cmd
	if how == "c" {
		u, err := url.Parse(to)
		if err != nil {
			b.Fatal(err)
		}
		cmd = exec.Command(plainReader(b), append([]string{u.Hostname(), u.Port()}, args...)...)
	} else {
		cmd = again(b, append([]string{"reader", how, to}, args...)...)
	}
	said, err := cmd.Output()
	if err != nil {
		b.Fatalf("%s: %v", how, err)
	}
	var frames int
	var cpu, rss int64
	o.shared = -1
	if n, _ := fmt.Sscan(string(said), &frames, &cpu, &rss, &o.shared); n < 3 || frames < streams*tokens {
		b.Fatalf("%s said %q, want %d frames and more", how, said, streams*tokens)
	}
	if o.shared >= 0 {
		o.shared *= 100 / float64(frames)
	}
	o.cpu, o.rss = float64(cpu)/1e9/float64(frames)*1e6, float64(rss)/1024
	data, err := os.ReadFile(got)
	if err != nil {
		b.Fatal(err)
	}
	end() // the truth is on file
	truth := truths(b, file)
	var errs, late []float64
	unknown := 0
	for line := range bytes.Lines(data) {
		fields := strings.Fields(string(line))
		want := truth[fields[0]]
		if len(want) < len(fields)-1 {
			b.Fatalf("%s: %d arrivals of %d writes", fields[0], len(fields)-1, len(want))
		}
		for i, f := range fields[1:] {
			ns, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			if i < 1 || i > tokens {
				continue // no token: the role, and what the engine writes behind the last one without a pause
			}
			if want[i].after-want[i].before > known {
				unknown++
				continue
			}
			errs = append(errs, float64(ns-want[i].before)/1e3)
		}
		// Frame 0 has the role, frame 1 the first token, from which the deadlines count.
		for i := 1; i <= tokens; i++ {
			late = append(late, float64(want[i].before-want[1].before-int64(i-1)*10_000_000)/1e3)
		}
	}
	slices.Sort(errs)
	slices.Sort(late)
	at := func(v []float64, p float64) float64 { return v[int(p*float64(len(v)-1))] }
	o.p50, o.p99, o.most, o.late = at(errs, .5), at(errs, .99), at(errs, 1), at(late, .99)
	o.unknown = 100 * float64(unknown) / float64(frames)
	return o
}

// plainReader builds the C reader, or skips.
func plainReader(b *testing.B) string {
	b.Helper()
	cc, err := exec.LookPath("gcc")
	if err != nil {
		b.Skip("no gcc: the plain C loop cannot be built")
	}
	bin := filepath.Join(b.TempDir(), "reader")
	if out, err := exec.Command(cc, "-O2", "-o", bin, filepath.Join("testdata", "reader.c")).CombinedOutput(); err != nil {
		b.Fatalf("reader.c: %v\n%s", err, out)
	}
	return bin
}

// middle is the median of one figure of several runs.
func middle(runs []outcome, of func(outcome) float64) float64 {
	var v []float64
	for _, r := range runs {
		v = append(v, of(r))
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

func load(busy bool) string { return map[bool]string{false: "idle", true: "busy"}[busy] }

// BenchmarkStreams is the cost and the stamp error of streams at 100 frames a second each: the client, the
// client without the kernel's stamps, and a loop of epoll and read beside it that parses nothing. Processor
// time has the kernel's part in it. "engine-late" is the truth's own distance from its deadlines, "unknown"
// the frames that are left out because the engine was away while it wrote them.
func BenchmarkStreams(b *testing.B) {
	const tokens = 200
	for _, busy := range []bool{false, true} {
		for _, streams := range []int{1, 8, 32, 256} {
			for _, how := range []string{"flow", "flow-user", "raw"} {
				b.Run(fmt.Sprintf("%s/%d/%s", load(busy), streams, how), func(b *testing.B) {
					var runs []outcome
					for b.Loop() {
						runs = append(runs, read(b, how, streams, tokens, busy))
					}
					b.ReportMetric(0, "ns/op")
					for unit, of := range map[string]func(outcome) float64{
						"p50-µs":             func(o outcome) float64 { return o.p50 },
						"p99-µs":             func(o outcome) float64 { return o.p99 },
						"max-µs":             func(o outcome) float64 { return o.most },
						"cpu-s/Mframe":       func(o outcome) float64 { return o.cpu },
						"rss-MB":             func(o outcome) float64 { return o.rss },
						"engine-late-p99-µs": func(o outcome) float64 { return o.late },
						"unknown-%":          func(o outcome) float64 { return o.unknown },
						"shared-reads-%":     func(o outcome) float64 { return o.shared },
					} {
						if v := middle(runs, of); v >= 0 || unit != "shared-reads-%" {
							b.ReportMetric(v, unit)
						}
					}
				})
			}
		}
	}
}

// BenchmarkTable compares clients as they are usually written with this one: a round for each iteration, the
// clients in turn within it, and the medians in a table.
func BenchmarkTable(b *testing.B) {
	const tokens = 200
	clients := []struct{ how, name string }{
		{"c", "C, plain read loop"},
		{"http-parse", "Go net/http, scanner and encoding/json, stamp after parsing"},
		{"http-read", "Go net/http, stamp at read"},
		{"flow-user", "flow without the kernel's stamps"},
		{"flow", "flow"},
	}
	points := []struct {
		streams int
		busy    bool
	}{{1, false}, {32, false}, {32, true}, {256, true}, {256, false}}
	if _, err := exec.LookPath("gcc"); err != nil {
		b.Log("no gcc: the table has no row of the plain C loop")
		clients = clients[1:]
	}
	runs := map[string][]outcome{}
	key := func(how string, point int) string { return fmt.Sprint(how, point) }
	rounds := 0
	for b.Loop() {
		for i, p := range points {
			for j := range clients {
				c := clients[(j+rounds)%len(clients)]
				runs[key(c.how, i)] = append(runs[key(c.how, i)], read(b, c.how, p.streams, tokens, p.busy))
			}
		}
		rounds++
	}
	b.ReportMetric(0, "ns/op")
	var out strings.Builder
	fmt.Fprintf(&out, "medians of %d rounds; stamp error p50/p99 in µs at 100 frames a second and stream\n\n", rounds)
	out.WriteString("| client | 1 idle | 32 idle | 32 busy | 256 busy | CPU s per million frames, 32 / 256 idle | RSS MB at 256 |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, c := range clients {
		fmt.Fprintf(&out, "| %s |", c.name)
		of := func(point int, f func(outcome) float64) float64 { return middle(runs[key(c.how, point)], f) }
		for i := range points[:4] {
			fmt.Fprintf(&out, " %.0f/%.0f |", of(i, func(o outcome) float64 { return o.p50 }), of(i, func(o outcome) float64 { return o.p99 }))
		}
		cpu := func(o outcome) float64 { return o.cpu }
		fmt.Fprintf(&out, " %.0f / %.0f | %.0f |\n", of(1, cpu), of(4, cpu), of(4, func(o outcome) float64 { return o.rss }))
	}
	b.Logf("%s", out.String())
}
