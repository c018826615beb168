package hardware

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// asEngine runs this binary as an engine that does nothing but compute: a fixed amount of work on every CPU.
const asEngine = "FLOW_TEST_BURN"

func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv(asEngine)); err == nil {
		fmt.Println(burn(n))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// burn is the seconds that n times ten million steps on each CPU take.
func burn(n int) float64 {
	start := time.Now()
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			x := uint64(1)
			for range n * 10_000_000 {
				x = x*6364136223846793005 + 1442695040888963407
			}
			runtime.KeepAlive(x)
		})
	}
	wg.Wait()
	return time.Since(start).Seconds()
}

// BenchmarkSlowdown is what sampling costs an engine that uses every CPU: a process of its own does the same work
// with the sampler and without, interleaved ABBA, followed by the sampler as an engine is. It reports the mean
// of the logarithms of the pairs' ratios, in percent, and its 95 % interval by Student's t, which holds the
// truth as far as the pairs are alike. "without" compares two runs without a sampler: what it shows is the
// noise of the method. An operation is one ABBA of about four seconds:
//
//	go test ./builtins/hardware -run '^$' -bench Slowdown -benchtime 40x
func BenchmarkSlowdown(b *testing.B) {
	for _, hz := range []int{0, 10, 100} {
		name := fmt.Sprintf("%dHz", hz)
		if hz == 0 {
			name = "without"
		}
		b.Run(name, func(b *testing.B) {
			srcs := Open(Options{NVML: true})
			defer closeAll(b, srcs)
			var d []float64
			for i := range 2 * b.N {
				first := engineRun(b, srcs, hz, i%2 == 1)
				second := engineRun(b, srcs, hz, i%2 == 0)
				x := math.Log(second / first)
				if i%2 == 1 {
					x = -x
				}
				d = append(d, x)
			}
			mean, half := interval(d)
			b.ReportMetric(100*mean, "%slower")
			b.ReportMetric(100*(mean-half), "%low")
			b.ReportMetric(100*(mean+half), "%high")
			b.ReportMetric(float64(len(d)), "pairs")
			b.ReportMetric(0, "ns/op") // how long the work takes says nothing
		})
	}
}

// engineRun is the seconds that one engine takes by its own clock.
func engineRun(b *testing.B, srcs []Source, hz int, sampled bool) float64 {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), exe)
	cmd.Env = append(os.Environ(), asEngine+"=60")
	var out strings.Builder
	cmd.Stdout = &out
	var s *Sampler
	if sampled && hz > 0 {
		if s, err = StartSampler(context.Background(), SamplerOptions{Sources: srcs, Interval: time.Second / time.Duration(hz)}); err != nil {
			b.Fatal(err)
		}
		defer s.Stop()
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	if s != nil {
		s.Engine(func() []int { return []int{cmd.Process.Pid} })
	}
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(out.String()), 64)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// interval is the mean and the half width of its 95 % interval; +Inf of one value.
func interval(xs []float64) (mean, half float64) {
	for _, x := range xs {
		mean += x / float64(len(xs))
	}
	if len(xs) < 2 {
		return mean, math.Inf(1)
	}
	ss := 0.
	for _, x := range xs {
		ss += (x - mean) * (x - mean)
	}
	n := float64(len(xs))
	return mean, distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(.975) * math.Sqrt(ss/(n-1)/n)
}

// TestInterval: two values lie 1 apart, so the mean's standard error is .5 and t of one degree is 12.706.
func TestInterval(t *testing.T) {
	if mean, half := interval([]float64{1, 2}); mean != 1.5 || math.Abs(half-6.3531) > 1e-3 {
		t.Errorf("got %v ± %v, want 1.5 ± 6.353", mean, half)
	}
}
