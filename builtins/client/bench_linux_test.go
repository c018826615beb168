package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"flow/builtins/engine/simengine"
	"flow/workflows/plan"
	"flow/workflows/record"

	"golang.org/x/sys/unix"
)

// The test binary is the engine when it is called so: the engine of a benchmark must not share our
// processor time.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "sim-engine" {
		os.Exit(simengine.Main(os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

func processorTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// engine starts the embedded engine as a process and gives its address.
func engine(b *testing.B, args ...string) string {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(exe, append([]string{"sim-engine", "serve", "--port", "0"}, args...)...)
	out, err := cmd.StderrPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGTERM)
		_ = cmd.Wait()
	})
	in := bufio.NewReader(out)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		if _, url, ok := strings.Cut(line, "listening on "); ok {
			go func() { _, _ = in.WriteTo(discard{}) }()
			return strings.TrimSpace(url)
		}
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// truths is the time before each write, by request name.
func truths(b *testing.B, file string) map[string][]int64 {
	b.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	out := map[string][]int64{}
	for line := range bytes.Lines(data) {
		var w struct {
			Prompt string `json:"prompt"`
			Before int64  `json:"before_ns"`
		}
		if err := json.Unmarshal(line, &w); err != nil {
			b.Fatal(err)
		}
		out[w.Prompt] = append(out[w.Prompt], w.Before)
	}
	return out
}

// errorsOf compares arrivals (ns) with the truth and reports p50 and p99 in microseconds.
func errorsOf(b *testing.B, arrivals, truth map[string][]int64) {
	b.Helper()
	var errs []int64
	for name, at := range arrivals {
		want := truth[name]
		if len(want) < len(at) {
			b.Fatalf("%s: %d arrivals of %d writes", name, len(at), len(want))
		}
		for i, ns := range at {
			errs = append(errs, ns-want[i])
		}
	}
	slices.SortFunc(errs, cmp.Compare[int64])
	at := func(p float64) float64 { return float64(errs[int(p*float64(len(errs)-1))]) / 1000 }
	b.ReportMetric(at(.5), "p50-µs")
	b.ReportMetric(at(.99), "p99-µs")
}

// BenchmarkStreams is the cost and the stamp error of streams at 100 frames a second each, beside a plain
// loop of epoll and read that parses nothing. The engine is another process. Processor time includes the
// kernel's part of it.
func BenchmarkStreams(b *testing.B) {
	const tokens = 200
	for _, streams := range []int{1, 32, 256} {
		for _, how := range []string{"client", "raw"} {
			b.Run(fmt.Sprintf("%s/%d", how, streams), func(b *testing.B) {
				file := filepath.Join(b.TempDir(), "truth.jsonl")
				url := engine(b, "--truth", file, "--prefill-tok-s", "1000000")
				var frames int
				var spent time.Duration
				arrivals := map[string][]int64{}
				round := 0
				for b.Loop() {
					round++
					var ps []Prompt
					for i := range streams {
						ps = append(ps, Prompt{Index: i, Nonce: fmt.Sprintf("r%d-%d", round, i), Text: "x", MaxTokens: tokens})
					}
					before := processorTime()
					if how == "raw" {
						frames += raw(b, url, ps, arrivals)
					} else {
						frames += whole(b, url, ps, arrivals)
					}
					spent += processorTime() - before
				}
				b.ReportMetric(spent.Seconds()/float64(frames)*1e6, "cpu-s/Mframe")
				b.ReportMetric(0, "ns/op")
				errorsOf(b, arrivals, truths(b, file))
			})
		}
	}
}

func whole(b *testing.B, url string, ps []Prompt, arrivals map[string][]int64) (frames int) {
	c := New(Options{API: plan.API{Kind: plan.APIChat}, BaseURL: url, Now: monotonic})
	defer c.Close()
	for i, r := range c.Run(context.Background(), ps, len(ps)) {
		if r.Status != "ok" {
			b.Fatalf("%s: %q", r.Status, r.Error)
		}
		at := *r.SentNS / 1000 * 1000
		for _, us := range r.ArrivalsUS {
			at += us * 1000
			arrivals[ps[i].Nonce] = append(arrivals[ps[i].Nonce], at)
		}
		frames += r.Frames
	}
	return frames
}

// raw reads the same streams with one thread, epoll and read; a frame ends with an empty line.
func raw(b *testing.B, url string, ps []Prompt, arrivals map[string][]int64) (frames int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ep, err := unix.EpollCreate1(0)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(ep)
	o := Options{API: plan.API{Kind: plan.APIChat}, BaseURL: url}
	base, err := o.base()
	if err != nil {
		b.Fatal(err)
	}
	names := map[int32]string{}
	for _, p := range ps {
		body, err := o.body(p)
		if err != nil {
			b.Fatal(err)
		}
		message, err := o.request(base, "/v1/chat/completions", body)
		if err != nil {
			b.Fatal(err)
		}
		conn, err := net.Dial("tcp", base.Host)
		if err != nil {
			b.Fatal(err)
		}
		file, err := conn.(*net.TCPConn).File()
		if err != nil {
			b.Fatal(err)
		}
		defer file.Close()
		_ = conn.Close()
		fd := int(file.Fd())
		names[int32(fd)] = p.Nonce
		if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			b.Fatal(err)
		}
		if _, err := unix.Write(fd, message); err != nil {
			b.Fatal(err)
		}
	}
	buf := make([]byte, readSize)
	events := make([]unix.EpollEvent, 64)
	for open := len(ps); open > 0; {
		n, err := unix.EpollWait(ep, events, -1)
		if err != nil && err != unix.EINTR {
			b.Fatal(err)
		}
		for _, e := range events[:max(n, 0)] {
			got, err := unix.Read(int(e.Fd), buf)
			at := monotonic()
			if err != nil {
				b.Fatal(err)
			}
			text := buf[:got]
			over := bytes.HasSuffix(text, []byte("0\r\n\r\n")) // the truth is on file before it
			for range bytes.Count(text, []byte("data: {")) {
				arrivals[names[e.Fd]] = append(arrivals[names[e.Fd]], at)
				frames++
			}
			if over {
				_ = unix.EpollCtl(ep, unix.EPOLL_CTL_DEL, int(e.Fd), nil)
				open--
			}
		}
	}
	return frames
}

// BenchmarkLongStream holds the cost of a frame flat: 32,768 frames of one answer against 1,024, without a
// socket.
func BenchmarkLongStream(b *testing.B) {
	for _, n := range []int{1024, 32768} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			frame := []byte(chunked(chatFrame(" word")))
			head := []byte(sseHead)
			b.ReportAllocs()
			for b.Loop() {
				a := newAnswer(plan.APIChat, record.Request{})
				r := &response{onHeaders: a.headers, onPayload: a.payload}
				_ = r.feed(head, stamp{})
				for i := range n {
					if err := r.feed(frame, stamp{ns: int64(i)}); err != nil {
						b.Fatal(err)
					}
				}
				if got := a.finish(nil); got.Frames != n {
					b.Fatalf("got %d frames", got.Frames)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/frame")
		})
	}
}
