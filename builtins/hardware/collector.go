package hardware

// Collectors: a command of the user's whose lines become samples, or a file that a command of root's keeps
// writing. They are how flow reads what it has no right to read, or no library for: a wall meter, a BMC,
// powermetrics. A value's time is when its line came (for a file: when the line was found, at most a fifth
// of a second later), on flow's clock; what the line itself says of time is ignored.

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"flow/builtins/owner"
	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// Collector is one external source of samples. Its sensors are NAME.what.
type Collector struct {
	plan.Collector
	Dir string // where the command runs and a relative file is; "" is here
}

// collected is an open collector.
type collected struct {
	o    Options
	c    Collector
	stop context.CancelFunc
	done chan struct{}
	news chan struct{} // a first value, or the end

	mu       sync.Mutex
	sensors  []record.Sensor
	known    map[string]int
	latest   []float64
	queue    []timedValue
	drained  []timedValue // the other half of a double buffer
	last     int64        // when the last value came
	failed   error        // why there are no more
	dropped  int
	grumbled []byte // the end of what the command wrote to standard error
}

type timedValue struct {
	at int64
	id int
	v  float64
}

// queueMost bounds what waits to be taken: a minute of a collector that prints 1,000 values a second.
const queueMost = 60_000

// OpenCollector starts a collector and waits for its first values. Close ends its command.
func OpenCollector(ctx context.Context, o Options, c Collector) (Source, error) {
	o = o.withDefaults()
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.Stale == 0 {
		c.Stale = max(10*time.Second, 3*c.Every)
	}
	if c.Wait == 0 {
		c.Wait = max(5*time.Second, 2*c.Every)
	}
	x := &collected{o: o, c: c, known: map[string]int{}, done: make(chan struct{}), news: make(chan struct{}, 1)}
	run, stop := context.WithCancel(context.Background())
	x.stop = stop
	go func() {
		defer close(x.done)
		if c.File != "" {
			x.fail(x.follow(run))
		} else {
			x.fail(x.commands(run))
		}
	}()
	timeout := time.NewTimer(c.Wait)
	defer timeout.Stop()
	for {
		x.mu.Lock()
		ready, failed := len(x.sensors) > 0, x.failed
		x.mu.Unlock()
		switch {
		case ready:
			return &guarded{Source: x}, nil
		case failed != nil:
			_ = x.Close()
			return nil, x.trouble(failed)
		}
		select {
		case <-x.news:
		case <-ctx.Done():
			_ = x.Close()
			return nil, context.Cause(ctx)
		case <-timeout.C:
			_ = x.Close()
			return nil, x.trouble(fmt.Errorf("no value within %v", c.Wait))
		}
	}
}

// trouble is why a collector gives nothing, with what can be done.
func (x *collected) trouble(err error) error {
	x.mu.Lock()
	said := strings.TrimSpace(string(x.grumbled))
	x.mu.Unlock()
	e := &diag.Error{Kind: diag.Machine, Op: fmt.Sprintf("collector %q", x.c.Name), Err: err}
	what := strings.Join(x.c.Command, " ")
	e.Fix = fmt.Sprintf("run %q by hand: it must print %s lines to standard output", what, x.c.Format)
	if said != "" {
		if i := strings.LastIndexByte(said, '\n'); i >= 0 {
			said = said[i+1:]
		}
		e.Msg = "it says: " + said
		if low := strings.ToLower(said); strings.Contains(low, "superuser") || strings.Contains(low, "permission") || strings.Contains(low, "root") {
			e.Fix = fmt.Sprintf("let root run it: sudo %s > FILE, and attach it with collector(%q, file = FILE, …)", what, x.c.Name)
		}
	}
	if x.c.File != "" {
		e.Fix = "start what writes " + x.c.File + ", and look that it goes on: tail -f " + x.c.File
	}
	return e
}

func (x *collected) Name() string         { return "collector." + x.c.Name }
func (x *collected) slow() bool           { return true }
func (x *collected) every() time.Duration { return paceUsual }

// Sensors are those that had a value so far; a later line may bring more.
func (x *collected) Sensors() []record.Sensor {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.sensors)
}

// closeLimit is how long the end of a command may take: a second to end by itself, one to close its output, and
// what a busy machine adds.
const closeLimit = 10 * time.Second

// Close ends the command.
func (x *collected) Close() error {
	x.stop()
	select {
	case <-x.done:
		return nil
	case <-time.After(closeLimit):
		return fmt.Errorf("collector %s: its command does not end", x.c.Name)
	}
}

func (x *collected) reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.queue = x.queue[:0]
}

// Sample gives the newest values, for a look outside an arm.
func (x *collected) Sample(now int64, emit func(string, float64)) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.silent(now); err != nil {
		return err
	}
	for i, s := range x.sensors {
		emit(s.Name, x.latest[i])
	}
	return nil
}

// drain gives what came since the last time, each at its own time.
func (x *collected) drain(emit func(int64, string, float64)) error {
	x.mu.Lock()
	x.queue, x.drained = x.drained[:0], x.queue
	got, sensors := x.drained, x.sensors // sensors is append-only
	err := x.silent(x.o.Now())
	if x.dropped > 0 {
		err = errors.Join(err, fmt.Errorf("%d values were dropped: they came faster than they were taken", x.dropped))
		x.dropped = 0
	}
	x.mu.Unlock()
	for _, v := range got {
		emit(v.at, sensors[v.id].Name, v.v)
	}
	return err
}

// silent is why what was collected no longer counts; nil while it does.
func (x *collected) silent(now int64) error {
	if x.failed != nil {
		return x.failed
	}
	if age := time.Duration(now - x.last); len(x.sensors) > 0 && age > x.c.Stale {
		return fmt.Errorf("stale: nothing for %v", age.Round(100*time.Millisecond))
	}
	return nil
}

func (x *collected) fail(err error) {
	x.mu.Lock()
	if err == nil {
		err = errors.New("ended")
	}
	x.failed = err
	x.mu.Unlock()
	x.tell()
}

func (x *collected) tell() {
	select {
	case x.news <- struct{}{}:
	default:
	}
}

// take stores one number of a line that came at the time at.
func (x *collected) take(at int64) found {
	return func(name, unit string, v float64) {
		if !finite(v) || name == "" {
			return
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		id, ok := x.known[name]
		if !ok {
			if len(x.sensors) >= 512 {
				return // not a collector of measurements any more
			}
			if unit == "" {
				unit = unitOf(name)
			}
			source := x.c.File
			if source == "" {
				source = x.c.Command[0]
			}
			id = len(x.sensors)
			x.known[name] = id
			x.sensors = append(x.sensors, record.Sensor{Name: x.c.Name + "." + name, Unit: unit, Source: source, Available: true,
				Counter: strings.HasSuffix(name, "energy_j") || strings.HasSuffix(name, "_total"), PeriodMS: int(x.c.Every / time.Millisecond)})
			x.latest = append(x.latest, v)
		}
		x.latest[id], x.last = v, at
		if len(x.queue) >= queueMost {
			x.dropped++
			return
		}
		x.queue = append(x.queue, timedValue{at, id, v})
	}
}

// lines reads a stream to its end. A line that is longer than a megabyte is no line.
func (x *collected) lines(r io.Reader, f format) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var long []byte
	for {
		part, err := in.ReadSlice('\n')
		at := x.o.Now()
		if err == bufio.ErrBufferFull {
			if long = append(long, part...); len(long) > 1<<20 {
				long = long[:0]
			}
			continue
		}
		line := part
		if len(long) > 0 {
			line = append(long, part...)
			long = long[:0]
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 {
			f.line(line, x.take(at))
			x.tell()
		}
		if err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
}

// commands runs the command, again and again where Every says so, until ctx ends.
func (x *collected) commands(ctx context.Context) error {
	f := newFormat(x.c.Format)
	// One mark for all its runs: looking for what left the group costs a look at every process, which is for
	// the arm's end.
	mark := owner.Of(ctx).Hold("collector " + x.c.Name).ID()
	defer owner.End(mark, 0)
	next := time.Now()
	for {
		err := x.once(ctx, f, mark)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if x.c.Every == 0 {
			if err == nil {
				err = errors.New("the command ended")
			}
			return err
		}
		if err != nil && x.nothingYet() {
			return err
		}
		// A run that failed leaves a hole; the next may do better, and staleness says when there are too many.
		next = next.Add(x.c.Every)
		if d := time.Until(next); d > 0 {
			t := time.NewTimer(d)
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return context.Cause(ctx)
			}
		} else {
			next = time.Now()
		}
	}
}

func (x *collected) nothingYet() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.sensors) == 0
}

func (x *collected) once(ctx context.Context, f format, mark string) error {
	f.reset()
	cmd := exec.CommandContext(ctx, x.c.Command[0], x.c.Command[1:]...)
	cmd.Dir = x.c.Dir
	cmd.Env = owner.Mark(cmd.Environ(), mark)
	cmd.Stderr = (*grumble)(x)
	ownGroup(cmd)
	cmd.Cancel = func() error { return endGroup(cmd) }
	cmd.WaitDelay = time.Second
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout = in
	release, err := startOwned(cmd)
	in.Close()
	if err != nil {
		return err
	}
	defer release()
	ended := make(chan struct{})
	defer close(ended)
	defer context.AfterFunc(ctx, func() { // what ignores the signal, or its children do
		select {
		case <-ended:
		case <-time.After(time.Second):
			killGroup(cmd)
		}
	})()
	read := make(chan error, 1)
	go func() { read <- x.lines(out, f) }()
	if err = cmd.Wait(); errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it did well; only its children keep its standard error
	}
	killGroup(cmd)                                                     // a shell's children may have outlived it, and keep its output open
	limit := time.AfterFunc(cmd.WaitDelay, func() { _ = out.Close() }) // one that left the group
	said := <-read
	if limit.Stop() && err == nil {
		err = said
	}
	return err
}

// grumble keeps the end of what a command writes to standard error.
type grumble collected

func (g *grumble) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.grumbled = append(g.grumbled, b...)
	if n := len(g.grumbled); n > 2048 {
		g.grumbled = append([]byte(nil), g.grumbled[n-1024:]...)
	}
	return len(b), nil
}
