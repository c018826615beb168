package hardware

import (
	"context"
	"fmt"
	"os"
	"runtime"
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

// BenchmarkSampler runs the sampler at 10 Hz and 100 Hz for as long as the benchmark asks and reports the
// share of a core that it took, by the CPU clock of its own threads, what it keeps, and what it allocates.
// Run it with -benchtime 100x and more: an operation is one interval.
func BenchmarkSampler(b *testing.B) {
	for _, hz := range []int{10, 100} {
		b.Run(fmt.Sprintf("%dHz", hz), func(b *testing.B) {
			srcs := Open(Options{NVML: true})
			defer closeAll(b, srcs)
			benchSampler(b, srcs, time.Second/time.Duration(hz), []int{os.Getpid()})
		})
	}
}

// BenchmarkSamplerOfMachines is the same on the trees of machines that have everything: an NVIDIA laptop
// with its chips, an AMD desktop. Their files are ordinary ones, which are quicker than the kernel's.
func BenchmarkSamplerOfMachines(b *testing.B) {
	for _, m := range []string{"nvidia-laptop", "amd-desktop", "cpu-server"} {
		for _, hz := range []int{10, 100} {
			b.Run(fmt.Sprintf("%s/%dHz", m, hz), func(b *testing.B) {
				o := tree(b, m)
				o.Now = nil
				srcs := Open(o)
				defer closeAll(b, srcs)
				benchSampler(b, srcs, time.Second/time.Duration(hz), nil)
			})
		}
	}
}

func benchSampler(b *testing.B, srcs []Source, interval time.Duration, engine []int) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s, err := StartSampler(context.Background(), SamplerOptions{Sources: srcs, Interval: interval})
	if err != nil {
		b.Fatal(err)
	}
	if engine != nil {
		s.Engine(func() []int { return engine })
	}
	start := time.Now()
	b.ResetTimer()
	for range b.N {
		time.Sleep(interval)
	}
	took := time.Since(start)
	st := s.Stop()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if st.CPUS != nil {
		b.ReportMetric(100**st.CPUS/took.Seconds(), "%core")
	}
	b.ReportMetric(float64(st.Late)/float64(st.Ticks), "late/tick")
	n := len(s.Samples())
	b.ReportMetric(float64(n)/took.Seconds(), "values/s")
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/(1<<20), "MiB-kept")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/(1<<20)/took.Seconds(), "MiB-allocated/s")
}

func closeAll(tb testing.TB, srcs []Source) {
	for _, s := range srcs {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	}
}
