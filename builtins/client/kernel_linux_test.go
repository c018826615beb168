package client

import (
	"encoding/binary"
	"testing"
	"time"

	"flow/workflows/plan"

	"golang.org/x/sys/unix"
)

// control is a control message as the kernel writes it on a 64-bit machine.
func control(level, kind int32, data ...uint64) []byte {
	b := binary.NativeEndian.AppendUint64(nil, uint64(16+8*len(data)))
	b = binary.NativeEndian.AppendUint32(b, uint32(level))
	b = binary.NativeEndian.AppendUint32(b, uint32(kind))
	for _, d := range data {
		b = binary.NativeEndian.AppendUint64(b, d)
	}
	return b
}

func TestKernelTime(t *testing.T) {
	if unix.SizeofCmsghdr != 16 {
		t.Skip("the bytes below are those of a 64-bit machine")
	}
	const want = 1_796_051_641*int64(1e9) + 123_456_789
	stamp := control(unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, 1_796_051_641, 123_456_789)
	other := control(unix.SOL_TCP, 36, 7)
	for name, tt := range map[string]struct {
		oob  []byte
		want int64
	}{
		"alone":     {stamp, want},
		"second":    {append(append([]byte{}, other...), stamp...), want},
		"none":      {nil, 0},
		"other":     {other, 0},
		"cut":       {stamp[:20], 0},
		"no length": {make([]byte, 64), 0},
		"too long":  {append(binary.NativeEndian.AppendUint64(nil, 1<<40), stamp[8:]...), 0},
	} {
		if got := kernelTime(tt.oob); got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
}

func FuzzKernelTime(f *testing.F) {
	f.Add(control(unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, 1, 2))
	f.Fuzz(func(t *testing.T, oob []byte) { kernelTime(oob) })
}

// On this system stamps are the kernel's, from the first read on, and lie between the write and the read.
func TestKernelStamps(t *testing.T) {
	now := clock()
	s := script(t, now, false, piece{0, sseHead}, piece{20 * time.Millisecond, chunked(chatFrame("a"))}, piece{20 * time.Millisecond, chunked(finishFrame+doneFrame) + lastOne})
	c := New(Options{API: plan.API{Kind: plan.APIChat}, BaseURL: s.url(), Now: now})
	defer c.Close()
	if c.kernel == nil || !c.kernel.sure {
		t.Skip("this kernel gives no receive times")
	}
	r := ask(t, c, Prompt{Text: "x"})
	if r.StampSource != "kernel" || len(r.Warnings) > 0 {
		t.Fatalf("got source %q, warnings %q", r.StampSource, r.Warnings)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Loopback delivers inside the write: the offset between the clocks is right when the stamp is not
	// before it (half the width of a clock reading aside) and well before the next one.
	if late := time.Duration(*r.FirstContentNS - s.writes[1]); late < -50*time.Microsecond || late > 15*time.Millisecond {
		t.Errorf("the stamp is %s after its write", late)
	}
}

// The offset of the clocks is read anew now and then, and never the same to the nanosecond: two reads of one
// segment keep its stamp, and only a step of the clock makes the time of the read the better one.
func TestOffsetReadAnew(t *testing.T) {
	if unix.SizeofCmsghdr != 16 {
		t.Skip("the bytes below are those of a 64-bit machine")
	}
	const wall, offset, now = 1000 * int64(1e9), 400 * int64(1e9), 601 * int64(1e9)
	message := control(unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, 1000, 0)
	k := &kernelClock{now: func() int64 { return now }}
	k.at.Store(now)
	s := stamper{clock: k}
	for _, tt := range []struct {
		drift int64
		want  stamp
	}{
		{0, stamp{wall - offset, true}}, {11, stamp{wall - offset, true}}, {-20, stamp{wall - offset + 20, true}},
		{3, stamp{wall - offset + 20, true}}, {int64(time.Hour), stamp{now, false}}, {-int64(time.Hour), stamp{now, false}},
	} {
		k.offset.Store(offset + tt.drift)
		if got := s.of(message, now); got != tt.want {
			t.Errorf("offset drifted by %d ns: got %+v, want %+v", tt.drift, got, tt.want)
		}
	}
}

// A stepped wall clock makes a stamp impossible; the read's own time is used then.
func TestSteppedClock(t *testing.T) {
	now := clock()
	s := script(t, now, false, piece{0, sseHead + chunked(chatFrame("a")+finishFrame+doneFrame) + lastOne})
	c := New(Options{API: plan.API{Kind: plan.APIChat}, BaseURL: s.url(), Now: now})
	defer c.Close()
	if c.kernel == nil || !c.kernel.sure {
		t.Skip("this kernel gives no receive times")
	}
	base, err := c.o.base()
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.dial(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	body, _ := c.o.body(Prompt{Text: "x"})
	message, _ := c.o.request(base, "/", body)
	if _, _, err := w.send(message, now); err != nil {
		t.Fatal(err)
	}
	c.kernel.offset.Add(-int64(time.Hour)) // as if the wall clock had been put forward since
	var at stamp
	w.deliver(func(_ []byte, came stamp, err error) taken {
		if at = came; err != nil {
			t.Error(err)
		}
		return taken{over: true}
	})
	if at.kernel || at.ns > now() {
		t.Errorf("got %+v, now %d: want the time of the read", at, now())
	}
}

// A step of the wall clock in the middle of a request bends no time and is named.
func TestWallClockStep(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		s := script(t, clock(), false, piece{0, sseHead + chunked(chatFrame("a"))}, piece{60 * time.Millisecond, chunked(chatFrame("b") + finishFrame + doneFrame)}, piece{0, lastOne})
		c := client(t, s.url(), plan.APIChat)
		if c.kernel == nil || !c.kernel.sure {
			t.Skip("the kernel gives no stamps here")
		}
		begin := time.Now()
		c.kernel.wall = func() int64 { // the clock is set when the first frame has come
			if time.Since(begin) > 30*time.Millisecond {
				return wallTime() + int64(step)
			}
			return wallTime()
		}
		r := ask(t, c, Prompt{Text: "x"})
		warned("the wall clock was stepped by")(t, r)
		if d := time.Duration(*r.LastContentNS - *r.FirstContentNS); r.Status != "ok" || d < 30*time.Millisecond || d > 5*time.Second {
			t.Errorf("a step of %s: got %s, frames %s apart, want 60 ms", step, r.Status, d)
		}
	}
}
