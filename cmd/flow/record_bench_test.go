package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"flow/builtins/hardware"
	"flow/builtins/machine"
	"flow/db"
	"flow/workflows/record"
)

// BenchmarkRecordedSampling samples everything that this machine has, follows this process as an engine, and
// records the arm: rows and bytes on disk for each second that an arm lasts. An operation is one second.
//
//	go test ./cmd/flow -run '^$' -bench RecordedSampling -benchtime 10x
func BenchmarkRecordedSampling(b *testing.B) {
	for _, hz := range []int{10, 100} {
		b.Run(fmt.Sprintf("%dHz", hz), func(b *testing.B) {
			srcs := hardware.Open(hardware.Options{NVML: true})
			defer func() {
				for _, s := range srcs {
					_ = s.Close()
				}
			}()
			ctx, path := context.Background(), filepath.Join(b.TempDir(), "flow.db")
			d, err := db.Open(ctx, path)
			if err != nil {
				b.Fatal(err)
			}
			g := &record.Group{ID: "g", SessionID: "s", Name: "g", Role: record.RoleScreen, Control: "A", Primary: "wall_s", Better: "lower",
				Sides: []record.Side{{Label: "A", Control: true}}}
			must := func(err error) {
				if err != nil {
					b.Fatal(err)
				}
			}
			must(d.BeginSession(ctx, &record.Session{ID: "s", Measurer: record.MeasurerReal, Machine: record.Machine{ID: "m"}}))
			must(d.BeginGroup(ctx, g))
			must(d.Close())
			before := sizeOf(b, path)
			d, err = db.Open(ctx, path)
			must(err)
			s, err := hardware.StartSampler(ctx, hardware.SamplerOptions{Sources: srcs, Interval: time.Second / time.Duration(hz), Now: machine.Monotonic})
			must(err)
			s.Engine(func() []int { return []int{os.Getpid()} })
			b.ResetTimer()
			for range b.N {
				time.Sleep(time.Second)
			}
			b.StopTimer()
			s.Stop()
			a := &record.Arm{ID: "a", GroupID: "g", Label: "A", Purpose: "measured", Disposition: record.OK, Samples: s.Samples()}
			took := time.Now()
			must(d.EndArm(ctx, a))
			b.ReportMetric(float64(time.Since(took).Milliseconds())/float64(b.N), "ms-to-record/s")
			must(d.Close()) // and with it the log is in the file
			b.ReportMetric(float64(len(a.Samples))/float64(b.N), "rows/s")
			b.ReportMetric(float64(sizeOf(b, path)-before)/float64(b.N), "bytes/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func sizeOf(b *testing.B, path string) int64 {
	b.Helper()
	n := int64(0)
	for _, p := range []string{path, path + "-wal"} {
		if info, err := os.Stat(p); err == nil {
			n += info.Size()
		}
	}
	return n
}
