package client

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"flow/workflows/plan"
)

// Where the bytes of two frames are cut: a frame's stamp is that of the write which brought its last byte,
// and what comes later, glued to the next thing or not, changes nothing. Pauses are long against any
// machine's lateness, and only the order is asserted.
func TestStampBelongsToTheBytes(t *testing.T) {
	const pause = 30 * time.Millisecond
	one, two := chatFrame("one"), chatFrame("two")
	end := chunked(finishFrame) + chunked(doneFrame) + lastOne
	split := func(s string, at int) (string, string) { return s[:at], s[at:] }
	c1, c2 := chunked(one), chunked(two)
	a, b := split(c1, len(c1)/2)
	inner1, inner2 := split(one, len(one)-1)
	for name, tt := range map[string]struct {
		pieces    []string
		one, two  int // the write whose time the frame gets
		reads     int // at least
		transport string
	}{
		"a chunk each":                {[]string{c1, c2, end}, 0, 1, 3, "chunked"},
		"both in one":                 {[]string{c1 + c2, end}, 0, 0, 2, "chunked"},
		"first cut in the middle":     {[]string{a, b, c2, end}, 1, 2, 4, "chunked"},
		"next size line glued":        {[]string{c1 + c2[:4], c2[4:], end}, 0, 1, 3, "chunked"},
		"next frame's half glued":     {[]string{c1 + c2[:len(c2)/2], c2[len(c2)/2:], end}, 0, 1, 3, "chunked"},
		"chunk's line end late":       {[]string{c1[:len(c1)-2], c1[len(c1)-2:] + c2, end}, 0, 1, 3, "chunked"},
		"frame in two chunks":         {[]string{chunked(inner1), chunked(inner2), c2, end}, 1, 2, 4, "chunked"},
		"line ends in two writes":     {[]string{c1[:len(c1)-3], c1[len(c1)-3:], c2, end}, 1, 2, 4, "chunked"},
		"two frames in one chunk":     {[]string{chunked(one + two), end}, 0, 0, 2, "chunked"},
		"one chunk in two writes":     {[]string{chunked(one + two)[:len(one)+4], chunked(one + two)[len(one)+4:], end}, 0, 1, 3, "chunked"},
		"size line in two writes":     {[]string{c1[:1], c1[1:], c2, end}, 1, 2, 4, "chunked"},
		"until close":                 {[]string{one, two, finishFrame + doneFrame}, 0, 1, 3, "close"},
		"known length, cut":           {[]string{one[:9], one[9:] + two[:9], two[9:], finishFrame + doneFrame}, 1, 2, 4, "length"},
		"cr lf, cut between":          {[]string{crlf(one, -1), "\n" + crlf(two, 0), crlf(finishFrame+doneFrame, 0)}, 0, 1, 3, "close"},
		"comment between":             {[]string{c1, chunked(": keep-alive\n\n"), c2, end}, 0, 2, 4, "chunked"},
		"head and first frame in one": {[]string{c1, c2, end}, 0, 1, 3, "glued"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			head := sseHead
			switch tt.transport {
			case "close":
				head = "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
			case "length":
				head = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n", len(strings.Join(tt.pieces, "")))
			}
			pieces := []piece{{0, head}}
			if tt.transport == "glued" {
				tt.pieces[0], pieces = head+tt.pieces[0], nil
			}
			for _, p := range tt.pieces {
				pieces = append(pieces, piece{pause, p})
			}
			now := clock()
			s := script(t, now, false, pieces...)
			c := New(Options{API: plan.API{Kind: plan.APIChat}, BaseURL: s.url(), Now: now, Timeout: 10 * time.Second})
			defer c.Close()
			r := ask(t, c, Prompt{Text: "x"})
			if r.Status != "ok" || r.Text != "onetwo" || r.ContentFrames != 2 {
				t.Fatalf("got %s %q, text %q", r.Status, r.Error, r.Text)
			}
			if got, want := r.Coalesced == 1, tt.one == tt.two; got != want {
				t.Errorf("got %d coalesced frames, want %t", r.Coalesced, want)
			}
			if r.Reads < tt.reads {
				t.Errorf("got %d reads, want %d and more", r.Reads, tt.reads)
			}
			s.mu.Lock()
			writes := slices.Clone(s.writes)
			s.mu.Unlock()
			offset := len(pieces) - len(tt.pieces)
			for _, f := range []struct {
				name string
				at   int64
				by   int
			}{{"one", *r.FirstContentNS, tt.one + offset}, {"two", *r.LastContentNS, tt.two + offset}} {
				late := time.Duration(f.at - writes[f.by])
				if late < -time.Millisecond {
					t.Errorf("frame %s is stamped %s before write %d began", f.name, -late, f.by)
				}
				if f.by+1 < len(writes) && f.at >= writes[f.by+1] {
					t.Errorf("frame %s has the stamp of a later write: %s after its own", f.name, late)
				}
			}
		})
	}
}

// crlf turns line ends into CR LF and leaves off the last bytes of it.
func crlf(s string, less int) string {
	s = strings.ReplaceAll(s, "\n", "\r\n")
	return s[:len(s)+less]
}
