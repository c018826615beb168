package hardware

import (
	"context"
	"os"
	"testing"
	"time"
)

// BenchmarkEverything is one sample of everything this machine has, with flow's own process as the
// engine. At 10 Hz the bound of 1 % of a core is 1 ms of CPU a sample.
func BenchmarkEverything(b *testing.B) {
	srcs := Open(Options{NVML: true})
	defer closeAll(b, srcs)
	for i, s := range srcs {
		if x, ok := s.(binder); ok {
			if bound := x.bind(func() []int { return []int{os.Getpid()} }); bound != nil {
				srcs[i] = &guarded{Source: bound}
			}
		}
	}
	n := 0
	emit := func(string, float64) { n++ }
	b.ReportAllocs()
	now := monotonic()
	for b.Loop() {
		now += int64(100 * time.Millisecond)
		for _, s := range srcs {
			if err := s.Sample(now, emit); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(n)/float64(b.N), "values/op")
}

// BenchmarkSources is one reading of each source that this machine has.
func BenchmarkSources(b *testing.B) {
	for _, s := range Open(Options{NVML: true}) {
		if x, ok := s.(binder); ok {
			if bound := x.bind(func() []int { return []int{os.Getpid()} }); bound != nil {
				s = bound
			}
		}
		b.Run(s.Name(), func(b *testing.B) {
			b.ReportAllocs()
			now := monotonic()
			for b.Loop() {
				now += int64(100 * time.Millisecond)
				if err := s.Sample(now, func(string, float64) {}); err != nil {
					b.Fatal(err)
				}
			}
		})
		_ = s.Close()
	}
}

// BenchmarkSampler runs the sampler at 10 Hz for as long as the benchmark asks and reports the share of a
// core that it took, by the CPU clock of its own thread.
func BenchmarkSampler(b *testing.B) {
	srcs := Open(Options{NVML: true})
	defer closeAll(b, srcs)
	s, err := StartSampler(context.Background(), SamplerOptions{Sources: srcs})
	if err != nil {
		b.Fatal(err)
	}
	s.Engine(func() []int { return []int{os.Getpid()} })
	start := time.Now()
	b.ReportAllocs()
	for range b.N {
		time.Sleep(100 * time.Millisecond)
	}
	took := time.Since(start)
	st := s.Stop()
	if st.CPUS != nil {
		b.ReportMetric(100**st.CPUS/took.Seconds(), "%core")
	}
	b.ReportMetric(float64(st.Late)/float64(st.Ticks), "late/tick")
	b.ReportMetric(float64(len(s.Samples()))/took.Seconds(), "values/s")
}

func closeAll(tb testing.TB, srcs []Source) {
	for _, s := range srcs {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	}
}
