package machine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSettle(t *testing.T) {
	start := Monotonic()
	if err := Settle(context.Background(), 20*time.Millisecond, nil); err != nil || Monotonic()-start < int64(20*time.Millisecond) {
		t.Errorf("settled after %v, %v", time.Duration(Monotonic()-start), err)
	}
	// A clock at half speed: what counts is the clock given.
	calls := int64(0)
	slow := func() int64 { calls++; return calls * int64(time.Millisecond) }
	if err := Settle(context.Background(), 5*time.Millisecond, slow); err != nil || calls < 6 {
		t.Errorf("after %d looks at the clock, %v", calls, err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("budget spent")
	time.AfterFunc(time.Millisecond, func() { cancel(why) })
	if err := Settle(ctx, time.Hour, nil); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	if err := Settle(ctx, 0, nil); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
}

func TestStateDir(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, c := range []struct{ xdg, want string }{
		{filepath.Join(home, "state"), filepath.Join(home, "state", "flow")},
		{"", filepath.Join(home, ".local", "state", "flow")},
		{"relative", filepath.Join(home, ".local", "state", "flow")},
	} {
		t.Setenv("XDG_STATE_HOME", c.xdg)
		got, err := StateDir()
		if err != nil || got != c.want {
			t.Errorf("XDG_STATE_HOME %q: got %q, %v, want %q", c.xdg, got, err, c.want)
		}
		if info, err := os.Stat(got); err != nil || !info.IsDir() {
			t.Errorf("%s is not made: %v", got, err)
		}
	}
	file := filepath.Join(home, "file")
	put(t, "", file)
	t.Setenv("XDG_STATE_HOME", file)
	if _, err := StateDir(); err == nil {
		t.Error("want an error where the directory cannot be made")
	}
}

func TestClocks(t *testing.T) {
	a, b := Monotonic(), Monotonic()
	if b < a {
		t.Errorf("monotonic went from %d to %d", a, b)
	}
	if w := time.Unix(0, Wall()); time.Since(w).Abs() > time.Minute {
		t.Errorf("wall says %v", w)
	}
}
