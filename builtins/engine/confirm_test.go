package engine

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"flow/workflows/plan"
	"flow/workflows/record"
)

func ptr[T any](v T) *T { return &v }

func TestConfirm(t *testing.T) {
	l := serverOf("serve")
	l.Command.Env = map[string]string{"KNOB": "1", "WHERE": "{out}/x"}
	l.Command.Unset = []string{"LANG"}
	p := start(t, l)
	ready(t, p)
	until(t, "the log is written", func() bool { return strings.Contains(p.Log(), "listening") })
	absent := strings.Repeat("NO_SUCH_KNOB_", 3) // in pieces, because this very binary is searched
	for _, c := range []struct {
		name     string
		lever    plan.Lever
		confirm  plan.Confirm
		what     string
		found    bool
		observed string // contained
		err      string // contained; "" is none
	}{
		{"log", plan.Lever{}, plan.Confirm{Kind: "log", Pattern: `n_ubatch\s*=\s*1024\b`}, `n_ubatch\s*=\s*1024\b`, true, "llama_context: n_ubatch      = 1024", ""},
		{"log, line ends", plan.Lever{}, plan.Confirm{Kind: "log", Pattern: `^server: .*$`}, `^server: .*$`, true, "server: listening on", ""},
		{"log, not there", plan.Lever{}, plan.Confirm{Kind: "log", Pattern: `n_ubatch\s*=\s*512`}, `n_ubatch\s*=\s*512`, false, "", ""},
		{"log, bad pattern", plan.Lever{}, plan.Confirm{Kind: "log", Pattern: `(`}, `(`, false, "", "missing closing"},
		{"http", plan.Lever{}, plan.Confirm{Kind: "http", Path: "/props", Pointer: "/slots/0/n_ctx", Equals: ptr("4096")}, "/props /slots/0/n_ctx = 4096", true, "4096", ""},
		{"http, string", plan.Lever{}, plan.Confirm{Kind: "http", Path: "/props", Pointer: "/slots/0/kv", Equals: ptr("f16")}, "/props /slots/0/kv = f16", false, "q8_0", ""},
		{"http, boolean", plan.Lever{}, plan.Confirm{Kind: "http", Path: "/props", Pointer: "/flash", Equals: ptr("true")}, "/props /flash = true", true, "true", ""},
		{"http, number", plan.Lever{}, plan.Confirm{Kind: "http", Path: "/props", Pointer: "/a~1b/~0", Equals: ptr("1.5")}, "/props /a~1b/~0 = 1.5", true, "1.50", ""},
		{"http, there", plan.Lever{}, plan.Confirm{Kind: "http", Path: "/props", Pointer: "/slots/0"}, "/props /slots/0", true, `{"kv":"q8_0","n_ctx":4096}`, ""},
		{"http, not there", plan.Lever{}, plan.Confirm{Kind: "http", Path: "/props", Pointer: "/slots/1"}, "/props /slots/1", false, "no element", ""},
		{"http, no page", plan.Lever{}, plan.Confirm{Kind: "http", Path: "/nothing"}, "/nothing", false, "", "answered 404"},
		{"http, no JSON", plan.Lever{}, plan.Confirm{Kind: "http", Path: "/metrics"}, "/metrics", false, "", "not JSON"},
		{"metric", plan.Lever{}, plan.Confirm{Kind: "metric", Name: "hits", Above: ptr(11.0), Below: ptr(13.0)}, "hits > 11 < 13", true, "12", ""},
		{"metric, at the limit", plan.Lever{}, plan.Confirm{Kind: "metric", Name: "hits", Above: ptr(12.0)}, "hits > 12", false, "12", ""},
		{"metric, equals", plan.Lever{}, plan.Confirm{Kind: "metric", Name: "hits", Equals: ptr("12.0")}, "hits = 12.0", true, "12", ""},
		{"metric, labels", plan.Lever{}, plan.Confirm{Kind: "metric", Name: `req{code="200"}`, Above: ptr(0.0)}, `req{code="200"} > 0`, true, "3", ""},
		{"metric, two", plan.Lever{}, plan.Confirm{Kind: "metric", Name: "req", Above: ptr(0.0)}, "req > 0", false, "", "2 series match req"},
		{"metric, none", plan.Lever{}, plan.Confirm{Kind: "metric", Name: "misses"}, "misses", false, "", "none named misses"},
		{"metric, no number", plan.Lever{}, plan.Confirm{Kind: "metric", Name: "bad", Below: ptr(1.0)}, "bad < 1", false, "NaN", ""},
		{"literal", plan.Lever{}, plan.Confirm{Kind: "literal", Text: "n_ubatch      = 1024"}, "n_ubatch      = 1024", true, filepath.Base(os.Args[0]) + ", byte", ""},
		{"literal, not there", plan.Lever{}, plan.Confirm{Kind: "literal", Text: absent}, absent, false, "", ""},
		{"environ", plan.Lever{Env: map[string]string{"KNOB": "1", "WHERE": "{out}/x"}, Unset: []string{"LANG"}}, plan.Confirm{Kind: "environ"}, "KNOB=1, WHERE={out}/x, unset LANG", true, "LANG is not set", ""},
		{"environ, another value", plan.Lever{Env: map[string]string{"KNOB": "2"}}, plan.Confirm{Kind: "environ"}, "KNOB=2", false, "KNOB=1", ""},
		{"environ, not set", plan.Lever{Env: map[string]string{"KNOB_2": "2"}}, plan.Confirm{Kind: "environ"}, "KNOB_2=2", false, "KNOB_2 is not set", ""},
		{"environ, not unset", plan.Lever{Unset: []string{"PATH"}}, plan.Confirm{Kind: "environ"}, "unset PATH", false, "PATH=", ""},
		{"environ, of nothing", plan.Lever{}, plan.Confirm{Kind: "environ"}, "", false, "", "neither sets nor unsets"},
		{"none", plan.Lever{}, plan.Confirm{Kind: "none", Reason: "a cooler room"}, "a cooler room", false, "", ""},
		{"unknown", plan.Lever{}, plan.Confirm{Kind: "smell"}, "", false, "", `got kind "smell"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.confirm.Kind == "environ" && runtime.GOOS != "linux" {
				t.Skip("only Linux shows the environment of a process")
			}
			c.lever.Name, c.lever.Confirm = "lever", []plan.Confirm{c.confirm}
			got := p.Confirm(t.Context(), []plan.Lever{c.lever}, "ready")
			if len(got) != 1 {
				t.Fatalf("got %d readings, want 1", len(got))
			}
			e := got[0]
			if e.Lever != "lever" || e.Kind != c.confirm.Kind || e.When != "ready" || e.What != c.what || e.Found != c.found {
				t.Errorf("got %+v, want what %q, found %v", e, c.what, c.found)
			}
			if !strings.Contains(e.Observed, c.observed) || c.observed == "" && e.Observed != "" {
				t.Errorf("observed %q, want %q", e.Observed, c.observed)
			}
			if !strings.Contains(e.Error, c.err) || c.err == "" && e.Error != "" {
				t.Errorf("error %q, want %q", e.Error, c.err)
			}
		})
	}
	// After the end the log, the binary and the environment that was seen still speak; the server does not.
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := plan.Lever{Name: "l", Env: map[string]string{"KNOB": "1"}, Confirm: []plan.Confirm{{Kind: "log", Pattern: "n_ubatch"}, {Kind: "http", Path: "/props"}, {Kind: "environ"}, {Kind: "literal", Text: "n_ubatch      = 1024"}}}
	found := map[string]bool{}
	for _, e := range p.Confirm(t.Context(), []plan.Lever{all}, "stop") {
		found[e.Kind] = e.Found
	}
	if !found["log"] || found["http"] || !found["literal"] || !found["environ"] && runtime.GOOS == "linux" {
		t.Errorf("after the end: %v", found)
	}
}

// The shell has no byte of the knob; the script it runs has.
func TestLiteralInScript(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "server.sh"), []byte("echo $MY_SPECIAL_KNOB\nsleep 600 & wait\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l := Launch{Engine: plan.Engine{Name: "sh"}, Command: record.Command{Argv: []string{"sh", filepath.Join(dir, "server.sh")}}}
	p := start(t, l)
	got := p.Confirm(t.Context(), []plan.Lever{{Name: "l", Confirm: []plan.Confirm{{Kind: "literal", Text: "MY_SPECIAL_KNOB"}, {Kind: "literal", Text: "MY_SPECIAL_KN"}}}}, "ready")
	if !got[0].Found || !strings.HasPrefix(got[0].Observed, "server.sh, byte 6") {
		t.Errorf("got %+v", got[0])
	}
	if got[1].Found || !strings.Contains(got[1].Observed, "only within longer names (server.sh") {
		t.Errorf("got %+v, want that it is only the beginning of a name", got[1])
	}
}

func TestSearchLiteral(t *testing.T) {
	const chunk = 1 << 20
	pad := func(n int) string { return strings.Repeat("\x00", n) }
	for _, c := range []struct {
		name        string
		data        string
		whole, part int64
	}{
		{"C literal", "ab\x00KNOB\x00", 3, -1},
		{"tail of another", "MY_KNOB\x00", 3, -1},
		{"beginning of another", "KNOB_EXTRA\x00", -1, 0},
		{"both", "KNOB_EXTRA\x00KNOB\x00", 11, 0},
		{"at the end", "xKNOB", 1, -1},
		{"absent", "KNO\x00B", -1, -1},
		{"empty", "", -1, -1},
		{"across chunks", pad(chunk-2) + "KNOB\x00", chunk - 2, -1},
		{"at a chunk's end", pad(chunk-4) + "KNOB", chunk - 4, -1},
		{"name goes on in the next chunk", pad(chunk-4) + "KNOBS", -1, chunk - 4},
		{"in the third chunk", pad(2*chunk+100) + "KNOB\x00", 2*chunk + 100, -1},
		{"packed by Go", "KNOBother" + pad(10) + "\xff Go buildinf:", 0, -1},
		{"packed by Rust", "/rustc/abc" + pad(chunk) + "KNOBother", 10 + chunk, -1},
	} {
		whole, part, err := searchLiteral(strings.NewReader(c.data), "KNOB")
		if whole != c.whole || part != c.part || err != nil {
			t.Errorf("%s: got %d, %d, %v; want %d, %d", c.name, whole, part, err, c.whole, c.part)
		}
	}
}

func FuzzSearchLiteral(f *testing.F) {
	f.Add([]byte("KNOB_EXTRA\x00KNOB"), "KNOB", 0)
	f.Add([]byte("KNOB"), "KNOB", 1<<20-2)
	f.Fuzz(func(t *testing.T, data []byte, text string, padding int) {
		if text == "" || padding < 0 || padding > 1<<21 {
			return
		}
		all := append(make([]byte, padding), data...)
		whole, part, err := searchLiteral(bytes.NewReader(all), text)
		if err != nil {
			t.Fatal(err)
		}
		if (whole >= 0 || part >= 0) != bytes.Contains(all, []byte(text)) {
			t.Fatalf("got %d, %d, but contained is %v", whole, part, bytes.Contains(all, []byte(text)))
		}
		for _, at := range []int64{whole, part} {
			if at >= 0 && !bytes.HasPrefix(all[at:], []byte(text)) {
				t.Fatalf("nothing at %d", at)
			}
		}
	})
}

func TestFollower(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := &follower{path: path}
	defer l.close()
	if got := l.lines(); got != nil {
		t.Fatalf("of a missing file: %q", got)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, c := range []struct {
		write string
		want  []string
	}{
		{"one\ntw", []string{"one", "tw"}},
		{"", []string{"tw"}},
		{"o\n", []string{"two"}},
		{"\n\nx\n", []string{"", "", "x"}},
	} {
		if _, err := f.WriteString(c.write); err != nil {
			t.Fatal(err)
		}
		if got := l.lines(); strings.Join(got, "|") != strings.Join(c.want, "|") || len(got) != len(c.want) {
			t.Errorf("after %q: got %q, want %q", c.write, got, c.want)
		}
	}
}

func TestReadEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"12345678", "12345678"},
		{"123456789", "1234\n--- flow left out 1 bytes here ---\n6789"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, size, err := readEnds(path, 4)
		if got != c.want || size != int64(len(c.text)) || err != nil {
			t.Errorf("%q: got %q, %d, %v; want %q", c.text, got, size, err, c.want)
		}
	}
}

func BenchmarkConfirmLog(b *testing.B) {
	p := start(b, launchOf("flood"))
	if err := p.Wait(context.Background()); err != nil {
		b.Fatal(err)
	}
	l := []plan.Lever{{Name: "l", Confirm: []plan.Confirm{{Kind: "log", Pattern: `flash_attn\s*=\s*enabled\b`}}}}
	for b.Loop() {
		p.Confirm(context.Background(), l, "stop")
	}
}
