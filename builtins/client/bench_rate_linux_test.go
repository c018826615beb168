package client

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// BenchmarkFrameRate is the most frames a second that one core takes, each a write of its own: 32 streams as
// fast as the engine writes, the reader on one core. frames/cpu-s is what the reader would do if the engine
// kept that core busy; "share-%" is that of the raw loop of the same round. "burst" is the other extreme:
// frames that lie in the socket by the hundred, where the raw loop only looks for where they begin and the
// client reads their JSON.
func BenchmarkFrameRate(b *testing.B) {
	for _, shape := range []string{"writes", "burst"} {
		b.Run(shape, func(b *testing.B) {
			rate := map[string]float64{}
			rounds := 0
			for b.Loop() {
				rounds++
				for _, how := range []string{"raw", "flow"} {
					frames, cpu, wall := flood(b, how, shape)
					rate[how] += float64(frames) / cpu.Seconds()
					rate[how+" wall"] += float64(frames) / wall.Seconds()
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(rate["flow"]/float64(rounds), "frames/cpu-s")
			b.ReportMetric(rate["raw"]/float64(rounds), "raw-frames/cpu-s")
			b.ReportMetric(rate["flow wall"]/float64(rounds), "frames/s")
			b.ReportMetric(100*rate["flow"]/rate["raw"], "share-%")
		})
	}
}

// flood runs a reader on one core against a server that does not pause.
func flood(b *testing.B, how, shape string) (frames int, cpu, wall time.Duration) {
	b.Helper()
	var url string
	var end func()
	streams, tokens := 32, 2000
	if shape == "burst" {
		streams, tokens = 1, burstFrames
		url, end = answerer(b)
	} else {
		url, end = engine(b, "--decode-tok-s", "1000000000", "--prefill-tok-s", "1000000000")
	}
	defer end()
	cmd := again(b, "reader", "cpu=0", how, url, strconv.Itoa(streams), strconv.Itoa(tokens), "r", filepath.Join(b.TempDir(), "arrivals"))
	began := time.Now()
	out, err := cmd.Output()
	wall = time.Since(began)
	if err != nil {
		b.Fatal(err)
	}
	var spent int64
	if _, err := fmt.Sscan(string(out), &frames, &spent); err != nil || frames < streams*tokens*999/1000 { // raw misses a frame that is cut just there
		b.Fatalf("%s said %q, want %d frames", how, out, streams*tokens)
	}
	return frames, time.Duration(spent), wall
}

const (
	connections = 64
	burstFrames = 400_000
)

// BenchmarkRequests is requests a second without streams, over kept connections, beside wrk with one thread
// against the same server in the same round. Debian's package is wrk.
func BenchmarkRequests(b *testing.B) {
	wrk, err := exec.LookPath("wrk")
	if err != nil {
		b.Skip("wrk is not here: apt-get install wrk")
	}
	url, end := answerer(b)
	defer end()
	o := Options{API: plan.API{Kind: plan.APIChat}, BaseURL: url, Now: monotonic}
	prompt := Prompt{Text: "x", MaxTokens: 1, Body: `{"stream": false, "stream_options": null}`}
	body, err := o.body(prompt)
	if err != nil {
		b.Fatal(err)
	}
	script := filepath.Join(b.TempDir(), "post.lua")
	lua := fmt.Sprintf("wrk.method = \"POST\"\nwrk.headers[\"Content-Type\"] = \"application/json\"\nwrk.body = %q\n", body)
	if err := os.WriteFile(script, []byte(lua), 0o600); err != nil {
		b.Fatal(err)
	}
	var ours, theirs float64
	rounds := 0
	for b.Loop() {
		rounds++
		out, err := exec.Command(wrk, "-t1", fmt.Sprintf("-c%d", connections), "-d2s", "-s", script, url+"/v1/chat/completions").CombinedOutput()
		if err != nil {
			b.Fatalf("wrk: %v\n%s", err, out)
		}
		var rate float64
		if _, after, ok := strings.Cut(string(out), "Requests/sec:"); ok {
			_, _ = fmt.Sscan(after, &rate)
		}
		if rate == 0 || bytes.Contains(out, []byte("Non-2xx")) {
			b.Fatalf("wrk said\n%s", out)
		}
		theirs += rate
		c := New(o)
		began := time.Now()
		n := 0
		for time.Since(began) < 2*time.Second {
			ps := make([]Prompt, 2000)
			for i := range ps {
				ps[i] = prompt
			}
			for _, r := range c.Run(context.Background(), ps, connections) {
				if r.Status != statusOK {
					b.Fatalf("%s: %s", r.Status, r.Error)
				}
				n++
			}
		}
		ours += float64(n) / time.Since(began).Seconds()
		c.Close()
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ours/float64(rounds), "requests/s")
	b.ReportMetric(theirs/float64(rounds), "wrk-requests/s")
	b.ReportMetric(100*ours/theirs, "share-%")
}

// answerer starts a server that costs next to nothing.
func answerer(b *testing.B) (url string, end func()) {
	b.Helper()
	cmd := again(b, "answerer")
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	return started(b, cmd, out)
}

// answererMain answers whole requests, one read and one write each: with a stream of burstFrames frames in
// large writes where the request asks for so many tokens, else with one small answer.
func answererMain() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("listening on http://" + l.Addr().String())
	const body = `{"id":"a","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":" word"},"finish_reason":"length"}],"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}`
	small := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	many := strconv.Itoa(burstFrames)
	for {
		conn, err := l.Accept()
		if err != nil {
			return 1
		}
		go func() {
			defer conn.Close()
			buf := make([]byte, readSize)
			for {
				n, err := conn.Read(buf)
				if err != nil {
					return
				}
				if !bytes.Contains(buf[:n], []byte(many)) {
					if _, err := conn.Write(small); err != nil {
						return
					}
					continue
				}
				if _, err := conn.Write([]byte(sseHead)); err != nil {
					return
				}
				const atOnce = 400
				frames := []byte(strings.Repeat(chunked(chatFrame(" word")), atOnce))
				for range burstFrames / atOnce {
					if _, err := conn.Write(frames); err != nil {
						return
					}
				}
				if _, err := conn.Write([]byte(chunked(finishFrame+doneFrame) + lastOne)); err != nil {
					return
				}
			}
		}()
	}
}

// BenchmarkLongStream holds the cost of a frame flat: time, memory that was asked for and memory that an
// answer keeps, for each frame of answers of 1,024, 8,192 and 32,768, without a socket.
func BenchmarkLongStream(b *testing.B) {
	for _, n := range []int{1024, 8192, 32768} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			frame, head := []byte(chunked(chatFrame(" word"))), []byte(sseHead)
			answerOf := func() record.Request {
				a := newAnswer(plan.APIChat, record.Request{SentNS: place(0)})
				r := &response{onHeaders: a.headers, onPayload: a.payload}
				_ = r.feed(head, stamp{})
				for i := range n {
					if err := r.feed(frame, stamp{ns: int64(i)}); err != nil {
						b.Fatal(err)
					}
				}
				return a.finish(nil)
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			row := answerOf()
			runtime.ReadMemStats(&after)
			asked := after.TotalAlloc - before.TotalAlloc
			runtime.GC()
			runtime.ReadMemStats(&after)
			kept := int64(after.HeapAlloc) - int64(before.HeapAlloc)
			spent := processorTime()
			for b.Loop() {
				if got := answerOf(); got.Frames != row.Frames {
					b.Fatalf("got %d frames", got.Frames)
				}
			}
			spent = processorTime() - spent
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N)/float64(n), "cpu-ns/frame")
			b.ReportMetric(float64(asked)/float64(n), "asked-B/frame")
			b.ReportMetric(float64(kept)/float64(n), "kept-B/frame")
			runtime.KeepAlive(row)
		})
	}
}
