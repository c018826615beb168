package engine

// The parsers, on bytes.

import (
	"maps"
	"math"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flow/workflows/record"
)

func TestFill(t *testing.T) {
	vars := map[string]string{"out": "/o", "port": "8080", "seed": "{out}", "x1": "y"}
	for _, c := range []struct{ in, want, err string }{
		{"", "", ""},
		{"plain", "plain", ""},
		{"{out}/x.csv", "/o/x.csv", ""},
		{"{port}{port}", "80808080", ""},
		{"{seed}", "{out}", ""}, // a value is not looked at again
		{"{x1}", "y", ""},
		{`{"a":{"port":{port}}}`, `{"a":{"port":8080}}`, ""},
		{`{"a":{}}`, `{"a":{}}`, ""},
		{"{{port}}", "{port}", ""},
		{"{{port}", "{8080", ""},
		{"{ port }", "{ port }", ""},
		{"{Port} {1x} {a-b} {", "{Port} {1x} {a-b} {", ""},
		{"{prt}", "", `placeholder {prt}: got "{prt}", want one of {out}, {port}, {seed}, {x1}`},
		{"{ctx}", "", `placeholder {ctx}: got "{ctx}", but this arm has no value for it`},
	} {
		got, err := fill(c.in, vars)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%q: got %v, want %q", c.in, err, c.err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%q: got %q, %v; want %q", c.in, got, err, c.want)
		}
	}
	for text, want := range map[string]bool{"": false, "{port}": true, "{{port}}": false, "{{port}} {port}": true, "{{port}": true, "port": false, `{"p":{port}}`: true} {
		if names("port", text) != want {
			t.Errorf("names port in %q: want %v", text, want)
		}
	}
}

func FuzzFill(f *testing.F) {
	for _, s := range []string{"{a}", "{{a}}", "{{{a}}}", `{"x":{a}}`, "{", "}{a", "{b}", "{a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := fill(s, map[string]string{"a": "1"})
		if err == nil && !strings.Contains(s, "{") && got != s {
			t.Fatalf("%q became %q", s, got)
		}
		// Filling {a} with itself keeps the text, but for escapes.
		if same, err := fill(s, map[string]string{"a": "{a}"}); err == nil && !strings.Contains(s, "{{") && same != s {
			t.Fatalf("%q became %q", s, same)
		}
		if err == nil && names("a", s) && strings.Contains(strings.ReplaceAll(s, "{{a}}", ""), "{a}") && got == s {
			t.Fatalf("%q names {a} and was left alone", s)
		}
	})
}

const metricsPage = `# HELP llamacpp:n_decode_total Total number of llama_decode() calls
# TYPE llamacpp:n_decode_total counter
llamacpp:n_decode_total 27
  spaced   1.5e3   1712000000000
vllm:request_success_total{finished_reason="stop",model_name="a \"b\" \\ c\nd",} 4.0
inf +Inf
nan NaN
broken{a="1 3
broken2{a=1} 3
{a="1"} 3
novalue
word x
# EOF
`

func TestParseSeries(t *testing.T) {
	got := parseSeries(metricsPage)
	var text []string
	for _, s := range got {
		text = append(text, s.String())
	}
	want := []string{
		"llamacpp:n_decode_total 27", "spaced 1500",
		`vllm:request_success_total{finished_reason="stop",model_name="a \"b\" \\ c\nd"} 4`, "inf +Inf", "nan NaN",
	}
	if !slices.Equal(text, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(text, "\n"), strings.Join(want, "\n"))
	}
	for _, c := range []struct{ name, want string }{
		{"llamacpp:n_decode_total", "27"},
		{`vllm:request_success_total{finished_reason="stop"}`, "4"},
		{`vllm:request_success_total{finished_reason="length"}`, "none named"},
		{"", "got metric"}, {"a b", "got metric"}, {"x{", "got metric"},
	} {
		s, err := pick(got, c.name)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: got %v, want %q", c.name, err, c.want)
			}
		} else if number(s.value) != c.want {
			t.Errorf("%q: got %v, want %s", c.name, s.value, c.want)
		}
	}
}

func FuzzParseSeries(f *testing.F) {
	f.Add(metricsPage)
	f.Add("a{b=\"\\\\\\n\\\"\\q\"} 1")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range parseSeries(text) {
			again := parseSeries(s.String())
			if len(again) != 1 || again[0].name != s.name || !slices.Equal(again[0].labels, s.labels) ||
				again[0].value != s.value && !(math.IsNaN(again[0].value) && math.IsNaN(s.value)) {
				t.Fatalf("%q was read as %+v, and that as %+v", s.String(), s, again)
			}
		}
	})
}

func TestPointer(t *testing.T) {
	doc := map[string]any{"a": []any{"x", map[string]any{"": 1.0}}, "m~n": true, "s/t": nil}
	for p, want := range map[string]string{"/a/0": "x", "/a/1/": "1", "/m~0n": "true", "/s~1t": "null"} {
		v, err := lookPointer(doc, p)
		if err != nil || jsonText(v) != want {
			t.Errorf("%s: got %v, %v; want %s", p, v, err, want)
		}
	}
	if v, err := lookPointer("whole", ""); err != nil || v != "whole" {
		t.Errorf("the document: got %v, %v", v, err)
	}
	for _, p := range []string{"a", "/a/2", "/a/-1", "/a/x", "/b", "/a/0/x"} {
		if v, err := lookPointer(doc, p); err == nil {
			t.Errorf("%s: got %v, want an error", p, v)
		}
	}
}

func FuzzPointer(f *testing.F) {
	f.Add("/a/0", "k")
	f.Fuzz(func(t *testing.T, pointer, key string) {
		_, _ = lookPointer(map[string]any{"a": []any{1}}, pointer)
		escaped := "/" + strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
		if v, err := lookPointer(map[string]any{key: "v"}, escaped); err != nil || v != "v" {
			t.Fatalf("%q: got %v, %v", escaped, v, err)
		}
	})
}

const tcpTable = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 31337 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1F90 0100007F:CAFE 01 00000000:00000000 00:00000000 00000000  1000        0 31338 1 0000000000000000 20 4 30 10 -1
   2: 0A00000A:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 31339 1 0000000000000000 100 0 0 10 0
   3: garbage
`

const tcp6Table = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 200 1 0000000000000000 100 0 0 10 0
   1: 00000000000000000000000001000000:0017 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 201 1 0000000000000000 100 0 0 10 0
   2: 0000000000000000FFFF00000100007F:0018 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 202 1 0000000000000000 100 0 0 10 0
`

func TestParseListeners(t *testing.T) {
	addr := netip.MustParseAddr
	want := []listener{{addr("127.0.0.1"), 8080, 1000, 31337}, {addr("10.0.0.10"), 8080, 0, 31339}}
	if got := parseListeners(tcpTable); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	want = []listener{{addr("::"), 22, 0, 200}, {addr("::1"), 23, 0, 201}, {addr("::ffff:127.0.0.1"), 24, 0, 202}}
	if got := parseListeners(tcp6Table); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for a, want := range map[string]bool{"0.0.0.0": true, "127.0.0.1": true, "127.8.0.1": true, "::": true, "::1": true, "::ffff:127.0.0.1": true, "10.0.0.1": false, "fe80::1": false} {
		if (listener{addr: addr(a)}).local() != want {
			t.Errorf("%s reaches a client of 127.0.0.1: want %v", a, want)
		}
	}
}

func FuzzParseListeners(f *testing.F) {
	f.Add(tcpTable)
	f.Add(tcp6Table)
	f.Fuzz(func(t *testing.T, table string) {
		for _, l := range parseListeners(table) {
			if !l.addr.IsValid() || l.port < 0 || l.port > 65535 {
				t.Fatalf("got %+v", l)
			}
		}
	})
}

const mountTable = `23 1 254:0 / / rw,relatime - ext4 /dev/root rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 master:1 - cgroup2 cgroup2 rw
50 23 0:50 / /mnt/with\040space rw - ext4 /dev/x rw
broken
`

func TestOwnCgroup(t *testing.T) {
	for _, c := range []struct{ name, mounts, self, want string }{
		{"hybrid", mountTable, "9:name=systemd:/\n4:memory:/a/b\n0::/\n", "/sys/fs/cgroup/unified"},
		{"unified", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n", "0::/user.slice/user-1000.slice/x.scope\n", "/sys/fs/cgroup/user.slice/user-1000.slice/x.scope"},
		{"container with a part of the tree", "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/abc/child\n", "/sys/fs/cgroup/child"},
		{"outside what is mounted", "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/other\n", ""},
		{"no v2 line", mountTable, "4:memory:/a\n", ""},
		{"no v2 mount", "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n", "0::/\n", ""},
		{"nothing", "", "", ""},
	} {
		if got := ownCgroup(parseMounts(c.mounts), c.self); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	ms := parseMounts(mountTable)
	if len(ms) != 5 || ms[4].point != "/mnt/with space" || ms[3].fs != "cgroup2" {
		t.Errorf("mounts: %+v", ms)
	}
	if got := cgroupParent(Options{Cgroups: "off"}, "/proc"); got != "" {
		t.Errorf("switched off: got %q", got)
	}
	if got := cgroupParent(Options{Cgroups: "/x"}, "/proc"); got != "/x" {
		t.Errorf("injected: got %q", got)
	}
	if got := cgroupParent(Options{}, filepath.Join(t.TempDir(), "proc")); got != "" {
		t.Errorf("without /proc: got %q", got)
	}
}

func FuzzParseMounts(f *testing.F) {
	f.Add(mountTable, "0::/a\n")
	f.Fuzz(func(t *testing.T, table, self string) {
		if dir := ownCgroup(parseMounts(table), self); dir != "" && strings.HasPrefix(dir, "..") {
			t.Fatalf("got %q", dir)
		}
	})
}

func TestEnvironment(t *testing.T) {
	own := []string{"PATH=/bin", "LC_ALL=C", "SECRET=1", "KEEP_A=1", "=C:=odd", "HOME=/h", "LD_LIBRARY_PATH="}
	got := environment(own, []string{"KEEP_*"}, record.Command{Env: map[string]string{"X": "1", "HOME": "/other"}, Unset: []string{"LC_ALL", "X"}})
	want := map[string]string{"PATH": "/bin", "KEEP_A": "1", "HOME": "/other", "LD_LIBRARY_PATH": "", "X": "1"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := pairs(got); !slices.IsSorted(got) || len(got) != 5 {
		t.Errorf("pairs: %v", got)
	}
	env := parseEnviron([]byte("A=1\x00B=two=2\x00\x00noequals\x00A=later\x00"))
	if !maps.Equal(env, map[string]string{"A": "1", "B": "two=2"}) {
		t.Errorf("environ: %v", env)
	}
}

func FuzzParseEnviron(f *testing.F) {
	f.Add([]byte("A=1\x00B=\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		env := parseEnviron(b)
		again := parseEnviron([]byte(strings.Join(pairs(env), "\x00")))
		if !maps.Equal(env, again) {
			t.Fatalf("got %v, then %v", env, again)
		}
	})
}

func TestOOMKills(t *testing.T) {
	for text, want := range map[string]uint64{"pgfault 3\noom_kill 7\nx 1\n": 7, "low 0\noom 1\noom_kill 0\n": 0} {
		if n, ok := oomKills(text); !ok || n != want {
			t.Errorf("%q: got %d, %v", text, n, ok)
		}
	}
	for _, text := range []string{"", "oom_kills 1\n", "oom_kill x\n", "some oom_kill 1\n"} {
		if n, ok := oomKills(text); ok {
			t.Errorf("%q: got %d", text, n)
		}
	}
}

func TestSignals(t *testing.T) {
	for name, want := range map[string]string{"": "SIGTERM", "SIGINT": "SIGINT", "int": "SIGINT", "Quit": "SIGQUIT"} {
		if sig, err := stopSignal(name); err != nil || signalName(sig) != want {
			t.Errorf("%q: got %v, %v; want %s", name, sig, err, want)
		}
	}
	if _, err := stopSignal("SIGNOPE"); err == nil {
		t.Error("SIGNOPE is taken")
	}
	if got := signalName(99); got != "signal 99" {
		t.Errorf("got %q", got)
	}
}

func TestClip(t *testing.T) {
	for in, want := range map[string]string{"short": "short", "exactly10!": "exactly10!", "more than ten": "more than …", "123456789ü": "123456789…"} {
		if got := clip(in, 10); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestUnknownPlaceholder(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "", "{port}": "", "{out}/{outt}": "outt", `{"a": {"x": {port}}}`: "", "{{mine}}": "", "{{mine}} {other}": "other", "{Port}": "",
	} {
		if got := Unknown(text); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
