package client

// The clients that the benchmarks compare. Each runs as a process of its own, the test binary again or a C
// program, so that processor time and memory are its own.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"flow/workflows/plan"

	"golang.org/x/sys/unix"
)

// reading is what a reader is asked for: streams answers of tokens tokens each, whose prompts begin with
// name-0, name-1, …
type reading struct {
	url             string
	streams, tokens int
	name            string
}

func (r reading) prompts() (ps []Prompt) {
	for i := range r.streams {
		ps = append(ps, Prompt{Index: i, Nonce: fmt.Sprintf("%s-%d", r.name, i), Text: "x", MaxTokens: r.tokens})
	}
	return ps
}

// message is a request as flow writes it.
func (r reading) message(p Prompt) (host string, message []byte, err error) {
	o := Options{API: plan.API{Kind: plan.APIChat}, BaseURL: r.url}
	base, err := o.base()
	if err != nil {
		return "", nil, err
	}
	body, err := o.body(p)
	if err != nil {
		return "", nil, err
	}
	message, err = o.request(base, "/v1/chat/completions", body)
	return base.Host, message, err
}

// arrivals is when the frames of each stream came, by name: CLOCK_MONOTONIC, ns.
type arrivals map[string][]int64

// reader reads all streams of r at once. coalesced is the frames that came in one read with the one before; -1
// where the reader does not know.
type reader func(r reading) (at arrivals, coalesced int, err error)

// readers by name. "flow" is the client as it measures; "flow-user" is the same on a system without kernel
// stamps; "raw" is a loop of epoll and read in Go that parses nothing; the others are how clients are
// usually written.
func readers() map[string]reader {
	return map[string]reader{
		"flow":       func(r reading) (arrivals, int, error) { return readFlow(r, true) },
		"flow-user":  func(r reading) (arrivals, int, error) { return readFlow(r, false) },
		"raw":        readRaw,
		"http-parse": func(r reading) (arrivals, int, error) { return readHTTP(r, false) },
		"http-read":  func(r reading) (arrivals, int, error) { return readHTTP(r, true) },
	}
}

// readerMain is the process of a reader: HOW URL STREAMS TOKENS NAME FILE, and in front of them "cpu=N" to stay
// on one. It prints what reader.c prints, and the coalesced frames.
func readerMain(args []string) int {
	err := func() error {
		if on, ok := strings.CutPrefix(args[0], "cpu="); ok {
			n, err := strconv.Atoi(on)
			if err != nil {
				return err
			}
			if _, err := Pin([]int{n}); err != nil {
				return err
			}
			args = args[1:]
		}
		r := reading{url: args[1], name: args[4]}
		var err error
		if r.streams, err = strconv.Atoi(args[2]); err != nil {
			return err
		}
		if r.tokens, err = strconv.Atoi(args[3]); err != nil {
			return err
		}
		runtime.GC()
		before := processorTime()
		at, coalesced, err := readers()[args[0]](r)
		spent := processorTime() - before
		if err != nil {
			return err
		}
		most := mostResident()
		frames := 0
		var out bytes.Buffer
		for name, ns := range at {
			out.WriteString(name)
			for _, n := range ns {
				out.WriteByte(' ')
				out.WriteString(strconv.FormatInt(n, 10))
			}
			out.WriteByte('\n')
			frames += len(ns)
		}
		fmt.Println(frames, spent.Nanoseconds(), most, coalesced)
		return os.WriteFile(args[5], out.Bytes(), 0o600)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// mostResident is the largest resident set in KiB. ru_maxrss remembers the process that started this one.
func mostResident() (kib int64) {
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := bytes.Cut(status, []byte("VmHWM:"))
	_, _ = fmt.Sscan(string(after), &kib)
	return kib
}

func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

func processorTime() time.Duration {
	d, _ := processorTimeNow()
	return d
}

// readFlow is the client, its watch on itself included.
func readFlow(r reading, kernel bool) (arrivals, int, error) {
	c := New(Options{API: plan.API{Kind: plan.APIChat}, BaseURL: r.url, Now: monotonic})
	defer c.Close()
	if !kernel {
		withoutKernel(c)
	}
	ps := r.prompts()
	at, coalesced := arrivals{}, 0
	rows, _ := c.Load(context.Background(), ps, LoadOptions{Concurrency: len(ps)})
	for i, row := range rows {
		if row.Status != statusOK {
			return nil, 0, fmt.Errorf("%s: %s", row.Status, row.Error)
		}
		if kernel && row.StampSource != "kernel" {
			return nil, 0, fmt.Errorf("%d reads have stamps of %q, warnings %q", row.Reads, row.StampSource, row.Warnings)
		}
		var ns []int64
		t := *row.SentNS / 1000 * 1000
		for _, us := range row.ArrivalsUS {
			t += us * 1000
			ns = append(ns, t)
		}
		at[ps[i].Nonce] = ns
		coalesced += row.Coalesced
	}
	return at, coalesced, nil
}

// readRaw is one thread, epoll and read; a frame is where one begins.
func readRaw(r reading) (arrivals, int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ep, err := unix.EpollCreate1(0)
	if err != nil {
		return nil, 0, err
	}
	defer unix.Close(ep)
	of := map[int32]string{}
	at := arrivals{}
	for _, p := range r.prompts() {
		host, message, err := r.message(p)
		if err != nil {
			return nil, 0, err
		}
		conn, err := net.Dial("tcp", host)
		if err != nil {
			return nil, 0, err
		}
		file, err := conn.(*net.TCPConn).File()
		if err != nil {
			return nil, 0, err
		}
		defer file.Close()
		_ = conn.Close()
		fd := int(file.Fd())
		of[int32(fd)] = p.Nonce
		at[p.Nonce] = make([]int64, 0, r.tokens+8)
		if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return nil, 0, err
		}
		if _, err := unix.Write(fd, message); err != nil {
			return nil, 0, err
		}
	}
	buf := make([]byte, readSize)
	events := make([]unix.EpollEvent, 64)
	for open := r.streams; open > 0; {
		n, err := unix.EpollWait(ep, events, -1)
		if err != nil && err != unix.EINTR {
			return nil, 0, err
		}
		for _, e := range events[:max(n, 0)] {
			got, err := unix.Read(int(e.Fd), buf)
			now := monotonic()
			if err != nil {
				return nil, 0, err
			}
			for range bytes.Count(buf[:got], []byte("data: {")) {
				at[of[e.Fd]] = append(at[of[e.Fd]], now)
			}
			if bytes.HasSuffix(buf[:got], []byte("0\r\n\r\n")) {
				_ = unix.EpollCtl(ep, unix.EPOLL_CTL_DEL, int(e.Fd), nil)
				open--
			}
		}
	}
	return at, -1, nil
}

// stampedConn remembers when its last read returned.
type stampedConn struct {
	net.Conn
	at *int64
}

func (c stampedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	*c.at = monotonic()
	return n, err
}

// readHTTP is net/http, a scanner and encoding/json, one goroutine a stream; the stamp is taken after
// parsing or at the last read of the socket.
func readHTTP(r reading, atRead bool) (arrivals, int, error) {
	at := arrivals{}
	var mu sync.Mutex
	var first error
	var all sync.WaitGroup
	for _, p := range r.prompts() {
		all.Go(func() {
			ns, err := readOneHTTP(r, p, atRead)
			mu.Lock()
			defer mu.Unlock()
			at[p.Nonce] = ns
			if first == nil {
				first = err
			}
		})
	}
	all.Wait()
	return at, -1, first
}

func readOneHTTP(r reading, p Prompt, atRead bool) ([]int64, error) {
	base, err := url.Parse(r.url)
	if err != nil {
		return nil, err
	}
	body, err := (Options{API: plan.API{Kind: plan.APIChat}}).body(p)
	if err != nil {
		return nil, err
	}
	var last int64
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, base.Host)
		return stampedConn{conn, &last}, err
	}}
	resp, err := (&http.Client{Transport: transport}).Post(r.url+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	ns := make([]int64, 0, r.tokens+8)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok || data[0] != '{' {
			continue
		}
		var frame struct {
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
		}
		if err := json.Unmarshal(data, &frame); err != nil {
			return nil, err
		}
		if t := monotonic(); atRead {
			ns = append(ns, last) // the transport's goroutine may be in its next read: that is this reader's fault
		} else {
			ns = append(ns, t)
		}
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return ns, lines.Err()
}
