// Package ui shows a session that is going on and holds the rules of output, so that every verb follows
// the same ones:
//
//  1. Results go to standard output, everything else to standard error: `flow run x.star > result.txt`
//     keeps the table and nothing else.
//  2. Where standard error is a terminal, what is going on is a few lines that are redrawn in place; what
//     should stay (verdicts, arms that do not count, warnings, prints) scrolls above them.
//  3. Elsewhere there is one line per arm and per group, without escape sequences: logs stay readable.
//  4. Colour is for terminals, and never with NO_COLOR or TERM=dumb. It repeats what the words say.
//  5. --quiet shows results only. --json writes events to standard output as JSON lines, and no text there.
//  6. An arm never waits for a terminal. Events pass through a buffer; when it is full they are dropped
//     and counted, and the count is said at the end. What is recorded is not touched by that.
//  7. A redrawn line never exceeds the width and never wraps, so that redrawing leaves nothing behind.
//
// The package knows facts and nothing else: it never asks a database, and never the runner.
package ui

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"flow/workflows/record"
)

// Options say how to show. The zero value asks the streams.
type Options struct {
	Quiet bool                        // nothing but results
	JSON  bool                        // events as JSON lines on standard output
	Size  func() (cols int, tty bool) // of standard error; asked again before each redraw. nil asks the stream
	Now   func() time.Time            // nil is time.Now
	Every time.Duration               // between redraws; 100 ms when zero
	Queue int                         // events kept while the terminal is slow; 1024 when zero
}

// Live shows what goes on. It implements the runner's Watcher.
type Live struct {
	out, err io.Writer
	o        Options
	look     Look
	queue    chan note
	stop     chan struct{}
	done     chan struct{}
	once     sync.Once
	dropped  atomic.Int64
	closed   atomic.Bool

	mu    sync.Mutex // guards the streams and what follows
	state state
	drawn int // lines of the live view on the screen
}

// note is an event after what is needed was copied out of it: the records that an event points to go on
// changing while it waits in the queue.
type note struct {
	e    record.Event // without its pointers
	json []byte
	at   time.Time
	g    *groupFacts
	a    *armFacts
}

// New starts a live view. Results go to out, progress to err.
func New(out, err io.Writer, o Options) *Live {
	l := &Live{out: out, err: err, o: o, look: LookOf(err), stop: make(chan struct{}), done: make(chan struct{})}
	if o.Now == nil {
		l.o.Now = time.Now
	}
	if o.Every == 0 {
		l.o.Every = 100 * time.Millisecond
	}
	if o.Queue == 0 {
		l.o.Queue = 1024
	}
	if o.Size == nil {
		l.o.Size = func() (int, bool) { return l.look.Width, l.look.Terminal }
		if f := fileOf(err); f != nil && l.look.Terminal {
			l.o.Size = func() (int, bool) { return columns(f), true }
		}
	}
	if cols, tty := l.o.Size(); o.Size != nil {
		l.look = Look{Width: cols, Terminal: tty, Unicode: l.look.Unicode, Color: l.look.Color && tty}
	}
	l.queue = make(chan note, l.o.Queue)
	l.state.began = l.o.Now()
	go l.loop()
	return l
}

// Event takes one event. It copies what it needs and never waits.
func (l *Live) Event(e record.Event) {
	if l.closed.Load() || (l.o.Quiet && !l.o.JSON) {
		return
	}
	n := l.copyOf(e)
	select {
	case l.queue <- n:
	default:
		l.dropped.Add(1)
	}
}

// copyOf takes from an event what may change later.
func (l *Live) copyOf(e record.Event) note {
	n := note{at: l.o.Now(), g: groupOf(e), a: armOf(e)}
	if l.o.JSON {
		n.json = marshal(e, n.g, n.a)
	}
	e.GroupOf, e.ArmOf = nil, nil
	n.e = e
	return n
}

// Result writes text of a result to standard output, with the live view out of the way. Unlike Event it
// waits for the stream. With --json it writes nothing: the events say it.
func (l *Live) Result(text string) error {
	if l.o.JSON {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_, err := io.WriteString(l.out, text)
	return err
}

// ReportOptions is how results look on standard output: the options of workflows/report. They are a plain
// struct, so that this package knows facts only.
func (l *Live) ReportOptions() struct {
	Width   int
	Unicode bool
	Color   bool
} {
	k := LookOf(l.out)
	return struct {
		Width   int
		Unicode bool
		Color   bool
	}{k.Width, k.Unicode, k.Color}
}

// Close shows what is still in the queue, erases the live view and says what was dropped. It waits for a
// stream that does not take its text for ten seconds at most. Events after it are ignored.
func (l *Live) Close() {
	l.once.Do(func() {
		l.closed.Store(true)
		close(l.stop)
	})
	t := time.NewTimer(10 * time.Second)
	defer t.Stop()
	select {
	case <-l.done:
	case <-t.C:
	}
}

func (l *Live) loop() {
	defer close(l.done)
	tick := time.NewTicker(l.o.Every)
	defer tick.Stop()
	for {
		select {
		case n := <-l.queue:
			l.show(n)
		case <-tick.C:
			l.redraw()
		case <-l.stop:
			for {
				select {
				case n := <-l.queue:
					l.show(n)
					continue
				default:
				}
				break
			}
			l.finish()
			return
		}
	}
}

// show handles one event: JSON line, or state and the lines that stay.
func (l *Live) show(n note) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.o.JSON {
		l.erase()
		_, _ = l.out.Write(n.json) // a closed pipe must not end the session
		if l.o.Quiet || !l.look.Terminal {
			return
		}
	}
	if l.o.Quiet {
		return
	}
	l.state.take(n)
	lines := l.state.lines(n, !l.look.Terminal)
	if len(lines) == 0 {
		return
	}
	l.erase()
	for _, s := range lines {
		s.text = Clean(s.text, MaxText)
		_, _ = io.WriteString(l.err, l.paint(s)+"\n")
	}
}

// redraw draws the live view anew.
func (l *Live) redraw() {
	if !l.look.Terminal || l.o.Quiet {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	cols, _ := l.o.Size()
	view := l.state.view(l.o.Now(), l.look.Unicode, cols-1)
	l.erase()
	for _, s := range view {
		_, _ = io.WriteString(l.err, cut(Clean(s, 0), cols-1)+"\n")
	}
	l.drawn = len(view)
}

// erase takes the live view off the screen: up by its lines, then clear to the end.
func (l *Live) erase() {
	if l.drawn > 0 {
		fmt.Fprintf(l.err, "\x1b[%dA\r\x1b[J", l.drawn)
		l.drawn = 0
	}
}

func (l *Live) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
	if n := l.dropped.Load(); n > 0 && !l.o.Quiet {
		fmt.Fprintf(l.err, "flow: %d events were not shown: the terminal was too slow; they are in the record\n", n)
	}
}

// line is text that stays, with what it is about.
type line struct {
	mark string // better, worse, bad, warn, "": for colour
	text string
}

// colours by mark; the words say the same.
var colours = map[string]string{"better": "32", "worse": "31", "bad": "31", "warn": "33"}

func (l *Live) paint(s line) string {
	c := colours[s.mark]
	if c == "" || !l.look.Color {
		return s.text
	}
	return "\x1b[" + c + "m" + s.text + "\x1b[0m"
}

// marshal is one JSON line.
func marshal(e record.Event, g *groupFacts, a *armFacts) []byte {
	b, err := json.Marshal(struct {
		record.Event
		GroupFacts *groupFacts `json:"group_facts,omitempty"`
		ArmFacts   *armFacts   `json:"arm_facts,omitempty"`
	}{e, g, a})
	if err != nil {
		b, _ = json.Marshal(record.Event{WallNS: e.WallNS, Kind: e.Kind, Text: "event could not be written: " + err.Error()})
	}
	return append(b, '\n')
}
