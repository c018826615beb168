package ui

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"flow/workflows/record"
)

func ptr[T any](v T) *T { return &v }

// buffer is a stream that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func group() *record.Group {
	return &record.Group{ID: "g1", Name: "ubatch-1024", Role: "screen", Primary: "decode_tok_s", Cap: 4, WallStartNS: 1e9}
}

func arm(label string, slot int, disposition string, tokS float64) *record.Arm {
	return &record.Arm{
		ID: "a", Label: label, Slot: slot, Purpose: "measured", Disposition: disposition, MonoStartNS: 1e9, MonoEndNS: 13300e6,
		Metrics: []record.Metric{{Name: "decode_tok_s", Unit: "tok/s", Value: &tokS}, {Name: "ttft_ms", Why: "nothing came"}},
	}
}

// session sends the events of a small group.
func session(l *Live) {
	g := group()
	l.Event(record.Event{Kind: "group.start", Group: g.Name, GroupOf: g})
	for i, a := range []*record.Arm{arm("A", 0, "ok", 100), arm("B", 1, "ok", 104.25), arm("B", 2, "invalid", 104)} {
		if a.Disposition != "ok" {
			a.Reason = "gate no-swap-growth:\n swap grew by 12 MiB"
		}
		l.Event(record.Event{Kind: "arm.start", Group: g.Name, Arm: a.Label, ArmOf: a, GroupOf: g})
		l.Event(record.Event{Kind: "arm.step", Group: g.Name, Arm: a.Label, Text: "measure", ArmOf: a})
		g.Arms = append(g.Arms, a)
		l.Event(record.Event{Kind: "arm.end", Group: g.Name, Arm: a.Label + string(rune('1'+i)), ArmOf: a, GroupOf: g})
	}
	l.Event(record.Event{Kind: "warning", Group: g.Name, Text: "two runs: an observed range, not an interval"})
	l.Event(record.Event{Kind: "print", Arm: "x.star:3:2", Text: "hello"})
	g.Verdict, g.WallEndNS = "better", ptr(int64(113e9))
	g.Comparisons = []record.Comparison{{Side: "B", Control: "A", Metric: "decode_tok_s", Verdict: "better", Estimate: &record.Estimate{Effect: .0425, Low: ptr(.031), High: ptr(.0541), Level: .95}}}
	l.Event(record.Event{Kind: "group.end", Group: g.Name, GroupOf: g})
}

func plain() (int, bool) { return 80, false }

func TestPlainLines(t *testing.T) {
	var out, err buffer
	l := New(&out, &err, Options{Size: plain})
	session(l)
	l.Close()
	want := `ubatch-1024: begins, screen, at most 4 blocks
ubatch-1024: arm A1, block 1: ok in 12.3s, decode_tok_s 100 tok/s
ubatch-1024: arm B2, block 1: ok in 12.3s, decode_tok_s 104.2 tok/s
ubatch-1024: arm B3, block 1: invalid in 12.3s, decode_tok_s 104 tok/s: gate no-swap-growth: swap grew by 12 MiB
warning: ubatch-1024: two runs: an observed range, not an interval
x.star:3:2: hello
ubatch-1024: better, +4.25 % [+3.10, +5.41] decode_tok_s, 2 of 3 arms ok, 36.9s
`
	if got := err.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if out.String() != "" {
		t.Errorf("standard output: %q", out.String())
	}
}

func TestQuiet(t *testing.T) {
	var out, err buffer
	l := New(&out, &err, Options{Quiet: true, Size: func() (int, bool) { return 80, true }})
	session(l)
	if e := l.Result("the table"); e != nil {
		t.Fatal(e)
	}
	l.Close()
	if err.String() != "" || out.String() != "the table\n" {
		t.Errorf("out %q, err %q", out.String(), err.String())
	}
}

func TestJSON(t *testing.T) {
	var out, err buffer
	l := New(&out, &err, Options{JSON: true, Size: plain})
	session(l)
	if e := l.Result("a table"); e != nil {
		t.Fatal(e)
	}
	l.Close()
	if err.String() != "" {
		t.Errorf("standard error: %q", err.String())
	}
	var kinds []string
	d := json.NewDecoder(strings.NewReader(out.String()))
	for d.More() {
		var e struct {
			Kind  string `json:"kind"`
			Group struct {
				Verdict string   `json:"verdict"`
				Effects []effect `json:"effects"`
			} `json:"group_facts"`
			Arm armFacts `json:"arm_facts"`
		}
		if err := d.Decode(&e); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, e.Kind)
		switch e.Kind {
		case "group.end":
			if e.Group.Verdict != "better" || len(e.Group.Effects) != 1 || *e.Group.Effects[0].Low != .031 {
				t.Errorf("group.end: %+v", e.Group)
			}
		case "arm.end":
			if _, there := e.Arm.Metrics["ttft_ms"]; there || e.Arm.Metrics["decode_tok_s"] == 0 || e.Arm.Disposition == "" {
				t.Errorf("arm.end: %+v", e.Arm)
			}
		}
	}
	if len(kinds) != 13 {
		t.Errorf("%d events: %v", len(kinds), kinds)
	}
	if n := strings.Count(out.String(), "\n"); n != len(kinds) {
		t.Errorf("%d lines for %d events", n, len(kinds))
	}
}

// screen plays what was written on a terminal of so many columns and gives its lines. A line that is too
// wide fails the test, because a terminal would wrap it.
func screen(t *testing.T, text string, cols int) []string {
	t.Helper()
	lines := []string{""}
	row := 0
	for len(text) > 0 {
		switch {
		case strings.HasPrefix(text, "\x1b["):
			end := strings.IndexAny(text, "AJKm")
			n := 0
			for _, c := range text[2:end] {
				n = n*10 + int(c-'0')
			}
			switch text[end] {
			case 'A':
				if row -= n; row < 0 {
					t.Fatalf("moved above the screen by %d", -row)
				}
			case 'J':
				lines = append(lines[:row:row], "")
			}
			text = text[end+1:]
			continue
		case text[0] == '\n':
			row++
			if row == len(lines) {
				lines = append(lines, "")
			}
		case text[0] == '\r':
		default:
			lines[row] += text[:1]
			if n := len([]rune(lines[row])); n > cols {
				t.Errorf("line of %d columns: %q", n, lines[row])
			}
		}
		text = text[1:]
	}
	return lines
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

func TestLiveView(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	var out, err buffer
	var mu sync.Mutex
	now, cols := time.Unix(1000, 0), 100
	l := New(&out, &err, Options{
		Size:  func() (int, bool) { mu.Lock(); defer mu.Unlock(); return cols, true },
		Now:   func() time.Time { mu.Lock(); defer mu.Unlock(); return now },
		Every: time.Millisecond,
	})
	g := group()
	a := arm("A", 0, "ok", 100)
	l.Event(record.Event{Kind: "group.start", Group: g.Name, GroupOf: g})
	l.Event(record.Event{Kind: "arm.start", Group: g.Name, Arm: "A", ArmOf: a, GroupOf: g})
	g.Arms = append(g.Arms, a)
	l.Event(record.Event{Kind: "arm.end", Group: g.Name, Arm: "A1", ArmOf: a, GroupOf: g})
	b := arm("B", 1, "", 0)
	l.Event(record.Event{Kind: "arm.start", Group: g.Name, Arm: "B", ArmOf: b, GroupOf: g})
	l.Event(record.Event{Kind: "arm.step", Group: g.Name, Arm: "B", Text: "measure", ArmOf: b})
	mu.Lock()
	now = now.Add(2300 * time.Millisecond)
	mu.Unlock()
	// 15 arms of 12.3 s are left after the first, less what this one has run.
	var row string
	eventually(t, "the view", func() bool {
		s := screen(t, err.String(), cols)
		row = s[0]
		return strings.Contains(row, "measure 2.3s")
	})
	sep := " | "
	if l.look.Unicode {
		sep = " · "
	}
	if want := strings.Join([]string{"ubatch-1024", "block 1/4", "arm B measure 2.3s", "at most 3m02s left", "2.3s elapsed"}, sep); row != want {
		t.Errorf("got  %q\nwant %q", row, want)
	}
	// A narrower terminal cuts the line instead of wrapping it.
	mu.Lock()
	cols = 40
	mu.Unlock()
	eventually(t, "the cut line", func() bool {
		s := screen(t, err.String(), 100)
		row = s[0]
		return len([]rune(row)) == 39 && strings.HasSuffix(row, "...")
	})
	mu.Lock()
	cols = 100
	mu.Unlock()
	// A result goes to standard output with the view erased; verdicts stay; nothing else is left.
	if e := l.Result("| table |"); e != nil {
		t.Fatal(e)
	}
	b.Disposition = "failed"
	b.Reason = "the engine died"
	l.Event(record.Event{Kind: "arm.end", Group: g.Name, Arm: "B2", ArmOf: b, GroupOf: g})
	g.Verdict = "inconclusive"
	l.Event(record.Event{Kind: "group.end", Group: g.Name, GroupOf: g})
	eventually(t, "the last verdict", func() bool { return strings.Contains(err.String(), "last: ubatch-1024: inconclusive") })
	l.Close()
	got := strings.Join(screen(t, err.String(), 100), "\n")
	want := "ubatch-1024: arm B2, block 1: failed in 12.3s, decode_tok_s 0 tok/s: the engine died\nubatch-1024: inconclusive, 1 of 1 arm ok, 12.3s\n"
	if got != want {
		t.Errorf("left on the screen:\n%s\nwant\n%s", got, want)
	}
	if out.String() != "| table |\n" {
		t.Errorf("standard output: %q", out.String())
	}
	if strings.Contains(err.String(), "\x1b[3") {
		t.Error("colour in spite of NO_COLOR")
	}
}

// stuck is a stream that takes nothing until it is let go.
type stuck struct {
	free chan struct{}
	n    int
}

func (s *stuck) Write(p []byte) (int, error) { <-s.free; s.n++; return len(p), nil }

// A terminal that takes nothing must not hold an arm: events are dropped and counted.
func TestNeverBlocks(t *testing.T) {
	for _, o := range []Options{{Size: plain}, {JSON: true, Size: plain}, {Size: func() (int, bool) { return 80, true }, Every: time.Millisecond}} {
		s := &stuck{free: make(chan struct{})}
		o.Queue = 8
		l := New(s, s, o)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for range 1000 {
				l.Event(record.Event{Kind: "warning", Text: "x"})
			}
		}()
		select {
		case <-sent:
		case <-time.After(10 * time.Second):
			t.Fatal("events waited for the stream")
		}
		if n := l.dropped.Load(); n < 900 {
			t.Errorf("%d dropped of 1000 with a queue of 8", n)
		}
		close(s.free)
		l.Close()
		l.Event(record.Event{Kind: "warning", Text: "late"}) // ignored, not a panic
		l.Close()
	}
}

// What an event points to may change as soon as Event returns; run with -race.
func TestCopiesAtOnce(t *testing.T) {
	var out buffer
	l := New(&out, io.Discard, Options{JSON: true, Size: plain})
	g, a := group(), arm("A", 0, "ok", 1)
	for i := range 200 {
		l.Event(record.Event{Kind: "arm.end", ArmOf: a, GroupOf: g})
		a.Reason = strings.Repeat("x", i%7)
		a.Metrics = append(a.Metrics[:1:1], record.Metric{Name: "x", Value: ptr(1.0)})
		*a.Metrics[0].Value++
		g.Arms = append(g.Arms, a)
		g.Comparisons = append(g.Comparisons, record.Comparison{})
	}
	l.Close()
}

func TestBlockArms(t *testing.T) {
	for order, want := range map[string]int{"": 4, "ABBA": 4, "BAAB": 4, "ABBABAAB": 4, "AB": 2, "ABAB": 4, "ABABAB": 6, "U S1 U S2 U S3 S3 U S2 U S1 U": 12, "U S1 S1 U": 4} {
		if got := blockArms(order); got != want {
			t.Errorf("%q: %d, want %d", order, got, want)
		}
	}
}

func TestLook(t *testing.T) {
	env := func(kv ...string) func(string) string {
		return func(k string) string {
			for i := 0; i < len(kv); i += 2 {
				if kv[i] == k {
					return kv[i+1]
				}
			}
			return ""
		}
	}
	cols := func() int { return 132 }
	for _, tt := range []struct {
		tty  bool
		env  func(string) string
		want Look
	}{
		{true, env("TERM", "xterm", "LANG", "C.UTF-8"), Look{132, true, true, true}},
		{true, env("TERM", "xterm", "LANG", "en_US.UTF-8", "LC_ALL", "C"), Look{132, true, true, false}},
		{true, env("TERM", "xterm", "NO_COLOR", "1"), Look{132, true, false, false}},
		{true, env("TERM", "xterm", "NO_COLOR", ""), Look{132, true, true, false}},
		{true, env("TERM", "dumb"), Look{132, false, false, false}},
		{true, env(), Look{132, false, false, false}},
		{false, env("TERM", "xterm", "LC_CTYPE", "de_DE.utf8"), Look{80, false, false, true}},
	} {
		if got := lookOf(tt.tty, cols, tt.env); got != tt.want {
			t.Errorf("got %+v, want %+v", got, tt.want)
		}
	}
}

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{-1: "0s", 850e6: "850ms", 12345e6: "12.3s", 59990e6: "59.9s", 112e9: "1m52s", 11070e9: "3h04m"} {
		if got := dur(d); got != want {
			t.Errorf("%v: %s, want %s", int64(d), got, want)
		}
	}
	for x, want := range map[float64]string{.0206: "+2.06", -.151: "-15.1", 0: "+0.00", .09996: "+10.0", 2: "+200.0"} {
		if got := pct(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
	for _, tt := range []struct {
		s    string
		cols int
		want string
	}{{"abcdef", 6, "abcdef"}, {"abcdefg", 6, "abc..."}, {"a\x1b[2Jb", 10, "a [2Jb"}, {"abc", 0, ""}, {"abcd", 2, "ab"}, {"日本語です", 7, "日本..."}} {
		if got := cut(tt.s, tt.cols); got != tt.want {
			t.Errorf("cut %q to %d: %q, want %q", tt.s, tt.cols, got, tt.want)
		}
	}
}

// Where the line is too long, whole parts of it go: no word is cut in the middle, and the step stays.
func TestViewFits(t *testing.T) {
	g := group()
	g.Name = "screen a-lever-with-a-long-name"
	now := time.Unix(100, 0)
	s := state{began: now.Add(-6 * time.Second), stepAt: now.Add(-4500 * time.Millisecond), armAt: now.Add(-5 * time.Second), step: "measure", secs: []float64{12}}
	s.group = groupOf(record.Event{GroupOf: g})
	s.arm = armOf(record.Event{ArmOf: arm("B", 1, "", 0)})
	for cols, want := range map[int][]string{
		200: {"screen a-lever-with-a-long-name", "measure 4.5s", "at most", "6.0s elapsed"},
		79:  {"screen a-lever-with-a-long-name", "measure 4.5s", " left"},
		60:  {"...", "measure 4.5s"},
	} {
		line := s.view(now, false, cols)[0]
		if len(line) > cols || strings.HasSuffix(line, "...") {
			t.Errorf("at %d: got %q, %d columns", cols, line, len(line))
		}
		for _, w := range want {
			if !strings.Contains(line, w) {
				t.Errorf("at %d: %q is not in %q", cols, w, line)
			}
		}
	}
}
