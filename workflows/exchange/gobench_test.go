package exchange

import (
	"strings"
	"testing"

	"flow/workflows/record"
)

func TestGoBench(t *testing.T) {
	rate, ms := 100.5, 12.
	arm := func(label, disposition string) *record.Arm {
		return &record.Arm{Label: label, Disposition: disposition, Metrics: []record.Metric{{Name: "decode_tok_s", Case: "4K", Value: &rate}, {Name: "ttft_ms", Case: "4K", Value: &ms}, {Name: "x", Case: "4K"}}}
	}
	s := &record.Session{Workflow: "a b.star", Machine: record.Machine{Facts: map[string]string{"os": "linux", "arch": "amd64", "cpu_model": "A  CPU"}}}
	g := &record.Group{Name: "screen fast", Arms: []*record.Arm{arm("A", record.OK), arm("B", record.OK), arm("B", record.Invalid)}}
	var b strings.Builder
	if err := WriteGoBench(&b, s, []*record.Group{g}); err != nil {
		t.Fatal(err)
	}
	want := `goos: linux
goarch: amd64
pkg: flow/a_b.star
cpu: A CPU
BenchmarkScreen_fast/case=4K/side=A 1 100.5 decode_tok_s 12000000 ttft-ns/op
BenchmarkScreen_fast/case=4K/side=B 1 100.5 decode_tok_s 12000000 ttft-ns/op
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
