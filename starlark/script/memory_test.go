package script_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"flow/starlark/diag"
	"flow/starlark/script"

	"go.starlark.net/starlark"
)

// A file that takes too much memory is a mistake in the file, whether it takes it in many steps or in one.
func TestMemory(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"steps", "def f():\n    return [[0] * (1 << 20) for _ in range(100)]\n\nx = f()\n"},
		{"doubling", "def f():\n    s = \"x\" * 1024\n    for _ in range(20):\n        s = s + s\n    return s\n\nx = f()\n"},
		{"one step", "def f():\n    x = []\n    x.extend(range(12000000))\n    return x\n\nx = f()\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			calm(t)
			l := &script.Loader{Root: fstest.MapFS{"a.star": {Data: []byte(c.text)}}, Limits: script.Limits{Memory: 64 << 20}}
			_, err := l.Load(t.Context(), "a.star")
			var over *script.MemoryError
			kind, _ := diag.KindOf(err)
			if !errors.As(err, &over) || kind != diag.Workflow || !strings.HasPrefix(err.Error(), "a.star") || !strings.Contains(diag.Format(err), "fix: hold less") {
				t.Errorf("got %v, want that it takes too much memory", err)
			}
		})
	}
}

// calm waits until what an earlier load was left with, by itself, is gone from memory.
func calm(t *testing.T) {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		var m runtime.MemStats
		if runtime.ReadMemStats(&m); m.HeapAlloc < 32<<20 {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("%d bytes are still in use", m.HeapAlloc)
		}
	}
}

// Within the bound nothing is changed, and what does not end by itself is left.
func TestBoundMemory(t *testing.T) {
	want := errors.New("its own")
	if err := script.BoundMemory(t.Context(), diag.Pos{File: "a.star"}, 0, func(context.Context) error { return want }); err != want {
		t.Errorf("got %v, want its own error", err)
	}
	calm(t)
	garbage := make([]byte, 512<<20) // must not be room to grow unseen
	garbage[len(garbage)-1] = 1
	release := make(chan struct{})
	defer close(release)
	began := time.Now()
	err := script.BoundMemory(t.Context(), diag.Pos{File: "a.star"}, 16<<20, func(context.Context) error {
		hold := make([]byte, 256<<20)
		<-release
		_ = hold[len(hold)-1]
		return nil
	})
	if !errors.As(err, new(*script.MemoryError)) || !strings.HasPrefix(err.Error(), "a.star") || time.Since(began) > 30*time.Second {
		t.Errorf("got %v after %v, want that it is given up", err, time.Since(began))
	}
}

// What does not end in time is left as well, and the watch alone ends a call at its line.
func TestGivenUp(t *testing.T) {
	late := errors.New("too late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, late)
	defer cancel()
	release := make(chan struct{})
	defer close(release)
	err := script.BoundMemory(ctx, diag.Pos{File: "a.star"}, 0, func(context.Context) error { <-release; return nil })
	if !errors.Is(err, late) || !strings.HasPrefix(err.Error(), "a.star: ") {
		t.Errorf("got %v, want %v with the file", err, late)
	}
	l := &script.Loader{Root: fstest.MapFS{"a.star": {Data: []byte("def main():\n    x = []\n    for i in range(1 << 40):\n        x.append([0] * 1000000)\n")}}}
	globals, err := l.Load(t.Context(), "a.star")
	if err != nil {
		t.Fatal(err)
	}
	watched, stop := script.WatchMemory(t.Context(), 64<<20, time.Millisecond)
	defer stop()
	_, err = l.Call(watched, "main", globals["main"].(starlark.Callable), nil, nil)
	kind, _ := diag.KindOf(err)
	if !errors.As(err, new(*script.MemoryError)) || kind != diag.Workflow || !strings.HasPrefix(err.Error(), "a.star:4:") {
		t.Errorf("got %v, want too much memory at the line", err)
	}
}
